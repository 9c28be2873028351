"""Stream one log to a browser, no faster than it acknowledges.

Sends {"log": uuid, "offset": n, "next": m, "data": text}, at last {"log": uuid, "ended": true}. Offsets are bytes;
`data` never splits a UTF-8 sequence, and invalid bytes become U+FFFD.
"""

import asyncio
from collections.abc import Awaitable, Callable

from portal.live.rights import is_ended
from runtimes.log_store import LogStore

POLL_S = 0.15
ASK_EVERY = 10  # empty polls between checks for the task's end
ACK_WITHIN_S = 60
# JSON may need six characters for a byte (\u001b); messages stay below 256 KiB.
MOST_BYTES = 40 * 1024
LINE_WITHIN = 4096


class LogTail:
    def __init__(self, store: LogStore, task: str, offset: int, send: Callable[[dict], Awaitable[None]]):
        """offset: first byte; negative from the end, from a line's start."""
        self.store, self.task, self.offset, self.send = store, task, offset, send
        self.running: asyncio.Task | None = None
        self._acked = asyncio.Event()
        self._cut = False

    def acknowledge(self, offset: int) -> None:
        if offset >= self.offset:
            self._acked.set()

    async def run(self) -> None:
        """Send until the log is complete or acknowledgements stop."""
        if self.offset < 0:
            self.offset = await asyncio.to_thread(self._start_near_end)
        quiet, ended = 0, False
        while True:
            if await self._send_next(whole=ended):
                quiet = 0
                try:
                    await asyncio.wait_for(self._acked.wait(), ACK_WITHIN_S)
                except TimeoutError:
                    return
            elif ended:
                await self.send({"log": self.task, "ended": True})
                return
            else:
                ended = quiet % ASK_EVERY == 0 and await is_ended(self.task)
                quiet += 1
                await asyncio.sleep(POLL_S)

    async def _send_next(self, whole: bool) -> bool:
        """Send the next piece, if any. whole: nothing follows, so send a broken last character too."""
        data, _ = await asyncio.to_thread(self.store.read, self.task, self.offset, MOST_BYTES)
        if not whole:
            data = data[: len(data) - open_tail(data)]
        if not data:
            return False
        piece = {"log": self.task, "offset": self.offset, "next": self.offset + len(data)}
        piece["data"] = data.decode("utf-8", "replace")
        if self._cut:
            piece["cut"], self._cut = True, False
        self.offset += len(data)
        self._acked.clear()
        await self.send(piece)
        return True

    def _start_near_end(self) -> int:
        """Return a line start about `-offset` bytes before the end."""
        start = max(self.store.size(self.task) + self.offset, 0)
        if start == 0:
            return 0
        self._cut = True
        head, _ = self.store.read(self.task, start, LINE_WITHIN)
        newline = head.find(b"\n")
        return start + (newline + 1 if newline >= 0 else leading_rest(head))


def open_tail(data: bytes) -> int:
    """Count trailing bytes of an incomplete UTF-8 sequence: 0 to 3."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return back if length > back else 0
    return 0


def leading_rest(data: bytes) -> int:
    """Count leading bytes that continue a UTF-8 sequence: 0 to 3."""
    return next((i for i, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
