"""The shim's side of LocalAccess: a socket in the task's directory, and programs started through it.

A client's connection sends {"exec": argv, "env", "cwd", "pty"} with descriptors (for errors; then pty slave, or stdin,
stdout, stderr), answered by {"started"} and later {"exit": status}; {"signal": n}; or {"dial": port}, answered by a
socket, {"refused"} or {"busy"}. The shim never waits: answers that do not fit are dropped. Few imports, for the shim.
"""

import errno
import fcntl
import json
import os
import select
import signal
import socket
import termios
import time
from collections.abc import Callable

from runtimes.local import isolation
from runtimes.local.access.listeners import Listeners, connect_to
from runtimes.local.access.packet_sockets import listen_in, receive_packet
from runtimes.local.processes import Process, holds_stream, identify_stream, list_group, read_process, send_signal
from runtimes.local.shim.child import close_all_but, enter_limits, run_program
from runtimes.local.shim.mounts import in_home
from runtimes.local.taskdir import TaskDir

SOCKET_NAME = "door"
MOST_CLIENTS = 512
HANG_UP_S = 1.0  # between SIGHUP and SIGKILL
DEFAULT_TERM = "xterm-256color"


class Client:
    def __init__(self, conn: socket.socket):
        self.conn = conn
        self.pid = 0
        self.ends: set[tuple[int, int]] = set()  # its pipes or pty

    def send(self, fds: tuple[int, ...] = (), **answer) -> None:
        try:
            socket.send_fds(self.conn, [json.dumps(answer).encode()], list(fds))
        except OSError:
            pass  # gone, or not reading


class SessionServer:
    def __init__(self, task: TaskDir, plan: dict, poll: select.poll, first: int, tree: Callable[[], list[Process]]):
        """Listen in the task's directory. first: pid with the job's mount namespace. Raises OSError."""
        self.plan, self.poll, self.tree = plan, poll, tree
        self.view = os.open(f"/proc/{first}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC) if plan["namespaces"] else None
        self.socket = listen_in(task.path, SOCKET_NAME)
        self.listeners = Listeners()
        self.clients: dict[int, Client] = {}  # by descriptor
        self.programs: dict[int, Client] = {}  # by pid
        self.hung_up: list[tuple[float, list[Process]]] = []  # due for SIGKILL
        poll.register(self.socket, select.POLLIN)

    def serve(self, ready: set[int]) -> None:
        """Handle ready descriptors and due kills."""
        for fd in ready & self.clients.keys():
            self._read_request(self.clients[fd])
        if self.socket.fileno() in ready:
            self._accept()
        now = time.monotonic()
        while self.hung_up and self.hung_up[0][0] <= now:
            for process in self.hung_up.pop(0)[1]:
                send_signal(process, signal.SIGKILL)

    def next_at(self) -> float | None:
        """Return when `serve` is due anyway."""
        return self.hung_up[0][0] if self.hung_up else None

    def report_end(self, pid: int, status: int) -> None:
        """Report a program's end (status as of waitpid) to its client."""
        client = self.programs.pop(pid, None)
        if client is not None:
            client.send(exit=os.waitstatus_to_exitcode(status))  # its children may go on

    def close(self) -> None:
        """Refuse clients and hang up programs. Idempotent."""
        if self.socket.fileno() >= 0:
            self.poll.unregister(self.socket)
            self.socket.close()
            for client in self.programs.values():
                self._hang_up(client)

    def _accept(self) -> None:
        try:
            conn, _ = self.socket.accept()
        except OSError:
            return
        if len(self.clients) >= MOST_CLIENTS:
            conn.close()
            return
        conn.setblocking(False)
        self.clients[conn.fileno()] = Client(conn)
        self.poll.register(conn, select.POLLIN)

    def _drop(self, client: Client) -> None:
        self.poll.unregister(client.conn)
        del self.clients[client.conn.fileno()]
        client.conn.close()
        if client.pid:
            self._hang_up(client)

    def _read_request(self, client: Client) -> None:
        data: bytes = b""
        fds: list[int] = []
        try:
            data, fds = receive_packet(client.conn)
        except BlockingIOError:
            return
        except OSError:
            pass
        try:
            if data:
                self._serve_request(client, json.loads(data), fds)
            else:
                self._drop(client)
        except (OSError, ValueError, KeyError, TypeError) as error:
            client.send(error=f"The task could not do it: {error}")
        finally:
            for fd in fds:
                os.close(fd)

    def _serve_request(self, client: Client, request: dict, fds: list[int]) -> None:
        if "signal" in request:
            if self._runs(client):
                self._signal(client.pid, request["signal"])
        elif self.socket.fileno() < 0:
            client.send(error="This task is ending.")
        elif "dial" in request:
            self._dial(client, int(request["dial"]))
        elif client.pid == 0:
            self._start(client, request, fds)

    def _start(self, client: Client, request: dict, fds: list[int]) -> None:
        if len(fds) != (2 if request["pty"] else 4) or not request["exec"]:
            raise ValueError("descriptors or a command are missing")
        try:
            pid = os.fork()
        except OSError as error:
            if error.errno != errno.ENOMEM or self.view is None:
                raise
            # The namespace's init is gone, so nothing can fork into it.
            return client.send(error="This task is ending.")
        if pid == 0:
            _become_program(self.plan, self.view, request, fds)
        client.pid, client.ends = pid, {identify_stream(fd) for fd in fds[1:]}
        self.programs[pid] = client
        client.send(started=True)

    def _dial(self, client: Client, port: int) -> None:
        """Connect to the port; check its owner before and after, as it may change."""
        for address in self.listeners.own_addresses(port, self.tree):
            try:
                connected = connect_to(address, port)
            except ConnectionRefusedError:
                continue
            if connected is None:
                return client.send(busy=True)
            with connected:
                if address in self.listeners.own_addresses(port, self.tree):
                    return client.send((connected.fileno(),), connected=True)
        client.send(refused=True)

    def _hang_up(self, client: Client) -> None:
        """Send SIGHUP, later SIGKILL, to the program and those of its group with an end of the session.

        A server with other ends (`server >log 2>&1 </dev/null &`) stays, so that editors can reconnect.
        """
        program = read_process(client.pid) if self._runs(client) else None
        others = [one for one in list_group(client.pid) if one.pid != client.pid and holds_stream(one.pid, client.ends)]
        going = [program, *others] if program else others
        for process in going:
            send_signal(process, signal.SIGHUP)
            send_signal(process, signal.SIGCONT)  # if stopped
        self.hung_up.append((time.monotonic() + HANG_UP_S, going))

    def _runs(self, client: Client) -> bool:
        return self.programs.get(client.pid) is client

    def _signal(self, pid: int, number: int) -> None:
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            os.kill(pid, number)  # no group leader yet; not reaped, so not reused
        except PermissionError:
            pass


def _become_program(plan: dict, view: int | None, request: dict, fds: list[int]) -> None:
    """In the forked child: take on the job's limits, view and account. Never returns."""
    failed, *ends = fds
    try:
        isolation.die_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        close_all_but(*fds, *([view] if view is not None else []))
        enter_limits(plan)
        if view is not None:
            isolation.enter_namespaces(view)
        os.setsid()
        if request["pty"]:
            if plan["uid"] is not None:
                os.fchown(ends[0], plan["uid"], plan["gid"])  # reopened by name
            fcntl.ioctl(ends[0], termios.TIOCSCTTY, 0)
        stdin, stdout, stderr = ends * 3 if request["pty"] else ends
        env = plan["env"] | ({"TERM": DEFAULT_TERM} if request["pty"] else {}) | request["env"]
        run_program(plan, request["exec"], env, _folder(plan, request["cwd"]), (stdin, stdout, stderr))
    except BaseException as error:
        os.write(failed, f"{request['exec'][0]}: {getattr(error, 'strerror', None) or error}".encode())
    finally:
        os._exit(127)


def _folder(plan: dict, cwd: str | None) -> str:
    if cwd is None:
        return plan["cwd"] if os.path.isdir(plan["cwd"]) else "/"  # deleted by the job
    return os.path.join(plan["cwd"], in_home(cwd, plan["env"]["HOME"]))
