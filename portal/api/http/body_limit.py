"""Cut off oversized request bodies while they arrive.

In front of Django, which stores bodies on disk before any view. Views have smaller limits.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from common.errors import PlatformError, TooLarge
from portal.api.http.problems import CONTENT_TYPE, title_of
from portal.wording.errors import describe_error

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class BodyLimit:
    """Wraps an ASGI application. limit: bytes."""

    def __init__(self, app: Callable[..., Awaitable[None]], limit: int):
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif said_length(scope) > self.limit:
            await send_problem(scope, send, TooLarge(max=self.limit))
        else:
            await self._count(scope, receive, send)

    async def _count(self, scope: Message, receive: Receive, send: Send) -> None:
        """Count what arrives; over the limit, the application sees a disconnect."""
        total, answered = 0, False

        async def counted() -> Message:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            return {"type": "http.disconnect"} if total > self.limit else message

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        await self.app(scope, counted, noted)
        if total > self.limit and not answered:
            await send_problem(scope, send, TooLarge(max=self.limit))


async def send_problem(scope: Message, send: Send, error: PlatformError, response: str = "http.response") -> None:
    """Answer a request that never reaches Django. response: what ASGI calls it."""
    about = {"type": f"urn:tessera:problem:{error.code}", "title": title_of(error), "status": error.status}
    more = {"detail": describe_error(error), "instance": scope["path"], "code": error.code, "params": error.params}
    body = json.dumps({**about, **more, "request_id": "", "errors": [], "hints": []}).encode()
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": f"{response}.start", "status": error.status, "headers": headers})
    await send({"type": f"{response}.body", "body": body})


def said_length(scope: Message) -> int:
    said = dict(scope["headers"]).get(b"content-length", b"")
    return int(said) if said.isdigit() and len(said) < 19 else 0
