"""Who listens on a port of loopback: a socket's inode as the kernel tells it, and which process has it open.

Sources: sock_diag(7) and linux/inet_diag.h; where the kernel has no diagnosis, proc(5) and the kernel's
Documentation/networking/proc_net_tcp.rst. Loaded by every shim: imports little.
"""

import os
import select
import socket
import struct
import sys
from collections.abc import Callable, Iterator

from runtimes.local.processes import Process, is_alive

V4, V6 = "127.0.0.1", "::1"
# The addresses at which a connection to loopback arrives, as bytes.
AT_V4 = {bytes([127, 0, 0, 1]), bytes(4)}
AT_V6 = {bytes(15) + b"\1", bytes(16)}
AT_BOTH = {bytes(16), bytes(10) + b"\xff\xff\x7f\0\0\1"}  # sockets of version 6 that take version 4 too

LISTEN = 10  # TCP_LISTEN of include/net/tcp_states.h
SOCK_DIAG, BY_FAMILY, DUMP = 4, 20, 0x301  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP
ERROR, DONE = 2, 3
HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
QUESTION = struct.Struct("=BBBxI48x")  # inet_diag_req_v2: family, protocol, no extensions, states; of any socket
FOUND = struct.Struct("!4xH2x16s")  # inet_diag_msg: its port and its address; the inode lies 68 bytes in


class Listeners:
    """Remembers where it found a socket: most questions are about the same port."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int, str]] = {}  # inode → pid, its start, path of the descriptor

    def own_addresses(self, port: int, tree: Callable[[], list[Process]]) -> list[str]:
        """The loopback addresses where processes of the tree listen on this port, and nobody else does."""
        return [
            address
            for address, inodes in listening(port)
            if inodes and all(self._is_own(inode, tree) for inode in inodes)
        ]

    def _is_own(self, inode: int, tree: Callable[[], list[Process]]) -> bool:
        found = self.known.get(inode)
        if found and is_alive(found[0], found[1]) and _is_socket(found[2], inode):
            return True
        self.known.pop(inode, None)
        for process in tree():
            if path := _descriptor(process.pid, inode):
                self.known[inode] = (process.pid, process.start, path)
                return True
        return False


def listening(port: int) -> list[tuple[str, set[int]]]:
    """(loopback address, inodes of all sockets that may take a connection to it), version 4 first."""
    four, six = _at(socket.AF_INET, port), _at(socket.AF_INET6, port)
    at_v4 = {inode for at, inode in four if at in AT_V4} | {inode for at, inode in six if at in AT_BOTH}
    at_v6 = {inode for at, inode in six if at in AT_V6}
    return [(V4, at_v4), (V6, at_v6)]


def connect_to(address: str, port: int) -> socket.socket | None:
    """A connected socket, without waiting; None when the listener has no room just now.

    Raises ConnectionRefusedError: it is gone, or takes connections of the other version only.
    """
    family = socket.AF_INET if address == V4 else socket.AF_INET6
    connected = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    connected.connect_ex((address, port))  # on loopback the answer is there as soon as it returns
    poll = select.poll()
    poll.register(connected, select.POLLOUT)
    if poll.poll(0):
        if connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            return connected
        connected.close()
        raise ConnectionRefusedError
    connected.close()
    return None


def _at(family: int, port: int) -> list[tuple[bytes, int]]:
    """(address, inode) of the sockets that listen on this port."""
    try:
        every = list(_asked(family))
    except OSError:
        every = list(_read("/proc/net/tcp" if family == socket.AF_INET else "/proc/net/tcp6"))
    return [(address, inode) for at, address, inode in every if at == port]


def _asked(family: int) -> Iterator[tuple[int, bytes, int]]:
    """(port, address, inode) of all that listens. The files of /proc list every connection as well, and take the kernel
    a hundred times as long. Raises OSError where it cannot be asked so."""
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
    """The same, from a file of /proc."""
    try:
        with open(path) as file:
            for line in list(file)[1:]:
                fields = line.split()
                if int(fields[3], 16) == LISTEN:
                    address, _, port = fields[1].partition(":")
                    yield int(port, 16), _bytes_of(address), int(fields[9])
    except OSError:
        pass  # no IPv6 here


def _bytes_of(text: str) -> bytes:
    """Of an address as /proc writes it: words of 32 bits in the host's order."""
    return b"".join(int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8))


def _descriptor(pid: int, inode: int) -> str | None:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    return next((path for name in names if _is_socket(path := f"{folder}/{name}", inode)), None)


def _is_socket(path: str, inode: int) -> bool:
    try:
        return os.readlink(path) == f"socket:[{inode}]"
    except OSError:
        return False
