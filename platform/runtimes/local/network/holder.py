"""The process that holds the network of a job's tasks on this machine, for as long as one of them uses it.

The namespace is made by a child, the anchor, whose account is nobody's where we are root. pasta, as the same account,
gives it its only way out, into our own network. Both die with this process, and it ends when no task is connected:
the kernel closes a task's connection whatever kills its shim. Few imports, to start quickly.
"""

import fcntl
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

from runtimes.local import isolation
from runtimes.local.access.packet_sockets import receive_packet
from runtimes.local.network import rtnetlink
from runtimes.local.network.rules import (
    HostNetwork,
    Portal,
    Rule,
    build_hosts,
    build_pasta,
    build_resolv_conf,
    build_rules,
    choose_interface,
    read_default_routes,
    read_name_servers,
)
from runtimes.local.shim.mounts import NETWORK_FILES
from runtimes.private_networks import Opened
from runtimes.storage.file_lock import LOCK_FILE

DOOR = "door"
HOSTS, RESOLV_CONF = NETWORK_FILES
NOBODY = 65534
MADE, READY = b"made", b"ready"
"""The anchor's words."""
DUPLICATE_DETECTION = [f"/proc/sys/net/ipv6/conf/{which}/accept_dad" for which in ("all", "default")]
READY_WITHIN_MS = 10_000
LOOK_EVERY_MS = 2
FIRST_PRIORITY = 1000
"""Of the rules: after the kernel's own for addresses of the namespace, before all that leads out."""


def main(listener: str, lock: str, folder: str, settings: str) -> None:
    """Hold a network until nobody uses it. lock: a file, held to end or to connect. settings: of `joining`, as JSON."""
    os.set_inheritable(int(listener), False)
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    Holder(socket.socket(fileno=int(listener)), lock, folder, json.loads(settings)).live()
    os._exit(0)


class Holder:
    def __init__(self, listener: socket.socket, lock: str, folder: str, settings: dict):
        self.listener, self.lock, self.folder, self.settings = listener, lock, folder, settings
        self.clients: dict[int, socket.socket] = {}
        self.answer: dict = {}
        self.namespaces: tuple[int, ...] = ()

    def live(self) -> None:
        try:
            self.namespaces = self._make_network()
            self.answer = {"ready": True}
        except OSError as error:
            self.answer = {"error": str(error)}
        self.poll = select.poll()
        self.poll.register(self.listener, select.POLLIN)
        self._accept()
        while self.clients or not self._end():
            for fd, _ in self.poll.poll():
                if fd == self.listener.fileno():
                    self._accept()
                else:
                    self._read(fd)

    # made

    def _make_network(self) -> tuple[int, ...]:
        """Return the network's namespace and its owner, once it leads out. Raises OSError."""
        hosts, resolv_conf, machine = _read_text(HOSTS), _read_text(RESOLV_CONF), read_host_network()
        portal = find_portal(*self.settings["portal"]) if self.settings["portal"] else None
        self._write(NETWORK_FILES[HOSTS], build_hosts(hosts, machine, portal))
        self._write(NETWORK_FILES[RESOLV_CONF], build_resolv_conf(resolv_conf))
        rules = build_rules(machine, (Opened(*each) for each in self.settings["opened"]), portal)
        ways_out = machine.routes or bool(machine.interface), machine.routes_6
        said_r, said_w = os.pipe2(os.O_CLOEXEC)
        anchor = _fork(lambda: _become_anchor(rules, ways_out, said_w))
        os.close(said_w)
        _expect(said_r, MADE)
        command = build_pasta(self.settings["pasta"], machine, portal, anchor)
        pasta = os.pidfd_open(_fork(lambda: _become_pasta(command))) if command else -1
        _expect(said_r, READY, pasta)
        return tuple(os.open(f"/proc/{anchor}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("net", "user"))

    def _write(self, name: str, text: str) -> None:
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o644)  # tasks read it, in place of the machine's

    # used

    def _accept(self) -> None:
        """Answer whoever came."""
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            conn.setblocking(False)
            self.clients[conn.fileno()] = conn
            self.poll.register(conn, select.POLLIN)
            try:
                socket.send_fds(conn, [json.dumps(self.answer).encode()], list(self.namespaces))
            except OSError:
                pass  # gone

    def _read(self, fd: int) -> None:
        """Drop a client that is gone: it sends nothing."""
        try:
            receive_packet(self.clients[fd])
        except OSError:
            pass
        self.poll.unregister(fd)
        self.clients.pop(fd).close()

    def _end(self) -> bool:
        """End if nobody connects meanwhile: whoever does holds the lock, too."""
        lock = os.open(self.lock, LOCK_FILE | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._accept()
        if self.clients:
            os.close(lock)
            return False
        for name in (DOOR, *NETWORK_FILES.values(), "log"):
            Path(self.folder, name).unlink(missing_ok=True)
        os.rmdir(self.folder)
        return True


def read_host_network() -> HostNetwork:
    """Read the network that we are in. Raises OSError."""
    routes, routes_6 = _read_ways_out()
    servers = read_name_servers(_read_text(RESOLV_CONF))
    interface = "" if routes else choose_interface(_read_text("/proc/net/route"))
    return HostNetwork(os.uname().nodename, tuple(rtnetlink.list_addresses()), servers, routes, routes_6, interface)


def _read_ways_out() -> tuple[bool, bool]:
    return read_default_routes(_read_text("/proc/net/route"), _read_text("/proc/net/ipv6_route"))


def find_portal(host: str, port: int) -> Portal:
    """Find the addresses of the platform's web server. Without a name server there are none, and jobs start all the
    same.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        print(f"{host}: {error}", file=sys.stderr, flush=True)
        found = []
    return Portal(host, port, tuple(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found)))


def _fork(become) -> int:
    """Run a function in a child that dies with us, as nobody where we are root."""
    holder, child = os.getpid(), os.fork()
    if child:
        return child
    try:
        if os.geteuid() == 0:
            isolation.become_account(NOBODY, NOBODY)
        isolation.die_with_parent()
        if os.getppid() == holder:
            become()
    except BaseException as error:
        print(error, file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def _become_anchor(rules: list[Rule], ways_out: tuple[bool, bool], said: int) -> None:
    """Make the namespace, and close it as soon as pasta has made its ways out: by IPv4, by IPv6."""
    isolation.open_network()
    for path in DUPLICATE_DETECTION:  # nobody else is there, and it would keep IPv6 waiting for a second
        if os.path.exists(path):
            with open(path, "w") as file:
                file.write("0")
    rtnetlink.bring_up("lo")
    os.write(said, MADE)
    while any(wanted and not there for wanted, there in zip(ways_out, _read_ways_out(), strict=True)):
        select.poll().poll(LOOK_EVERY_MS)
    has_ipv6 = rtnetlink.has_ipv6()
    for number, rule in enumerate(rules):
        if has_ipv6 or ":" not in rule.network:
            rtnetlink.add_rule(rule, FIRST_PRIORITY + number)
    os.write(said, READY)
    signal.pause()


def _become_pasta(command: list[str]) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # else it does not start
    os.execve(command[0], command, {})


def _expect(said: int, word: bytes, pasta: int = -1) -> None:
    """Wait for the anchor's word. pasta: its pidfd. Raises OSError if either is gone, or takes too long."""
    poll = select.poll()
    for fd in (said, pasta):
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    ready = [fd for fd, _ in poll.poll(READY_WITHIN_MS)]
    if said in ready and os.read(said, len(word)) == word:
        return
    raise OSError(f"a network of its own could not be made: {_read_last_words()}")


def _read_last_words() -> str:
    """Return what pasta or the anchor said last, on our stderr, which is a file."""
    said = _read_text("/proc/self/fd/2").splitlines()
    words = [line for line in said if not line.startswith("Failed to send")]  # of pasta, to a syslog that is not there
    return f"{words[-1].rstrip('.')}." if words else "pasta says nothing."


def _read_text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""
