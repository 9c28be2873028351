"""The shells of web terminals. A shell outlives its socket by a minute, so that a lost network is not a lost shell.

They live in this process and are known by a random key, which opens one only to the person and the task that it was
made for. After a crash of the process there is none, and the page says that its shell is a new one.

Output waits here until the browser has shown it, WINDOW_BYTES at most: then the program is not read, and waits too. A
view that comes back names the byte up to which it has shown, and gets what follows: nothing twice, so that no question
that a program asked the terminal is answered twice. Both directions count bytes from the beginning of the shell.
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
from jobs.access import the_access
from portal.entering import LOGIN_SHELL, Door, record_session, why_closed
from runtimes.base import PtySize, Session

log = logging.getLogger("tessera.terminal")

WINDOW_BYTES = 1024 * 1024
PIECE_BYTES = 32 * 1024
MOST_TYPED_BYTES = 256 * 1024  # typed and not yet taken by the program; a browser sends 64 KiB ahead
TYPED_PER_S = 256 * 1024
KEEP_S = 60
IDLE_S = 30 * 60
RECHECK_S = 15
TICK_S = 1.0
KILLED_WAIT_S = 3.0  # what killed the shell may have ended its task: the database hears of it a moment later
MOST_OF_ONE_PERSON = 10
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

_shells: dict[str, "Shell"] = {}
_opening: dict[int, int] = {}


@dataclass(frozen=True)
class End:
    """why: "exited", "ended" (the task), "revoked", "idle", "left". code: the exit code of what exited."""

    why: str
    code: int | None = None


async def open_shell(door: Door, size: PtySize) -> "Shell":
    """A login shell in the task. Raises QuotaExceeded at the limit of one person, and Rejected, Unavailable."""
    used = sum(shell.door.user_id == door.user_id for shell in _shells.values()) + _opening.get(door.user_id, 0)
    if used >= MOST_OF_ONE_PERSON:
        raise QuotaExceeded(used=used, limit=MOST_OF_ONE_PERSON)
    _opening[door.user_id] = _opening.get(door.user_id, 0) + 1
    try:
        session = await the_access().exec(door.task, LOGIN_SHELL, pty=size, env=ENVIRONMENT)
    finally:
        _opening[door.user_id] -= 1
    shell = Shell(door, session)
    _shells[shell.key] = shell
    await database_sync_to_async(record_session)(door=door, kind="terminal")
    return shell


def find_shell(key: object, door: Door) -> "Shell | None":
    """The shell that this key opens to this person in this task."""
    shell = _shells.get(key) if isinstance(key, str) else None
    return shell if shell and (shell.door.user_id, shell.door.task) == (door.user_id, door.task) else None


class TypedTooMuch(Exception):
    """A page that does not wait for what it sent to be taken. Ours does."""


class Shell:
    """end: None while it lives. received, taken: bytes typed, that came here and that went to the program."""

    def __init__(self, door: Door, session: Session):
        self.key = secrets.token_urlsafe(24)
        self.door, self.session = door, session
        self.end: End | None = None
        self.received = self.taken = 0
        self._began = self._active = self._left = self._checked = monotonic()
        self._start, self._unshown = 0, bytearray()  # the unshown bytes begin at byte _start of all output
        self._view: object | None = None
        self._tell_taken: Callable[[int], Coroutine] | None = None
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._typed: asyncio.Queue[bytes] = asyncio.Queue()
        self._works = [asyncio.create_task(work) for work in (self._read(), self._write(), self._watch())]

    # ---- the view ----

    def attach(self, tell_taken: Callable[[int], Coroutine]) -> object:
        """Show it in a new view, which takes it from the one before. tell_taken: called with `taken` when it grew."""
        self._view, self._tell_taken = object(), tell_taken
        self._news.set()
        return self._view

    def leave(self, view: object) -> None:
        """The socket of this view is gone: within KEEP_S another may come."""
        if self._view is view:
            self._view, self._tell_taken, self._left = None, None, monotonic()

    def position(self, shown: int) -> int:
        """From where a view goes on that has shown `shown` bytes: there, or at the nearest byte that is still here."""
        return max(self._start, min(shown, self._start + len(self._unshown)))

    async def output(self, view: object, at: int) -> AsyncIterator[bytes]:
        """What the program writes from byte `at` on, until it has ended or another view took it."""
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
        """The browser has shown everything before byte `shown`."""
        done = self.position(shown) - self._start
        del self._unshown[:done]
        self._start += done
        self._room.set()

    def type(self, data: bytes) -> None:
        """Hand input on, in its turn. Raises TypedTooMuch."""
        if self.received - self.taken + len(data) > MOST_TYPED_BYTES:
            raise TypedTooMuch
        self.received += len(data)
        self._active = monotonic()
        self._typed.put_nowait(data)

    def resize(self, size: PtySize) -> None:
        self.session.resize(size)

    async def recheck(self) -> None:
        """End it where this person may not be in this task any more, or the task is over."""
        self._checked = monotonic()
        if why := await self._why_closed():
            await self.close(End(why))

    async def close(self, end: End) -> None:
        """Hang up. What it wrote before can still be shown."""
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

    # ---- by itself ----

    async def _read(self) -> None:
        try:
            while data := await self.session.read(PIECE_BYTES):
                self._active = monotonic()
                self._unshown += data
                self._news.set()
                while len(self._unshown) >= WINDOW_BYTES:
                    self._room.clear()
                    await self._room.wait()
            code = await self.session.wait()
        except OSError as broken:
            log.warning("a shell in %s broke: %s", self.door.name, broken)
            code = -1
        await self.close(await self._end_of(code))

    async def _end_of(self, code: int) -> End:
        """A killed shell was mostly killed with its task, of which the database hears a moment later."""
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
                return  # it has ended: _read says so
            self.taken += len(data)
            if self._tell_taken:
                await self._tell_taken(self.taken)
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
            return await database_sync_to_async(why_closed)(self.door.user_id, self.door.task)
        except DatabaseError as away:  # asked again with the next round
            log.warning("cannot ask whether a terminal in %s may stay: %s", self.door.name, away)
            return ""

    async def _record_end(self, seconds: int) -> None:
        try:
            await database_sync_to_async(record_session)(door=self.door, kind="terminal", seconds=seconds)
        except DatabaseError as away:
            log.warning("the end of a terminal in %s is not in its history: %s", self.door.name, away)
