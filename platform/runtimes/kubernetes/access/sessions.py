"""Interactive programs in a pod, by two execs: one for the streams, one that holds the program.

Engines report no lost client, forward no signals and may lose the last output. So holder.sh, whose stdin closes when we
disconnect, signals and hangs up the program of session.sh, which marks each output's end and waits for the marks'
arrival. They talk by a named pipe.
Source: k8s.io/apimachinery/pkg/util/remotecommand (v5: channel 255 closes one).
"""

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from secrets import token_hex

import aiohttp

from runtimes.contract.access import PtySize
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.kubernetes.api.async_client import AsyncClient, Websocket, receive, send
from runtimes.kubernetes.pods import names

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
SESSION, HOLDER = (Path(__file__).with_name(name).read_text() for name in ("session.sh", "holder.sh"))
HELD_BYTES = 256 * 1024
"""Unread bytes per stream; beyond it the whole session pauses."""
PATIENCE_S = 15.0
PING_EVERY_S = 20.0
"""Interval of pings, which detect a broken connection and keep proxies from closing an idle one."""
LATE_S = 5.0
"""Seconds for which a program's end waits for the holder's word, which comes by another connection."""
SIGKILLED = -9
DEFAULT_TERM = "xterm-256color"


async def start_session(
    client: AsyncClient, path: str, argv: Sequence[str], *, pty: PtySize | None, env: Mapping[str, str], cwd: str | None
) -> "PodSession":
    """Start a program through the pod's exec path. The session then owns the client. Raises Rejected, Unavailable."""
    if not argv:
        raise Rejected("There is no program to start.")
    name = token_hex(16)
    pipe = f"{names.TASK_ROOT}/.session-{name}"
    terminal = {"TERM": DEFAULT_TERM} if pty else {}
    variables = [f"{name}={value}" for name, value in {**terminal, **env}.items()]
    hold = _query(("/bin/sh", "-c", HOLDER, "tessera", pipe), pty=False)
    run = _query(("/bin/sh", "-c", SESSION, "tessera", pipe, cwd or "", *variables, "--", *argv), pty=pty is not None)
    holder, program = (asyncio.create_task(client.open(path, query, PROTOCOL)) for query in (hold, run))
    await asyncio.gather(holder, program, return_exceptions=True)
    session = PodSession(client, holder.result(), program.result(), pty, f"\x1e{name}\x1e".encode())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await session.begin()
    except TimeoutError:
        await session.close()
        raise Unavailable("The program did not start in time.") from None
    except BaseException:
        await session.close()
        raise
    return session


class PodSession:
    def __init__(self, client: AsyncClient, holder: Websocket, program: Websocket, pty: PtySize | None, mark: bytes):
        loop = asyncio.get_running_loop()
        self._client, self._holder, self._program, self._size = client, holder, program, pty
        self._started: asyncio.Future[str] = loop.create_future()  # "" or an error
        self._status: asyncio.Future[int] = loop.create_future()
        self._outputs = {channel: OutputBuffer(mark) for channel in ((STDOUT,) if pty else (STDOUT, STDERR))}
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task] = set()
        self._closed = False

    async def begin(self) -> None:
        """Wait until the program runs. Raises Rejected, Unavailable."""
        for work in (self._receive_holder(), self._receive_program(), self._send_pings()):
            self._run(work)
        if self._size:
            self.resize(self._size)
        if words := await asyncio.shield(self._started):
            raise Rejected(words)

    async def read(self, n: int = 65536) -> bytes:
        return await self._outputs[STDOUT].take(n)

    async def read_error(self, n: int = 65536) -> bytes:
        return b"" if self._size else await self._outputs[STDERR].take(n)

    async def write(self, data: bytes) -> None:
        async with self._sending:
            await send(self._program, STDIN, data)

    async def write_eof(self) -> None:
        if self._size:
            await self.write(b"\x04")
        else:
            async with self._sending:
                await send(self._program, CLOSE, bytes([STDIN]))

    def resize(self, size: PtySize) -> None:
        if self._size:
            self._size = size
            words = json.dumps({"Width": size.columns, "Height": size.rows}).encode()
            self._run(send(self._program, RESIZE, words))

    def send_signal(self, number: int) -> None:
        if not self._status.done():
            self._run(send(self._holder, STDIN, f"signal {int(number)}\n".encode()))

    async def wait(self) -> int:
        return await asyncio.shield(self._status)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._set_status(SIGKILLED)
        for output in self._outputs.values():
            output.close()
        tasks = [work for work in self._tasks if work is not asyncio.current_task()]
        for work in tasks:
            work.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(aiohttp.ClientError, OSError):
            await send(self._holder, CLOSE, bytes([STDIN]))
        await self._client.close()

    async def _receive_holder(self) -> None:
        """Read its lines: "started", "failed <words>", "exit <code>"."""
        rest = b""
        while (message := await receive(self._holder)) is not None:
            if message[0] == STDOUT:
                *lines, rest = (rest + message[1]).split(b"\n")
                for line in lines:
                    self._handle_line(*line.decode(errors="replace").partition(" ")[::2])
        self._fail("The program's holder is gone.")

    def _handle_line(self, word: str, rest: str) -> None:
        if word in ("started", "failed") and not self._started.done():
            self._started.set_result(rest if word == "failed" else "")
        elif word == "exit" and rest.isdecimal() and not self._size:  # a pty's status follows its output
            self._set_status(parse_exit_code(int(rest)))

    async def _receive_program(self) -> None:
        let_go = False
        while (message := await receive(self._program)) is not None:
            channel, data = message
            if channel in self._outputs:
                await self._outputs[channel].put(data)
                if not let_go and all(output.marked for output in self._outputs.values()):
                    let_go = True
                    await send(self._holder, STDIN, b"done\n")
            elif channel == STATUS:
                self._set_status(parse_status(data))
        for output in self._outputs.values():
            output.end()
        await asyncio.wait([self._started], timeout=LATE_S)
        self._fail("The program's connection broke.")

    async def _send_pings(self) -> None:
        while True:
            await asyncio.sleep(PING_EVERY_S)
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await self._holder.ping()
                await self._program.ping()

    def _fail(self, words: str) -> None:
        if not self._started.done():
            self._started.set_exception(Unavailable(words))
            self._started.exception()  # perhaps never awaited
        self._set_status(SIGKILLED)

    def _set_status(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)

    def _run(self, work: Coroutine) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class OutputBuffer:
    """Bounded buffer of a program's output. mark: removed once, where it ends."""

    def __init__(self, mark: bytes):
        self._mark, self.marked = mark, False
        self._kept = b""  # perhaps a partial mark
        self._bytes, self._over = bytearray(), False
        self._news, self._room = asyncio.Event(), asyncio.Event()

    async def put(self, data: bytes) -> None:
        while len(self._bytes) >= HELD_BYTES:
            self._room.clear()
            await self._room.wait()
        self._bytes += data if self.marked else self._without_mark(self._kept + data)
        self._news.set()

    async def take(self, n: int) -> bytes:
        """Return up to n bytes; b"" at the end."""
        while not self._bytes and not self._over:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._bytes[:n])
        del self._bytes[:n]
        self._room.set()
        return data

    def _without_mark(self, data: bytes) -> bytes:
        self._kept = b""
        before, mark, after = data.partition(self._mark)
        if mark:
            self.marked = True
            return before + after
        begins = data.rfind(self._mark[:1], max(len(data) - len(self._mark) + 1, 0))
        if begins >= 0 and self._mark.startswith(data[begins:]):
            self._kept = data[begins:]
            return data[:begins]
        return data

    def end(self) -> None:
        self._bytes += self._kept
        self._over = True
        self._news.set()

    def close(self) -> None:
        """Discard everything: no reader is left."""
        self.end()
        self._bytes.clear()


def parse_exit_code(code: int) -> int:
    """Convert a shell's status: 128 + a signal becomes its negative."""
    return 128 - code if 128 < code <= 128 + 64 else code


def parse_status(data: bytes) -> int:
    """Return the exit code of an API Status; SIGKILL's without one."""
    try:
        told = json.loads(data)
        if told.get("status") == "Success":
            return 0
        causes = told["details"]["causes"]
        return parse_exit_code(next(int(cause["message"]) for cause in causes if cause["reason"] == "ExitCode"))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return SIGKILLED


def _query(argv: Sequence[str], *, pty: bool) -> list[tuple[str, str]]:
    streams = [("stdin", "true"), ("stdout", "true"), ("stderr", str(not pty).lower()), ("tty", str(pty).lower())]
    return [("container", "main"), *streams, *(("command", word) for word in argv)]
