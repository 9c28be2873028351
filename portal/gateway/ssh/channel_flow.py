"""Flow control of an SSH channel, with bounded buffers both ways."""

import asyncio
from collections import deque
from typing import Any

HELD_BYTES = 1024 * 1024


class Flow:
    """Mixin for asyncssh's sessions; `touched` is called whenever data passes."""

    chan: Any

    def __init__(self) -> None:
        self.lost = False
        self._came: deque[bytes] = deque()
        self._held = 0
        self._eof = False
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    def touched(self) -> None:
        pass

    async def receive(self) -> bytes:
        while not self._came:
            if self._eof:
                return b""
            self._news.clear()
            await self._news.wait()
        data = self._came.popleft()
        if self._held > HELD_BYTES >= self._held - len(data):
            self.chan.resume_reading()
        self._held -= len(data)
        return data

    async def send(self, data: bytes, kind: int | None = None) -> None:
        """Send data, waiting while the client's buffer is full; does nothing after a disconnect."""
        self.touched()
        if not self.lost:
            try:
                self.chan.write(data, kind)
            except OSError:
                return
            await self._room.wait()

    # ---- asyncssh's callbacks ----

    def connection_made(self, chan: Any) -> None:
        self.chan = chan
        chan.set_write_buffer_limits(high=HELD_BYTES)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self.touched()
        if self._held <= HELD_BYTES < self._held + len(data):
            self.chan.pause_reading()
        self._held += len(data)
        self._came.append(data)
        self._news.set()

    def eof_received(self) -> bool:
        self._eof = True
        self._news.set()
        return True  # keeps our direction open

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = self._eof = True
        self._news.set()
        self._room.set()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
