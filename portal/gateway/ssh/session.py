"""SSH sessions: a shell, command or SFTP in a task, by its sftp-server or our own (sftp.py)."""

import asyncio
import contextlib
import logging
import re
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import asyncssh
from django.utils import translation

from common.errors import PlatformError
from portal.access.task_access import LOGIN_SHELL, TaskAccess
from portal.gateway.ssh.channel_flow import Flow
from portal.gateway.ssh.task_files import LOOP, TaskFiles
from portal.gateway.ssh.task_sftp import serve_sftp
from portal.wording.errors import describe_error
from runtimes.contract.access import PtySize, Session
from runtimes.contract.errors import Rejected, Unavailable

log = logging.getLogger("tessera.ssh")

REFUSED = 255  # as ssh when it cannot connect
SAFE_NAMES = re.compile(r"LANG|LC_[A-Z]{1,20}|TERM|COLORTERM")
LONGEST_VALUE = 256
STDERR = asyncssh.EXTENDED_DATA_STDERR
# As LOGIN_SHELL: a notebook's folder and its pages' Python.
BEGIN = (
    'if [ -n "$NOTEBOOK_FOLDER" ]; then cd "$HOME/$NOTEBOOK_FOLDER";'
    ' PATH="${TESSERA_TOOLS:+$TESSERA_TOOLS/bin:}$PATH"; export PATH; fi; '
)
COMMAND = f'{BEGIN}if [ -x /bin/bash ]; then exec /bin/bash -c "$1"; fi; exec /bin/sh -c "$1"'
SFTP = (
    "/bin/sh",
    "-c",
    f"{BEGIN}for p in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec; do"
    f' if [ -x "$p/sftp-server" ]; then printf S; exec "$p/sftp-server"; fi; done; {LOOP}',
)
BY_NAME = {number.name.removeprefix("SIG"): number for number in (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2,
)}  # fmt: skip


class Link(Protocol):
    """The connection, as its sessions use it."""

    language: str

    def touched(self) -> None: ...

    async def enter(
        self, argv: Sequence[str], pty: PtySize | None, env: dict[str, str]
    ) -> tuple[TaskAccess, Session]: ...

    async def start(self, argv: Sequence[str]) -> Session:
        """Start a further program, not recorded as a session."""
        ...

    async def leave(self, access: TaskAccess, began: float) -> None: ...

    def began(self, session: "TaskSession") -> None: ...

    def ended(self, session: "TaskSession") -> None: ...


class TaskSession(Flow, asyncssh.SSHServerSession):
    def __init__(self, link: Link):
        super().__init__()
        self._link = link
        self._argv: Sequence[str] = ()
        self._pty: PtySize | None = None
        self._program: Session | None = None
        self._work: asyncio.Task | None = None
        self._closing: asyncio.Task | None = None

    def touched(self) -> None:
        self._link.touched()

    async def end(self, line: str) -> None:
        """Write the reason and close the session."""
        await self._print_line(line)
        self._exit(REFUSED)
        self._hang_up()

    async def finished(self) -> None:
        if self._work:
            await asyncio.wait([self._work])

    # ---- asyncssh's callbacks ----

    def pty_requested(self, term_type: str, term_size: tuple[int, int, int, int], term_modes: object) -> bool:
        self._pty = _size(term_size[0], term_size[1])
        return True

    def shell_requested(self) -> bool:
        self._argv = LOGIN_SHELL
        return True

    def exec_requested(self, command: str) -> bool:
        self._argv = ["/bin/sh", "-c", COMMAND, "sh", command]
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        self._argv = SFTP
        return subsystem == "sftp"

    def session_started(self) -> None:
        self._link.began(self)
        self._work = asyncio.create_task(self._run())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._link.ended(self)
        self._hang_up()

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        self._pty = _size(width, height)
        if self._program:
            self._program.resize(self._pty)

    def signal_received(self, signal: str) -> None:
        if self._program and signal in BY_NAME:
            self._program.send_signal(BY_NAME[signal])

    def break_received(self, msec: int) -> bool:
        return False

    async def _run(self) -> None:
        began = asyncio.get_running_loop().time()
        try:
            access, program = await self._link.enter(self._argv, self._pty, self._environment())
        except (PlatformError, Rejected, Unavailable) as no:
            await self._print_line(self._describe_error(no))
            self._exit(REFUSED)
            return
        self._program = program
        try:
            if self.lost:  # disconnected during the start
                pass
            elif self._argv is SFTP and await program.read(1) == b"F":
                await serve_sftp(self, TaskFiles(program), self._link.start)
                self._exit(0)
            else:
                await self._pump(program)
        finally:
            await program.close()
            await self._link.leave(access, began)

    async def _pump(self, program: Session) -> None:
        """Copy data both ways; the exit code goes last, as clients disconnect on it."""
        feeding = asyncio.create_task(self._feed(program))
        try:
            await asyncio.gather(self._carry(program.read, None), self._carry(program.read_error, STDERR))
            code = await program.wait()
        finally:
            feeding.cancel()
        self._exit(code if code >= 0 else 128 - code)

    async def _feed(self, program: Session) -> None:
        with contextlib.suppress(OSError):
            while data := await self.receive():
                await program.write(data)
            await program.write_eof()

    async def _carry(self, read: Callable[[], Coroutine[Any, Any, bytes]], kind: int | None) -> None:
        while data := await read():
            await self.send(data, kind)

    def _hang_up(self) -> None:
        """Close the program. `_run` is never cancelled, so that it records the end."""
        if self._program:
            self._closing = asyncio.create_task(self._program.close())

    def _environment(self) -> dict[str, str]:
        """Return TERM and locale variables only."""
        asked = self.chan.get_environment()
        found = {name: value for name, value in asked.items() if SAFE_NAMES.fullmatch(name)}
        found = {name: value for name, value in found.items() if len(value) <= LONGEST_VALUE and value.isprintable()}
        terminal = self.chan.get_terminal_type()
        return {**found, "TERM": terminal} if terminal and terminal.isprintable() else found

    def _describe_error(self, no: Exception) -> str:
        if not isinstance(no, PlatformError):
            return str(no)
        with translation.override(self._link.language or None):
            return describe_error(no)

    async def _print_line(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self.chan.write(f"tessera: {line}\r\n".encode(), None if self._pty else STDERR)

    def _exit(self, code: int) -> None:
        with contextlib.suppress(OSError):
            self.chan.exit(code)


def _size(columns: int, rows: int) -> PtySize:
    """Return the limited size; clients without a window send 0."""
    return PtySize(min(columns, 10_000) or 80, min(rows, 10_000) or 24)
