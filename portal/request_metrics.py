"""Counts requests and websockets, by route and answer."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpRequest

from metrics.process import HTTP_SECONDS, REFUSED_REQUESTS, UNKNOWN_CALLERS, WEBSOCKETS_OPEN, WEBSOCKETS_REFUSED

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def count_request(request: HttpRequest, status: int, took_s: float) -> None:
    """Count an answered request, by the name of its route: addresses themselves would be unbounded."""
    route = request.resolver_match.view_name if request.resolver_match else "none"
    method = request.method if request.method in METHODS else "other"
    HTTP_SECONDS.labels(route, method, status).observe(took_s)
    if status == 403:
        REFUSED_REQUESTS.labels(route).inc()
    elif status == 401:
        UNKNOWN_CALLERS.labels("api").inc()


class CountedSockets:
    """An ASGI application for websockets that counts them. The reason of a refusal is its status or close code."""

    def __init__(self, application: Application):
        self._application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        state = "new"

        async def counted(message: Message) -> None:
            nonlocal state
            kind = message["type"]
            if state == "new" and kind == "websocket.accept":
                state = "open"
                WEBSOCKETS_OPEN.inc()
            elif state == "new" and kind in ("websocket.close", "websocket.http.response.start"):
                state = "refused"
                WEBSOCKETS_REFUSED.labels(str(message.get("status", message.get("code", 403)))).inc()
            await send(message)

        try:
            await self._application(scope, receive, counted)
        finally:
            if state == "open":
                WEBSOCKETS_OPEN.dec()
