"""Cut off oversized and stalled request bodies while they arrive.

In front of Django, which stores bodies on disk before any view. Views have smaller limits.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from common.errors import PlatformError, TooLarge, TooSlow
from portal.api.http.problems import CONTENT_TYPE, title_of
from portal.wording.errors import describe_error, link_help

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


STALLS_AFTER_S = 20
PROGRESS_BYTES = 1024
"""What arrives at least in this time, unless it is the rest."""


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
        """Count what arrives; of a body that is cut off, the application sees a disconnect."""
        body, answered = Arriving(receive, self.limit), False

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        await self.app(scope, body.receive, noted)
        if body.refusal and not answered:
            await send_problem(scope, send, body.refusal)


class Arriving:
    """A body on its way. refusal: why it was cut off."""

    def __init__(self, receive: Receive, limit: int):
        self._receive, self._limit = receive, limit
        self._total, self._progress, self._whole = 0, 0, False
        self._stalls_at = asyncio.get_running_loop().time() + STALLS_AFTER_S
        self.refusal: PlatformError | None = None

    async def receive(self) -> Message:
        if self._whole:  # a disconnect may come as late as it likes
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._stalls_at):
                message = await self._receive()
        except TimeoutError:
            self.refusal = TooSlow(bytes=PROGRESS_BYTES, seconds=STALLS_AFTER_S)
            return {"type": "http.disconnect"}
        self._note(len(message.get("body", b"")))
        self._whole = not message.get("more_body", False)
        if self._total > self._limit:
            self.refusal = TooLarge(max=self._limit)
        return {"type": "http.disconnect"} if self.refusal else message

    def _note(self, size: int) -> None:
        self._total += size
        self._progress += size
        if self._progress >= PROGRESS_BYTES:
            self._progress, self._stalls_at = 0, asyncio.get_running_loop().time() + STALLS_AFTER_S


async def send_problem(scope: Message, send: Send, error: PlatformError, response: str = "http.response") -> None:
    """Answer a request that never reaches Django. response: what ASGI calls it."""
    about = {"type": f"urn:tessera:problem:{error.code}", "title": title_of(error), "status": error.status}
    more = {"detail": describe_error(error), "instance": scope["path"], "code": error.code, "params": error.params}
    more["help"] = link_help(error.code)
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
