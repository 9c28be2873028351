"""One log, streamed to one browser as it is written, no faster than the browser acknowledges.

Sends {"log": uuid, "offset": n, "next": m, "data": text} and at last {"log": uuid, "ended": true}. Offsets are bytes of
the stored log; `data` never begins or ends inside a UTF-8 sequence, and bytes that are no UTF-8 become U+FFFD.
"""

import asyncio
from collections.abc import Awaitable, Callable

from portal.live.rights import is_ended
from runtimes.logs import LogStore

POLL_S = 0.15
ASK_EVERY = 10  # quiet polls between questions whether the task has ended
ACK_WITHIN_S = 60
# JSON may need six characters for a byte (\u001b), so that a message stays below 256 KiB.
MOST_BYTES = 40 * 1024
LINE_WITHIN = 4096


class LogTail:
    def __init__(self, store: LogStore, task: str, offset: int, send: Callable[[dict], Awaitable[None]]):
        """offset: where to begin; negative counts from the end, and then begins at a line."""
        self.store, self.task, self.offset, self.send = store, task, offset, send
        self.running: asyncio.Task | None = None
        self._acked = asyncio.Event()
        self._cut = False

    def acknowledge(self, offset: int) -> None:
        """The browser has shown everything before `offset`."""
        if offset >= self.offset:
            self._acked.set()

    async def run(self) -> None:
        """Until the task has ended and all is sent, or the browser stops acknowledging."""
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
        """Send the next piece, if there is one. whole: nothing more will come, so a broken last character goes too."""
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
        """The offset of a line's beginning about `-offset` bytes before the end."""
        start = max(self.store.size(self.task) + self.offset, 0)
        if start == 0:
            return 0
        self._cut = True
        head, _ = self.store.read(self.task, start, LINE_WITHIN)
        newline = head.find(b"\n")
        return start + (newline + 1 if newline >= 0 else leading_rest(head))


def open_tail(data: bytes) -> int:
    """How many bytes at the end begin a UTF-8 sequence that is not complete: 0 to 3."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return back if length > back else 0
    return 0


def leading_rest(data: bytes) -> int:
    """How many bytes at the beginning continue a sequence that began earlier: 0 to 3."""
    return next((i for i, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
