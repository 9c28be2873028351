"""Shells of web terminals; each survives its websocket by a minute.

They live in this process; a random key reopens one for the same user and task. After a restart a new one is opened.

Output is kept until the browser has shown it; at WINDOW_BYTES the program is no longer read. A reconnecting view
continues at the byte it has shown, never earlier: a repeated terminal query would be answered twice. Both directions
count bytes from the shell's start.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from time import monotonic

from channels.db import database_sync_to_async
from django.db import DatabaseError

from common.errors import QuotaExceeded
from jobs.task_access import get_access
from portal.access.task_access import LOGIN_SHELL, TaskAccess, find_refusal, record_session
from portal.gateway.touches import touch
from runtimes.contract.access import PtySize, Session

log = logging.getLogger("tessera.terminal")

WINDOW_BYTES = 1024 * 1024
PIECE_BYTES = 32 * 1024
MOST_TYPED_BYTES = 256 * 1024  # not yet written to the program; browsers send 64 KiB ahead
TYPED_PER_S = 256 * 1024
KEEP_S = 60
IDLE_S = 30 * 60
RECHECK_S = 15
TICK_S = 1.0
KILLED_WAIT_S = 3.0  # until the end of a killed shell's task is recorded
MOST_OF_ONE_PERSON = 10
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

_shells: dict[str, "Shell"] = {}
_opening: dict[int, int] = {}


@dataclass(frozen=True)
class End:
    """How a shell ended. `why`: exited (with `code`), ended (the task), revoked, idle or left."""

    why: str
    code: int | None = None


async def open_shell(access: TaskAccess, size: PtySize) -> "Shell":
    """Start a login shell in the task. Raises QuotaExceeded, Rejected, Unavailable."""
    used = sum(shell.access.user_id == access.user_id for shell in _shells.values()) + _opening.get(access.user_id, 0)
    if used >= MOST_OF_ONE_PERSON:
        raise QuotaExceeded(what="terminals", used=used, limit=MOST_OF_ONE_PERSON)
    _opening[access.user_id] = _opening.get(access.user_id, 0) + 1
    try:
        session = await get_access().exec(access.task, LOGIN_SHELL, pty=size, env=ENVIRONMENT)
    finally:
        _opening[access.user_id] -= 1
    shell = Shell(access, session)
    _shells[shell.key] = shell
    await database_sync_to_async(record_session)(access=access, kind="terminal")
    return shell


def find_shell(key: object, access: TaskAccess) -> "Shell | None":
    """Return the shell of this key, user and task."""
    shell = _shells.get(key) if isinstance(key, str) else None
    return shell if shell and (shell.access.user_id, shell.access.task) == (access.user_id, access.task) else None


class TypedTooMuch(Exception):
    """The page ignored flow control; ours never does."""


class Shell:
    """A shell in a task; `received` and `taken` count typed bytes in and passed on."""

    def __init__(self, access: TaskAccess, session: Session):
        self.key = secrets.token_urlsafe(24)
        self.access, self.session = access, session
        self.end: End | None = None
        self.received = self.taken = 0
        self._began = self._active = self._left = self._checked = monotonic()
        self._start, self._unshown = 0, bytearray()  # _unshown begins at output byte _start
        self._view: object | None = None
        self._send_taken: Callable[[int], Coroutine] | None = None
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._typed: asyncio.Queue[bytes] = asyncio.Queue()
        self._works = [asyncio.create_task(work) for work in (self._read(), self._write(), self._watch())]

    # ---- views ----

    def attach(self, send_taken: Callable[[int], Coroutine]) -> object:
        """Show it in a new view only; `send_taken` is called with `taken` as it grows."""
        self._view, self._send_taken = object(), send_taken
        self._news.set()
        return self._view

    def leave(self, view: object) -> None:
        """Detach this view; another may attach within KEEP_S."""
        if self._view is view:
            self._view, self._send_taken, self._left = None, None, monotonic()

    def position(self, shown: int) -> int:
        """Return the nearest buffered byte to `shown`, where a view continues."""
        return max(self._start, min(shown, self._start + len(self._unshown)))

    async def output(self, view: object, at: int) -> AsyncIterator[bytes]:
        """Yield output from byte `at` until the shell ends or another view takes over."""
        self.acknowledge(at)
        while self._view is view:
            piece = bytes(self._unshown[at - self._start : at - self._start + PIECE_BYTES])
            if piece:
                at += len(piece)
                yield piece
            elif self.end is not None:
                return
            else:
                self._news.clear()
                await self._news.wait()

    def is_shown_in(self, view: object) -> bool:
        return self._view is view

    def acknowledge(self, shown: int) -> None:
        done = self.position(shown) - self._start
        del self._unshown[:done]
        self._start += done
        self._room.set()

    def type(self, data: bytes) -> None:
        """Queue input. Raises TypedTooMuch."""
        if self.received - self.taken + len(data) > MOST_TYPED_BYTES:
            raise TypedTooMuch
        self.received += len(data)
        self._active = monotonic()
        touch(self.access.task)
        self._typed.put_nowait(data)

    def resize(self, size: PtySize) -> None:
        self.session.resize(size)

    async def recheck(self) -> None:
        """Close it if access or the task has ended."""
        self._checked = monotonic()
        if why := await self._why_closed():
            await self.close(End(why))

    async def close(self, end: End) -> None:
        """Close the session; its output can still be shown."""
        if self.end is not None:
            return
        self.end = end
        _shells.pop(self.key, None)
        self._news.set()
        for work in self._works:
            if work is not asyncio.current_task():
                work.cancel()
        await self.session.close()
        await self._record_end(round(monotonic() - self._began))

    async def _read(self) -> None:
        try:
            while data := await self.session.read(PIECE_BYTES):
                self._active = monotonic()
                touch(self.access.task)
                self._unshown += data
                self._news.set()
                while len(self._unshown) >= WINDOW_BYTES:
                    self._room.clear()
                    await self._room.wait()
            code = await self.session.wait()
        except OSError as broken:
            log.warning("a shell in %s broke: %s", self.access.name, broken)
            code = -1
        await self.close(await self._end_of(code))

    async def _end_of(self, code: int) -> End:
        """Return why it ended; after a kill, wait for the end of its task to be recorded."""
        until = monotonic() + (KILLED_WAIT_S if code < 0 else 0)
        while True:
            if why := await self._why_closed():
                return End(why)
            if monotonic() >= until:
                return End("exited", code)
            await asyncio.sleep(0.3)

    async def _write(self) -> None:
        while True:
            data = await self._typed.get()
            try:
                await self.session.write(data)
            except OSError:
                return  # ended; _read reports it
            self.taken += len(data)
            if self._send_taken:
                await self._send_taken(self.taken)
            await asyncio.sleep(len(data) / TYPED_PER_S)

    async def _watch(self) -> None:
        while self.end is None:
            await asyncio.sleep(TICK_S)
            now = monotonic()
            if self._view is None and now - self._left > KEEP_S:
                await self.close(End("left"))
            elif now - self._active > IDLE_S:
                await self.close(End("idle"))
            elif now - self._checked > RECHECK_S:
                await self.recheck()

    async def _why_closed(self) -> str:
        try:
            return await database_sync_to_async(find_refusal)(self.access.user_id, self.access.task)
        except DatabaseError as away:  # checked again next round
            log.warning("cannot ask whether a terminal in %s may stay: %s", self.access.name, away)
            return ""

    async def _record_end(self, seconds: int) -> None:
        try:
            await database_sync_to_async(record_session)(access=self.access, kind="terminal", seconds=seconds)
        except DatabaseError as away:
            log.warning("the end of a terminal in %s is not in its history: %s", self.access.name, away)
