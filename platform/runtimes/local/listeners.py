"""Who listens on a port of loopback, by /proc/net: a socket's inode, and which process has it open.

Source: proc(5) and the kernel's Documentation/networking/proc_net_tcp.rst. Loaded by every shim: imports little.
"""

import os
import select
import socket
from collections.abc import Callable

from runtimes.local.processes import Process, is_alive

LISTEN = "0A"
V4, V6 = "127.0.0.1", "::1"
# How the kernel writes the addresses at which a connection to loopback arrives: words of 32 bits in the host's order.
AT_V4 = {"0100007F", "00000000"}
AT_V6 = {"0" * 24 + "01000000", "0" * 32}
AT_BOTH = {"0" * 32, "0000000000000000FFFF00000100007F"}  # sockets of version 6 that take version 4 too


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
    four, six = _table("/proc/net/tcp", port), _table("/proc/net/tcp6", port)
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


def _table(path: str, port: int) -> list[tuple[str, int]]:
    """(address, inode) of the sockets that listen on this port."""
    wanted, found = f":{port:04X}", []
    try:
        with open(path) as file:
            for line in file:
                if wanted in line:
                    fields = line.split()
                    if fields[1].endswith(wanted) and fields[3] == LISTEN:
                        found.append((fields[1].partition(":")[0], int(fields[9])))
    except OSError:
        pass  # no IPv6 here
    return found


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
