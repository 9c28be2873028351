"""A session's three streams on asyncio, over pipes or a pty."""

import asyncio
import fcntl
import os
import struct
import termios
from typing import NamedTuple

from runtimes.contract.access import PtySize

LAST_WORDS_S = 0.2  # pty output may follow the exit status
WIDEST = 10_000  # columns or rows


class Stream:
    """One end of a pipe or pty, owned. One reader and one writer at a time."""

    def __init__(self, fd: int):
        os.set_blocking(fd, False)
        self.fd = fd
        self.finished = False  # end of input instead of waiting
        self._waiting: set[asyncio.Future] = set()

    async def read(self, n: int) -> bytes:
        """Return b"" at the end and after close."""
        await asyncio.sleep(0)  # fairness to others
        while self.fd >= 0:
            try:
                return os.read(self.fd, n)
            except BlockingIOError:
                if self.finished:
                    break
                await self.readable()
            except OSError:
                break  # EIO: pty closed everywhere
        return b""

    async def write(self, data: bytes) -> None:
        """Write, waiting for the reader; drop what cannot be read."""
        rest = memoryview(data)
        while rest and self.fd >= 0:
            try:
                rest = rest[os.write(self.fd, rest) :]
            except BlockingIOError:
                await self._ready(reading=False)
            except OSError:
                break

    async def readable(self) -> None:
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
    """A session's descriptors: pty master and slave, or our and the program's ends of three pipes."""

    ours: tuple[int, ...]
    theirs: tuple[int, ...]

    def close(self) -> None:
        for fd in (*self.ours, *self.theirs):
            os.close(fd)


def open_ends(pty: PtySize | None) -> Ends:
    """Open a pty or three pipes. Raises OSError."""
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
    """A Session without signals and hang-up; subclasses report the end by `_ended`."""

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
            _set_size(self._in.fd, size)

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
        """Record the first exit code, or minus the signal."""
        if self._status.done():
            return
        self._status.set_result(status)
        if self._pty:  # a background program may keep it open
            asyncio.get_running_loop().call_later(LAST_WORDS_S, self._out.finish)


def _set_size(fd: int, size: PtySize) -> None:
    columns, rows = (min(max(number, 1), WIDEST) for number in size)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _settle(ready: asyncio.Future) -> None:
    if not ready.done():
        ready.set_result(None)
