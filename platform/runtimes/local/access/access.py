"""Enter a running task of this machine through its shim's socket (session_server.py).

A connection holds one program, or fetches one socket. Messages are JSON packets.
"""

import asyncio
import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtimes.contract.access import PtySize
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.gpu_sharing import is_forbidden_env
from runtimes.local.access.packet_sockets import MESSAGE_LIMIT, connect_in, receive_packet
from runtimes.local.access.session_server import SOCKET_NAME
from runtimes.local.access.streams import Stream, StreamSession, open_ends
from runtimes.local.taskdir import TaskDir, get_task_dir

PATIENCE_S = 10.0
AGAIN_S = 0.02
SIGKILLED = -9


class LocalAccess:
    def __init__(self, data_dir: str | os.PathLike, **_others: object):
        self.tasks_dir = Path(data_dir).resolve() / "tasks"

    async def exec(
        self,
        uuid: str,
        argv: Sequence[str],
        *,
        pty: PtySize | None = None,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
    ) -> StreamSession:
        """Start a program in a task, without `gpu_sharing.is_forbidden_env`: those could change the slice."""
        own = {name: value for name, value in env.items() if not is_forbidden_env(name)}
        request = {"exec": list(argv), "env": own, "cwd": cwd, "pty": pty is not None}
        conn = await self._connect_shim(uuid)
        try:
            return await _start(conn, request, pty)
        except BaseException:
            conn.close()
            raise

    async def dial(self, uuid: str, port: int) -> socket.socket:
        """Connect to a port of a task. Raises ConnectionRefusedError, Rejected, Unavailable."""
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            with await self._connect_shim(uuid) as conn:
                _send(conn, {"dial": port})
                answer, fds = await _receive_answer(conn)
            if fds:
                return _adopt(fds[0])
            if "refused" in answer:
                raise ConnectionRefusedError(f"Nobody of this task listens on port {port}.")
            if "busy" not in answer:
                raise Rejected(answer.get("error", ""))
            if asyncio.get_running_loop().time() > until:
                raise Unavailable(f"It takes no connection on port {port}.")
            await asyncio.sleep(AGAIN_S)

    async def _connect_shim(self, uuid: str) -> socket.socket:
        task = get_task_dir(self.tasks_dir, uuid)
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while asyncio.get_running_loop().time() < until:
            try:
                return connect_in(task.path, SOCKET_NAME)
            except BlockingIOError:
                await asyncio.sleep(AGAIN_S)  # backlog full
            except OSError as error:
                raise _explain_refusal(task) from error
        raise Unavailable("Too many want to enter it at once.")


class LocalSession(StreamSession):
    """A program that lives as long as its connection."""

    def __init__(self, conn: socket.socket, ours: tuple[int, ...]):
        super().__init__(ours)
        self._conn = conn
        asyncio.get_running_loop().add_reader(conn, self._receive)

    def send_signal(self, number: int) -> None:
        if not self._status.done():
            try:
                _send(self._conn, {"signal": int(number)})
            except Unavailable:
                pass  # it is ending

    def _receive(self) -> None:
        try:
            answer = json.loads(self._conn.recv(MESSAGE_LIMIT) or b'{"exit": null}')
        except BlockingIOError:
            return
        except OSError:
            answer = {"exit": None}
        if "exit" in answer:
            asyncio.get_running_loop().remove_reader(self._conn)  # stays open, for what the program left running
            self._ended(SIGKILLED if answer["exit"] is None else answer["exit"])  # None: shim killed

    def _hang_up(self) -> None:
        self._leave()
        self._ended(SIGKILLED)

    def _leave(self) -> None:
        if self._conn.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._conn)
            self._conn.close()


async def _start(conn: socket.socket, request: dict, pty: PtySize | None) -> LocalSession:
    """Start the program; closes all on failure. Raises Rejected, Unavailable."""
    try:
        ends = open_ends(pty)
    except OSError as error:
        raise Unavailable(f"No session could be opened: {error}") from error
    failed, theirs = os.pipe2(os.O_CLOEXEC)
    failure = Stream(failed)
    try:
        try:
            _send(conn, request, (theirs, *ends.theirs))
        finally:
            for fd in (theirs, *ends.theirs):
                os.close(fd)
        answer, _ = await _receive_answer(conn)
        if "started" not in answer:
            raise Rejected(answer.get("error", ""))
        if words := await failure.read(4096):  # closed by exec
            raise Rejected(words.decode(errors="replace"))
    except BaseException:
        for fd in ends.ours:
            os.close(fd)
        raise
    finally:
        failure.close()
    return LocalSession(conn, ends.ours)


def _explain_refusal(task: TaskDir) -> Rejected | Unavailable:
    if not os.path.isdir(task.path):
        return Rejected("There is no such task on this machine.")
    if task.read("exit") is not None:
        return Rejected("This task has ended.")
    return Unavailable("This task is just starting or ending.")


def _send(conn: socket.socket, request: dict, fds: tuple[int, ...] = ()) -> None:
    """Send one packet without blocking. Raises Rejected, Unavailable."""
    data = json.dumps(request).encode()
    if len(data) > MESSAGE_LIMIT:
        raise Rejected("The command and its environment are too long.")
    try:
        socket.send_fds(conn, [data], list(fds))
    except OSError as error:
        raise Unavailable(f"The task does not listen: {error}") from error


async def _receive_answer(conn: socket.socket) -> tuple[dict, list[int]]:
    """Return (message, descriptors)."""
    probe = Stream(os.dup(conn.fileno()))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    data, fds = receive_packet(conn)
                    break
                except BlockingIOError:
                    await probe.readable()
    except (TimeoutError, OSError) as error:
        raise Unavailable("The task does not answer.") from error
    finally:
        probe.close()
    if not data:
        raise Unavailable("The task is just ending.")
    return json.loads(data), fds


def _adopt(fd: int) -> socket.socket:
    connected = socket.socket(fileno=fd)
    connected.setblocking(False)
    return connected
