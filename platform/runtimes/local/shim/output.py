"""Write a job's output to its log, with limits on rate, size and lines. Few imports, for the shim.

Output above `rate` is dropped with a marker, but for the job's last. Long logs keep head and tail. Long lines are cut;
a carriage return ends one, too.
"""

import os
import time
from collections.abc import Callable

from agent.logs.capping import NewestBytes, format_marker
from runtimes.log_times import RECORD, UNKNOWN

MIB = 1 << 20
LATEST = 8192


class CappedLog:
    def __init__(
        self,
        fd: int,
        times: int = -1,
        *,
        rate=MIB,
        burst=8 * MIB,
        total=200 * MIB,
        line=16384,
        tail=MIB,
        clock=time.monotonic,
        now: Callable[[], float] = time.time,
    ):
        """fd: for append. times: for append, too, when it came. rate: bytes/s; the rest: bytes."""
        self.fd, self.rate, self.burst, self.line, self.clock = fd, rate, burst, line, clock
        self.head_left = total - tail
        self.tokens, self.filled_at = float(burst), clock()
        self.fast = 0  # bytes dropped since the last marker
        self.latest = b""  # their end
        self.column, self.cut = 0, 0
        self.tail = NewestBytes(tail)
        self.unwritten = 0
        self.times, self.now, self.second = times, now, UNKNOWN
        self.size = os.fstat(fd).st_size if fd >= 0 else 0

    def feed(self, data: bytes) -> None:
        self._refill()
        if self.fast:
            data = self._resume(data)
        if not data:
            return
        if len(data) > self.tokens:
            cut = data.rfind(b"\n", 0, int(self.tokens)) + 1
            self._leave_out(data[cut:])
            data = data[:cut]
        self.tokens -= len(data)
        self._store(self._shorten(data))

    def finish(self) -> None:
        """Write what is held back, once; nobody knows when it came."""
        self.now = lambda: UNKNOWN
        if self.fast:
            last_words = self.latest[self.latest.find(b"\n") + 1 :]
            self.fast -= len(last_words)
            self._store(self._too_fast())
            self._store(self._shorten(last_words))
        if self.cut:
            self._store(self._too_long())
        if lost := self.tail.dropped:
            self._write(format_marker(f"{lost} bytes are not kept here: the log is full; its last part follows"))
        for piece in self.tail.pieces:
            self._write(piece)
        if self.unwritten:
            self._write(format_marker(f"{self.unwritten} bytes could not be written"))

    def _refill(self) -> None:
        now = self.clock()
        self.tokens = min(self.burst, self.tokens + (now - self.filled_at) * self.rate)
        self.filled_at = now

    def _resume(self, data: bytes) -> bytes:
        """Drop data until there is room and a line begins."""
        begin = data.find(b"\n") + 1 if self.tokens >= min(self.rate, self.burst) / 4 else 0
        if not begin:
            self._leave_out(data)
            return b""
        self.fast += begin
        self._store(self._too_fast())
        return data[begin:]

    def _leave_out(self, data: bytes) -> None:
        self.fast += len(data)
        self.latest = (self.latest + data)[-LATEST:]

    def _shorten(self, data: bytes) -> bytes:
        kept = []
        for line in data.splitlines(keepends=True):
            ended = line.endswith((b"\n", b"\r"))
            room = max(0, self.line - self.column)
            if len(line) - ended <= room:
                kept.append(line)
            else:
                kept.append(line[:room])
                self.cut += len(line) - ended - room
            self.column = 0 if ended else self.column + len(line)
            if ended and self.cut:
                kept.append(self._too_long())
        return b"".join(kept)

    def _too_long(self) -> bytes:
        cut, self.cut = self.cut, 0
        return format_marker(f"{cut} bytes of this line are not kept: a line ends at {self.line}")

    def _too_fast(self) -> bytes:
        fast, self.fast, self.column, self.cut = self.fast, 0, 0, 0
        return format_marker(f"{fast} bytes are not kept here: they came faster than {self.rate} bytes/s")

    def _store(self, data: bytes) -> None:
        now, later = data[: self.head_left], data[self.head_left :]
        self.head_left -= len(now)
        self._write(now)
        if later:
            self.tail.add(later)

    def _write(self, data: bytes) -> None:
        self._note_time()
        while data:
            try:
                written = os.write(self.fd, data)
                data, self.size = data[written:], self.size + written
            except OSError:  # a full disk must not end jobs
                self.unwritten += len(data)
                return

    def _note_time(self) -> None:
        """Note when what follows came, once for each second."""
        second = int(self.now())
        if self.times < 0 or second == self.second:
            return
        try:
            os.write(self.times, RECORD.pack(self.size, second))
            self.second = second
        except OSError:  # the next piece tries again
            pass
