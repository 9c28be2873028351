"""The shim's side of LocalAccess: a door in the task's directory, and the programs that were started through it.

A guest is one connection. {"exec": argv, "env", "cwd", "pty"} comes with descriptors (where to tell a failure; then a
pty's slave, or stdin, stdout and stderr) and is answered by {"started": true}, later {"exit": status}; {"signal": n}
goes to the program; {"dial": port} is answered by a connected socket, {"refused": true} or {"busy": true}. Anything
else is {"error": words}. The shim never waits for a guest: an answer that does not fit is lost, and so is the guest.
Imports little: it is loaded by every shim.
"""

import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Callable

from runtimes.local import isolation
from runtimes.local.child import close_all_but, enter_limits, run_program
from runtimes.local.listeners import Listeners, connect_to
from runtimes.local.mounts import in_home
from runtimes.local.processes import Process, end_of, holds_one, in_group, look, send
from runtimes.local.taskdir import TaskDir

DOOR = "door"
MESSAGE_LIMIT = 128 << 10
MOST_GUESTS = 512
MOST_FDS = 4
INT = struct.calcsize("i")
HANG_UP_S = 1.0  # between SIGHUP and SIGKILL
DEFAULT_TERM = "xterm-256color"


class Guest:
    def __init__(self, conn: socket.socket):
        self.conn = conn
        self.pid = 0  # of the program it holds
        self.ends: set[tuple[int, int]] = set()  # of that program: its pipes or its pty

    def tell(self, fds: tuple[int, ...] = (), **answer) -> None:
        try:
            socket.send_fds(self.conn, [json.dumps(answer).encode()], list(fds))
        except OSError:
            pass  # it is gone, or does not listen: its own loss


class Door:
    def __init__(self, task: TaskDir, plan: dict, poll: select.poll, first: int, tree: Callable[[], list[Process]]):
        """first: pid of the job's first process, whose view of the files the guests get. tree: the job's processes.
        Raises OSError.
        """
        self.plan, self.poll, self.tree = plan, poll, tree
        self.view = os.open(f"/proc/{first}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC) if plan["namespaces"] else None
        self.socket = _listen(task)
        self.listeners = Listeners()
        self.guests: dict[int, Guest] = {}  # by the descriptor of the connection
        self.programs: dict[int, Guest] = {}  # that run, by pid
        self.hung_up: list[tuple[float, list[Process]]] = []  # when they are killed who are still there
        poll.register(self.socket, select.POLLIN)

    def serve(self, ready: set[int]) -> None:
        """ready: descriptors that poll found."""
        for fd in ready & self.guests.keys():
            self._hear(self.guests[fd])
        if self.socket.fileno() in ready:
            self._welcome()
        now = time.monotonic()
        while self.hung_up and self.hung_up[0][0] <= now:
            for process in self.hung_up.pop(0)[1]:
                send(process, signal.SIGKILL)

    def next_at(self) -> float | None:
        """When `serve` has something to do although nobody comes."""
        return self.hung_up[0][0] if self.hung_up else None

    def ended(self, pid: int, status: int) -> None:
        """status: as of waitpid. Does nothing for what is no guest's program."""
        guest = self.programs.pop(pid, None)
        if guest is not None:
            guest.tell(exit=os.waitstatus_to_exitcode(status))  # and it may go on with what the program left running

    def close(self) -> None:
        """Nobody comes in any more, and all programs are hung up. Any number of times."""
        if self.socket.fileno() >= 0:
            self.poll.unregister(self.socket)
            self.socket.close()
            for guest in self.programs.values():
                self._hang_up(guest)

    def _welcome(self) -> None:
        try:
            conn, _ = self.socket.accept()
        except OSError:
            return
        if len(self.guests) >= MOST_GUESTS:
            conn.close()
            return
        conn.setblocking(False)
        self.guests[conn.fileno()] = Guest(conn)
        self.poll.register(conn, select.POLLIN)

    def _dismiss(self, guest: Guest) -> None:
        self.poll.unregister(guest.conn)
        del self.guests[guest.conn.fileno()]
        guest.conn.close()
        if guest.pid:
            self._hang_up(guest)

    def _hear(self, guest: Guest) -> None:
        data: bytes = b""
        fds: list[int] = []
        try:
            data, fds = receive(guest.conn)
        except BlockingIOError:
            return
        except OSError:
            pass  # as if it had closed
        try:
            if data:
                self._do(guest, json.loads(data), fds)
            else:
                self._dismiss(guest)
        except (OSError, ValueError, KeyError, TypeError) as error:
            guest.tell(error=f"The task could not do it: {error}")
        finally:
            for fd in fds:
                os.close(fd)

    def _do(self, guest: Guest, wish: dict, fds: list[int]) -> None:
        if "signal" in wish:
            if self._runs(guest):
                self._signal(guest.pid, wish["signal"])
        elif self.socket.fileno() < 0:
            guest.tell(error="This task is ending.")
        elif "dial" in wish:
            self._dial(guest, int(wish["dial"]))
        elif guest.pid == 0:
            self._start(guest, wish, fds)

    def _start(self, guest: Guest, wish: dict, fds: list[int]) -> None:
        if len(fds) != (2 if wish["pty"] else 4) or not wish["exec"]:
            raise ValueError("descriptors or a command are missing")
        try:
            pid = os.fork()
        except OSError as error:
            if error.errno != errno.ENOMEM or self.view is None:
                raise
            # So the kernel says that the first process of the pid namespace is gone, and no other can be born there.
            return guest.tell(error="This task is ending.")
        if pid == 0:
            _become_program(self.plan, self.view, wish, fds)
        guest.pid, guest.ends = pid, {end_of(fd) for fd in fds[1:]}
        self.programs[pid] = guest
        guest.tell(started=True)

    def _dial(self, guest: Guest, port: int) -> None:
        """Asked twice: who listened before and after the connection was made, has it."""
        for address in self.listeners.own_addresses(port, self.tree):
            try:
                connected = connect_to(address, port)
            except ConnectionRefusedError:
                continue
            if connected is None:
                return guest.tell(busy=True)
            with connected:
                if address in self.listeners.own_addresses(port, self.tree):
                    return guest.tell((connected.fileno(),), connected=True)
        guest.tell(refused=True)

    def _hang_up(self, guest: Guest) -> None:
        """SIGHUP, a moment later SIGKILL, to the program and to those of its group that still hold an end of the
        session. What it left behind with other ends, as `server >log 2>&1 </dev/null &` is, stays until the task ends:
        an editor that lost its connection comes back to its server.
        """
        program = look(guest.pid) if self._runs(guest) else None
        others = [one for one in in_group(guest.pid) if one.pid != guest.pid and holds_one(one.pid, guest.ends)]
        going = [program, *others] if program else others
        for process in going:
            send(process, signal.SIGHUP)
            send(process, signal.SIGCONT)  # a stopped one would not hear it
        self.hung_up.append((time.monotonic() + HANG_UP_S, going))

    def _runs(self, guest: Guest) -> bool:
        return self.programs.get(guest.pid) is guest

    def _signal(self, pid: int, number: int) -> None:
        """To its process group."""
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            os.kill(pid, number)  # not yet the leader of its group: we have not reaped it, so the pid is its own
        except PermissionError:
            pass


def receive(conn: socket.socket) -> tuple[bytes, list[int]]:
    """(a packet, the descriptors that came with it). Raises OSError. Not socket.recv_fds: it forgets its flags, and
    the descriptors would be open in the next program.
    """
    data, ancillary, _, _ = conn.recvmsg(MESSAGE_LIMIT, socket.CMSG_LEN(MOST_FDS * INT), socket.MSG_CMSG_CLOEXEC)
    rights = [body for level, kind, body in ancillary if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
    return data, [fd for body in rights for fd in struct.unpack(f"{len(body) // INT}i", body)]


def _listen(task: TaskDir) -> socket.socket:
    """Through the directory's descriptor, since the path of a socket may only have 107 bytes."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.setblocking(False)
    folder = os.open(task.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mask = os.umask(0o177)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{DOOR}")
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(mask)
        os.close(folder)
    listener.listen(128)
    return listener


def _become_program(plan: dict, view: int | None, wish: dict, fds: list[int]) -> None:
    """In the forked child: born in the job's pid namespace, it takes on all else that the job has. Never returns."""
    failed, *ends = fds
    try:
        isolation.die_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        close_all_but(*fds, *([view] if view is not None else []))
        enter_limits(plan)
        if view is not None:
            isolation.enter_view(view)
        os.setsid()
        if wish["pty"]:
            if plan["uid"] is not None:
                os.fchown(ends[0], plan["uid"], plan["gid"])  # programs open it by its name
            fcntl.ioctl(ends[0], termios.TIOCSCTTY, 0)
        stdin, stdout, stderr = ends * 3 if wish["pty"] else ends
        env = plan["env"] | ({"TERM": DEFAULT_TERM} if wish["pty"] else {}) | wish["env"]
        run_program(plan, wish["exec"], env, _folder(plan, wish["cwd"]), (stdin, stdout, stderr))
    except BaseException as error:
        os.write(failed, f"{wish['exec'][0]}: {getattr(error, 'strerror', None) or error}".encode())
    finally:
        os._exit(127)


def _folder(plan: dict, cwd: str | None) -> str:
    if cwd is None:
        return plan["cwd"] if os.path.isdir(plan["cwd"]) else "/"  # the job may have removed it
    return os.path.join(plan["cwd"], in_home(cwd, plan["env"]["HOME"]))
