"""Reads a request ahead while it is held, to notice that its caller has left."""

import asyncio
from collections import deque
from functools import cached_property

from portal.gateway.http.scope import Message, Receive

MOST_BYTES = 1024 * 1024
"""Of a body that is kept while its request is held; the caller of a larger one is noticed to have left only later."""
DISCONNECTS = ("http.disconnect", "websocket.disconnect")


class EarlyBody:
    """A `receive` that hands out what was read ahead first."""

    def __init__(self, receive: Receive):
        self._receive = receive
        self._early: deque[Message] = deque()
        self._reading: asyncio.Task[None] | None = None

    @cached_property
    def left(self) -> asyncio.Event:
        """Set once the caller has gone while its request was read ahead."""
        return asyncio.Event()

    async def __call__(self) -> Message:
        if self._reading is not None:
            await self.stop()
        if self._early:
            return self._early.popleft()
        return await self._receive()

    def read_ahead(self) -> None:
        """Begin to read, up to MOST_BYTES; `left` is set once the caller has gone."""
        self._reading = self._reading or asyncio.create_task(self._read())

    async def stop(self) -> None:
        """Stop reading ahead. Nothing that was read is lost."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self) -> None:
        size = sum(len(message.get("body", b"")) for message in self._early)
        while size < MOST_BYTES and not self.left.is_set():
            message = await self._receive()
            self._early.append(message)
            size += len(message.get("body", b""))
            if message["type"] in DISCONNECTS:
                self.left.set()
