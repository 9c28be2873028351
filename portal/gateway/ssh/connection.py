"""One SSH connection: authentication, sessions, port forwarding, timeouts.

The key identifies the user; the SSH user name names a notebook or job of theirs. Access is checked at each opening,
when the user's rights have changed, and every RECHECK_S, since a task may end. A channel to NAME:22 is a second login
(ProxyJump), so one ssh_config entry serves every name.
"""

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

import asyncssh
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DatabaseError

from accounts.models import SshKey
from accounts.services import note_use
from accounts.ssh_keys import find_key, has_expired
from common.errors import PlatformError, QuotaExceeded
from jobs.task_access import get_access
from portal.access.task_access import TaskAccess, find_refusal, find_task_access, record_session
from portal.gateway.rechecks import Rechecks
from portal.gateway.ssh.forward import Forward
from portal.gateway.ssh.session import TaskSession
from portal.gateway.touches import touch
from runtimes.contract.access import PtySize, Session
from runtimes.contract.errors import Rejected, Unavailable

log = logging.getLogger("tessera.ssh")

RECHECK_S = 20
IDLE_S = 30 * 60
MOST_SESSIONS = 64  # per user
MOST_CHANNELS = 256  # forwarded, per connection
MOST_LOGGING_IN = 64
MOST_KEYS_TRIED = 12
LEAST_PORT = 1024
LAST_S = 2  # for programs to exit and write their history
SSH_PORT = 22
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
PROHIBITED, FAILED = asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, asyncssh.OPEN_CONNECT_FAILED
SAYS = {
    "ended": "This task has ended.",
    "revoked": "You may not stay here any more.",
    "expired": "Your key has expired.",
    "unknown": "None of your keys is known here.",
}

_rechecks = Rechecks(lambda user_id: None)  # nothing is cached here
_sessions: Counter[int] = Counter()
_logging_in: set["SshServer"] = set()
open_servers: set["SshServer"] = set()


class SshServer(asyncssh.SSHServer):
    """Serves a connection; `target` overrides the user name, `serve` runs a nested login on a socket."""

    def __init__(self, serve: Callable[[socket.socket, str], Awaitable[object]], target: str = ""):
        self._serve, self._target = serve, target
        self._key: SshKey | None = None
        self._tried = 0
        self._refusal = "unknown"
        self._accesses: dict[str, TaskAccess] = {}
        self._own: set[TaskSession] = set()
        self._channels = 0
        self._active = monotonic()
        self._works: set[asyncio.Task] = set()

    @property
    def language(self) -> str:
        return self._key.user.language if self._key else ""

    # ---- login ----

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._conn = conn
        if len(_logging_in) >= MOST_LOGGING_IN:
            conn.abort()
            return
        _logging_in.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        _logging_in.discard(self)
        open_servers.discard(self)
        for work in self._works:
            work.cancel()

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Find a key's user; asyncssh verifies the signature next, so the last key is the right one."""
        self._key = await database_sync_to_async(find_key)(key.get_fingerprint())
        if self._key is None:
            self._tried += 1
            if await database_sync_to_async(has_expired)(key.get_fingerprint()):
                self._refusal = "expired"
            if self._tried > MOST_KEYS_TRIED:
                self._refuse_keys()
        return self._key is not None

    def kbdint_auth_supported(self) -> bool:
        """Return True: clients try this after their keys were refused, the only chance to say why."""
        return True

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> bool:
        self._refuse_keys()
        return False

    def _refuse_keys(self) -> None:
        line = f"{SAYS[self._refusal]} Add a key: {settings.TESSERA_PUBLIC_URL}/settings/ssh-keys/"
        self._conn.disconnect(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, line)

    def auth_completed(self) -> None:
        assert self._key is not None
        _logging_in.discard(self)
        open_servers.add(self)
        self._do(database_sync_to_async(note_use)(self._key))
        self._do(self._watch())

    # ---- sessions and channels ----

    def session_requested(self) -> TaskSession:
        return TaskSession(self)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> Awaitable:
        return self._forward(dest_host, dest_port)

    async def enter(self, argv: Sequence[str], pty: PtySize | None, env: dict[str, str]) -> tuple[TaskAccess, Session]:
        """Start a program and record the session. Raises NotFound, Conflict, QuotaExceeded, Rejected, Unavailable."""
        if _sessions[self._user_id] > MOST_SESSIONS:
            raise QuotaExceeded(what="ssh_sessions", used=MOST_SESSIONS, limit=MOST_SESSIONS)
        access = await self._load_access()
        session = await get_access().exec(access.task, argv, pty=pty, env=env)
        await self._record(access, None)
        return access, session

    async def start(self, argv: Sequence[str]) -> Session:
        """Start a further program, not recorded. Raises as `enter`."""
        return await get_access().exec((await self._load_access()).task, argv)

    async def leave(self, access: TaskAccess, began: float) -> None:
        await self._record(access, round(asyncio.get_running_loop().time() - began))

    def touched(self) -> None:
        self._active = monotonic()
        for task in self._accesses:
            touch(task)

    def began(self, session: TaskSession) -> None:
        self._own.add(session)
        _sessions[self._user_id] += 1

    def ended(self, session: TaskSession) -> None:
        if session in self._own:
            self._own.discard(session)
            _sessions[self._user_id] -= 1

    async def end(self, line: str) -> None:
        sessions = list(self._own)
        for session in sessions:
            await session.end(line)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await asyncio.gather(*(session.finished() for session in sessions))
        self._conn.disconnect(asyncssh.DISC_BY_APPLICATION, line)

    async def _forward(self, host: str, port: int) -> Forward:
        """Open a forwarded port or nested login. Raises ChannelOpenError."""
        if self._channels >= MOST_CHANNELS:
            raise asyncssh.ChannelOpenError(PROHIBITED, f"More than {MOST_CHANNELS} connections at once.")
        if port == SSH_PORT and host not in LOOPBACK and not self._target:
            ours, theirs = socket.socketpair()
            self._do(self._serve(theirs, host))
            return self._counted(ours)
        if host not in LOOPBACK or port < LEAST_PORT:
            raise asyncssh.ChannelOpenError(PROHIBITED, "Only ports of localhost from 1024 on are forwarded.")
        try:
            access = await self._load_access()
            return self._counted(await get_access().dial(access.task, port))
        except ConnectionRefusedError:
            raise asyncssh.ChannelOpenError(FAILED, f"Nothing listens on port {port}.") from None
        except (PlatformError, Rejected, Unavailable) as no:
            raise asyncssh.ChannelOpenError(FAILED, str(no)) from None

    def _counted(self, sock: socket.socket) -> Forward:
        sock.setblocking(False)
        self._channels += 1
        return Forward(sock, self.touched, self._one_less)

    def _one_less(self) -> None:
        self._channels -= 1

    @property
    def _user_id(self) -> int:
        assert self._key is not None
        return self._key.user_id

    async def _load_access(self) -> TaskAccess:
        assert self._key is not None
        name = self._target or self._conn.get_extra_info("username")
        access = await database_sync_to_async(find_task_access)(self._key.user, name)
        self._accesses[access.task] = access
        return access

    async def _watch(self) -> None:
        with _rechecks.bell(self._user_id) as bell:
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(bell.wait(), min(RECHECK_S, IDLE_S))
                bell.clear()
                if monotonic() - self._active > IDLE_S:
                    await self.end("Nothing happened here for a long time, so the connection is closed.")
                elif why := await self._why_closed():
                    await self.end(why)

    async def _why_closed(self) -> str:
        assert self._key is not None
        try:
            key = await database_sync_to_async(find_key)(self._key.fingerprint)
            if key is None or key.user_id != self._user_id:
                return SAYS["expired" if self._key.is_expired else "revoked"]
            for task in list(self._accesses):
                why = await database_sync_to_async(find_refusal)(self._user_id, task)
                if why:
                    return SAYS[why]
        except DatabaseError as away:  # checked again next round
            log.warning("cannot ask whether a connection may stay: %s", away)
        return ""

    async def _record(self, access: TaskAccess, seconds: int | None) -> None:
        try:
            await database_sync_to_async(record_session)(access=access, kind="ssh", seconds=seconds)
        except DatabaseError as away:
            log.warning("a session in %s is not in its history: %s", access.name, away)

    def _do(self, work: Awaitable) -> None:
        async def quietly() -> None:
            with contextlib.suppress(asyncssh.Error, OSError, DatabaseError):
                await work

        task = asyncio.create_task(quietly())
        self._works.add(task)
        task.add_done_callback(self._works.discard)
