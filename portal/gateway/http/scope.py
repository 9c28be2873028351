"""ASGI types and requests."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from portal.gateway.http.tokens import find_token, without_token

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """A request; `method` is "WEBSOCKET" for an upgrade, `raw_path` percent-encoded, `scheme` the app URL's.

    token: a notebook's, which is in neither `query` nor what an app gets. "" in a browser's navigation.
    """

    method: str
    raw_path: str
    query: str
    headers: list[tuple[bytes, bytes]]
    scheme: str
    has_body: bool
    token: str = ""

    @property
    def full_path(self) -> str:
        return f"{self.raw_path}?{self.query}" if self.query else self.raw_path


def read_scope(scope: Message) -> Request:
    """Return a request to an app's host."""
    headers = list(scope["headers"])
    query = scope["query_string"].decode("latin-1")
    scheme, token = settings.TESSERA_APPS_URL.partition(":")[0], find_token(headers, query)
    return build_request(scope, read_raw_path(scope), without_token(query), headers, scheme, token)


def build_request(
    scope: Message, raw_path: str, query: str, headers: list[tuple[bytes, bytes]], scheme: str, token: str = ""
) -> Request:
    names = dict(scope["headers"])
    has_body = b"transfer-encoding" in names or names.get(b"content-length", b"0") != b"0"
    return Request(scope.get("method", "WEBSOCKET"), raw_path, query, headers, scheme, has_body, token)


def read_raw_path(scope: Message) -> str:
    return (scope.get("raw_path") or b"/").decode("latin-1").partition("?")[0]
