"""A request's head as it is sent to an app. Pure functions."""

from dataclasses import dataclass

from portal.gateway.http.headers import to_program
from portal.gateway.http.scope import Request


@dataclass(slots=True)
class RequestHead:
    """data: as sent. to_head: its answer has no body. is_chunked: nothing else tells how long its body is."""

    data: bytes
    to_head: bool
    has_body: bool
    is_chunked: bool


def build_head(request: Request, authorization: str) -> RequestHead:
    """Return the head of a request to an app. authorization: replaces the client's, if set."""
    headers = to_program(request.headers, request.scheme, authorization)
    names = {name for name, _ in headers}
    is_chunked = request.has_body and b"content-length" not in names
    lines = [f"{request.method} {request.full_path} HTTP/1.1".encode("latin-1")]
    lines += [name + b": " + value for name, value in headers]
    if is_chunked:
        lines.append(b"transfer-encoding: chunked")
    if b"host" not in names:
        lines.append(b"host: localhost")
    return RequestHead(b"\r\n".join(lines) + b"\r\n\r\n", request.method == "HEAD", request.has_body, is_chunked)
