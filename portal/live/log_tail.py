"""Stream one log to a browser, no faster than it acknowledges.

Sends {"log": uuid, "offset": n, "next": m, "data": text}, at last {"log": uuid, "ended": true}. Offsets are bytes;
`data` never splits a UTF-8 sequence, and invalid bytes become U+FFFD. Of a log that is followed from near its end, the
first piece has the number of its first line: {"line": n}.
"""

import asyncio
from collections.abc import Awaitable, Callable

from portal.live.rights import is_ended
from runtimes.log_reading import LogReader, open_tail
from runtimes.log_store import LogStore

POLL_S = 0.15
ASK_EVERY = 10  # empty polls between checks for the task's end
ACK_WITHIN_S = 60
# JSON may need six characters for a byte (\u001b); messages stay below 256 KiB.
MOST_BYTES = 40 * 1024


class LogTail:
    def __init__(self, store: LogStore, task: str, offset: int, send: Callable[[dict], Awaitable[None]]):
        """offset: first byte; negative from the end, from a line's start."""
        self.store, self.task, self.offset, self.send = store, task, offset, send
        self.running: asyncio.Task | None = None
        self._acked = asyncio.Event()
        self._line = 0

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
        if len(data) == MOST_BYTES:
            data = data[: data.rfind(b"\n") + 1] or data
        if not whole:
            data = data[: len(data) - open_tail(data)]
        if not data:
            return False
        piece = {"log": self.task, "offset": self.offset, "next": self.offset + len(data)}
        piece["data"] = data.decode("utf-8", "replace")
        if self._line:
            piece["line"], self._line = self._line, 0
        self.offset += len(data)
        self._acked.clear()
        await self.send(piece)
        return True

    def _start_near_end(self) -> int:
        """Return a line start about `-offset` bytes before the end."""
        log = LogReader(self.store, self.task)
        start = log.align(log.size + self.offset)
        self._line = log.count_line(start)
        return start
