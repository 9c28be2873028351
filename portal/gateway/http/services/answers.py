"""What the door of services adds and takes away, and its own refusals: problem+json (RFC 9457)."""

import json

from asgiref.sync import sync_to_async
from django.utils import translation

from common.errors import NotSignedIn, PlatformError
from portal.gateway.http.cross_origin import Headers
from portal.gateway.http.headers import to_browser
from portal.gateway.http.responses import CLOSED, SEALED, Answer, language_of
from portal.wording.errors import describe_error, link_help

# A service answers on the portal's own host: no page of it may run there, nor set what the portal reads.
SANDBOX = [
    (b"content-security-policy", b"sandbox; default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
]
NEVER = {b"set-cookie", b"service-worker-allowed", b"www-authenticate", *(name for name, _ in SANDBOX)}
NOT_PASSED_ON = {b"cookie", b"authorization"}


def to_replica(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return a caller's headers without cookies and without the secret that opened the door."""
    return [(name, value) for name, value in headers if name.lower() not in NOT_PASSED_ON]


def to_caller(prefix: str, headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return a replica's headers. prefix: what stands before its paths, as in a Location."""
    kept = [(name, value) for name, value in to_browser(headers) if name not in NEVER]
    return [(name, _prefixed(prefix, value) if name == b"location" else value) for name, value in kept] + SANDBOX


def _prefixed(prefix: str, location: bytes) -> bytes:
    inside = location.startswith(b"/") and not location.startswith(b"//")
    return prefix.encode("ascii") + location if inside else location


async def build_problem(error: PlatformError, headers: Headers, language: str, **more: object) -> Answer:
    """Return a refusal in the caller's language. more: members beside the usual ones."""
    return await sync_to_async(_build)(error, headers, language, more)


def _build(error: PlatformError, headers: Headers, language: str, more: dict) -> Answer:
    with translation.override(language_of(headers, language)):
        detail = describe_error(error)
    about = {"type": link_help(error.code), "title": detail, "status": error.status, "detail": detail}
    about["message"] = detail  # what OpenAI's clients show
    body = json.dumps({**about, "code": error.code, **more}).encode()
    answer = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    if (retry_s := error.params.get("retry_after_s")) is not None:
        answer.append((b"retry-after", str(retry_s).encode()))
    if isinstance(error, NotSignedIn):
        answer.append((b"www-authenticate", b'Bearer realm="tessera services"'))
    return Answer(error.status, [*answer, (b"content-security-policy", CLOSED.encode()), *SEALED], body)
