"""Find which process listens on a loopback port, by socket inode. Few imports, for the shim.

Sources: sock_diag(7), linux/inet_diag.h; fallback: proc(5), Documentation/networking/proc_net_tcp.rst of the kernel.
"""

import os
import select
import socket
import struct
import sys
from collections.abc import Callable, Iterator

from runtimes.local.processes import Process, is_alive

V4, V6 = "127.0.0.1", "::1"
# Addresses that accept loopback connections
AT_V4 = {bytes([127, 0, 0, 1]), bytes(4)}
AT_V6 = {bytes(15) + b"\1", bytes(16)}
AT_BOTH = {bytes(16), bytes(10) + b"\xff\xff\x7f\0\0\1"}  # IPv6 sockets for IPv4 too

LISTEN = 10  # TCP_LISTEN of include/net/tcp_states.h
SOCK_DIAG, BY_FAMILY, DUMP = 4, 20, 0x301  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP
ERROR, DONE = 2, 3
HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
QUESTION = struct.Struct("=BBBxI48x")  # inet_diag_req_v2: family, protocol, extensions, states
FOUND = struct.Struct("!4xH2x16s")  # inet_diag_msg: port, address; inode at offset 68


class Listeners:
    """Finds a job's listeners, with a cache."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int, str]] = {}  # inode → pid, start, descriptor's path

    def own_addresses(self, port: int, tree: Callable[[], list[Process]]) -> list[str]:
        """Return the addresses where only the tree's processes listen."""
        return [
            address
            for address, inodes in list_listeners(port)
            if inodes and all(self._is_own(inode, tree) for inode in inodes)
        ]

    def _is_own(self, inode: int, tree: Callable[[], list[Process]]) -> bool:
        found = self.known.get(inode)
        if found and is_alive(found[0], found[1]) and _is_socket(found[2], inode):
            return True
        self.known.pop(inode, None)
        for process in tree():
            if path := find_descriptor(process.pid, inode):
                self.known[inode] = (process.pid, process.start, path)
                return True
        return False


def list_listeners(port: int) -> list[tuple[str, set[int]]]:
    """Return (address, inodes of its sockets), IPv4 first."""
    four, six = _at(socket.AF_INET, port), _at(socket.AF_INET6, port)
    at_v4 = {inode for at, inode in four if at in AT_V4} | {inode for at, inode in six if at in AT_BOTH}
    at_v6 = {inode for at, inode in six if at in AT_V6}
    return [(V4, at_v4), (V6, at_v6)]


def list_listening_ports() -> set[int]:
    """Return the TCP ports of this machine on which anything listens, at any address."""
    return {port for family in (socket.AF_INET, socket.AF_INET6) for port, _, _ in _every(family)}


def connect_to(address: str, port: int) -> socket.socket | None:
    """Connect, or None while the backlog is full. Raises ConnectionRefusedError."""
    family = socket.AF_INET if address == V4 else socket.AF_INET6
    connected = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    connected.connect_ex((address, port))  # immediate on loopback
    poll = select.poll()
    poll.register(connected, select.POLLOUT)
    if poll.poll(0):
        if connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            return connected
        connected.close()
        raise ConnectionRefusedError
    connected.close()
    return None


def find_descriptor(pid: int, inode: int) -> str | None:
    """Return the path of a process's descriptor of a socket, or None."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    return next((path for name in names if _is_socket(path := f"{folder}/{name}", inode)), None)


def _at(family: int, port: int) -> list[tuple[bytes, int]]:
    return [(address, inode) for at, address, inode in _every(family) if at == port]


def _every(family: int) -> list[tuple[int, bytes, int]]:
    """Return (port, address, inode) of all listeners."""
    try:
        return list(_asked(family))
    except OSError:
        return list(_read("/proc/net/tcp" if family == socket.AF_INET else "/proc/net/tcp6"))


def _asked(family: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield (port, address, inode) of all listeners, 100 times faster than /proc. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, SOCK_DIAG) as kernel:
        question = QUESTION.pack(family, socket.IPPROTO_TCP, 0, 1 << LISTEN)
        kernel.send(HEADER.pack(HEADER.size + len(question), BY_FAMILY, DUMP, 1, 0) + question)
        while True:
            answer = kernel.recv(1 << 16)
            while answer:
                length, kind, *_ = HEADER.unpack_from(answer)
                if kind == DONE:
                    return
                if kind == ERROR:
                    raise OSError("the kernel does not tell who listens")
                port, address = FOUND.unpack_from(answer, HEADER.size)
                inode = struct.unpack_from("=I", answer, HEADER.size + 68)[0]
                yield port, address[: 4 if family == socket.AF_INET else 16], inode
                answer = answer[length + 3 & ~3 :]


def _read(path: str) -> Iterator[tuple[int, bytes, int]]:
    try:
        with open(path) as file:
            for line in list(file)[1:]:
                fields = line.split()
                if int(fields[3], 16) == LISTEN:
                    address, _, port = fields[1].partition(":")
                    yield int(port, 16), _bytes_of(address), int(fields[9])
    except OSError:
        pass  # no IPv6


def _bytes_of(text: str) -> bytes:
    """Decode /proc's address: 32-bit words in host order."""
    return b"".join(int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8))


def _is_socket(path: str, inode: int) -> bool:
    try:
        return os.readlink(path) == f"socket:[{inode}]"
    except OSError:
        return False
