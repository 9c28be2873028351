"""A session's three streams on asyncio: pipes or a pty whose far ends some program holds. Used by every Access."""

import asyncio
import fcntl
import os
import struct
import termios
from typing import NamedTuple

from runtimes.base import PtySize

LAST_WORDS_S = 0.2  # what a program wrote to its pty may come a little later than the news of its end
WIDEST = 10_000  # columns or rows


class Stream:
    """One end of a pipe or pty. One may read and one may write at a time; it owns the descriptor."""

    def __init__(self, fd: int):
        os.set_blocking(fd, False)
        self.fd = fd
        self.finished = False  # reading ends where it would wait
        self._waiting: set[asyncio.Future] = set()

    async def read(self, n: int) -> bytes:
        """b"" at the end, and when it was closed here."""
        await asyncio.sleep(0)  # a program that never stops writing leaves others their turn
        while self.fd >= 0:
            try:
                return os.read(self.fd, n)
            except BlockingIOError:
                if self.finished:
                    break
                await self.readable()
            except OSError:
                break  # EIO: nobody has the pty open any more
        return b""

    async def write(self, data: bytes) -> None:
        """Waits while nobody reads. What can never be read is lost without a word."""
        rest = memoryview(data)
        while rest and self.fd >= 0:
            try:
                rest = rest[os.write(self.fd, rest) :]
            except BlockingIOError:
                await self._ready(reading=False)
            except OSError:
                break

    async def readable(self) -> None:
        """Wait until there is something to read, or the end."""
        await self._ready(reading=True)

    def finish(self) -> None:
        self.finished = True
        self._wake()

    def close(self) -> None:
        if self.fd >= 0:
            self._wake()
            loop = asyncio.get_running_loop()
            loop.remove_reader(self.fd)
            loop.remove_writer(self.fd)
            os.close(self.fd)
            self.fd = -1

    async def _ready(self, *, reading: bool) -> None:
        loop, fd = asyncio.get_running_loop(), self.fd
        ready: asyncio.Future = loop.create_future()
        self._waiting.add(ready)
        (loop.add_reader if reading else loop.add_writer)(fd, _settle, ready)
        try:
            await ready
        finally:
            self._waiting.discard(ready)
            if self.fd == fd:
                (loop.remove_reader if reading else loop.remove_writer)(fd)

    def _wake(self) -> None:
        for ready in self._waiting:
            _settle(ready)


class Ends(NamedTuple):
    """ours: the pty's master, or where we write, read, and read errors. theirs: the slave, or their stdin, stdout and
    stderr.
    """

    ours: tuple[int, ...]
    theirs: tuple[int, ...]

    def close(self) -> None:
        for fd in (*self.ours, *self.theirs):
            os.close(fd)


def open_ends(pty: PtySize | None) -> Ends:
    """Raises OSError when there are no more descriptors or ptys."""
    if pty is not None:
        master, slave = os.openpty()
        _set_size(master, pty)
        return Ends((master,), (slave,))
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(3):
            pipes.append(os.pipe2(os.O_CLOEXEC))
    except OSError:
        for fd in (fd for pipe in pipes for fd in pipe):
            os.close(fd)
        raise
    (in_r, in_w), (out_r, out_w), (err_r, err_w) = pipes
    return Ends((in_w, out_r, err_r), (in_r, out_w, err_w))


class StreamSession:
    """All of a session but how its program is signalled and hung up: a subclass tells the program's end by `_ended`."""

    def __init__(self, ours: tuple[int, ...]):
        self._pty = len(ours) == 1
        streams = [Stream(fd) for fd in ours]
        self._in, self._out = streams[0], streams[0 if self._pty else 1]
        self._error = None if self._pty else streams[2]
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def read(self, n: int = 65536) -> bytes:
        return await self._out.read(n)

    async def read_error(self, n: int = 65536) -> bytes:
        return await self._error.read(n) if self._error else b""

    async def write(self, data: bytes) -> None:
        await self._in.write(data)

    async def write_eof(self) -> None:
        if self._pty:
            await self._in.write(b"\x04")
        else:
            self._in.close()

    def resize(self, size: PtySize) -> None:
        if self._pty and self._in.fd >= 0:
            _set_size(self._in.fd, size)  # the kernel tells the program in front: SIGWINCH

    def send_signal(self, number: int) -> None:
        raise NotImplementedError

    async def wait(self) -> int:
        return await asyncio.shield(self._status)

    async def close(self) -> None:
        self._hang_up()
        for stream in (self._in, self._out, *([self._error] if self._error else [])):
            stream.close()

    def _hang_up(self) -> None:
        raise NotImplementedError

    def _ended(self, status: int) -> None:
        """status: the exit code, or the signal as a negative number. The first word counts."""
        if self._status.done():
            return
        self._status.set_result(status)
        if self._pty:  # a program in the background may keep the pty open for ever
            asyncio.get_running_loop().call_later(LAST_WORDS_S, self._out.finish)


def _set_size(fd: int, size: PtySize) -> None:
    columns, rows = (min(max(number, 1), WIDEST) for number in size)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _settle(ready: asyncio.Future) -> None:
    if not ready.done():
        ready.set_result(None)
