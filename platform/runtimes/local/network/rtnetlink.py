"""Tell the kernel's routing what it needs for a network namespace, and ask it for a machine's addresses.

Sources: rtnetlink(7), netdevice(7), linux/fib_rules.h, linux/if_addr.h. Few imports, for the holder.
"""

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from runtimes.local.network.rules import Rule

NEW_ADDRESS, GET_ADDRESS, NEW_RULE = 20, 22, 32
REQUEST, ACKNOWLEDGE, EXCLUSIVE, CREATE, DUMP = 1, 4, 0x200, 0x400, 0x300
ERROR, DONE = 2, 3
HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
RULE = struct.Struct("=BBBBBxxBI")  # fib_rule_hdr: family, lengths of destination and source, tos, table, action, flags
ADDRESS = struct.Struct("=BBBBI")  # ifaddrmsg: family, prefix, flags, scope, index
ATTRIBUTE = struct.Struct("=HH")  # rtattr: length, type
OF_ADDRESS, OF_LOCAL = 1, 2  # IFA_ADDRESS, IFA_LOCAL
DESTINATION, PRIORITY, PROTOCOL, PORTS = 1, 6, 22, 24  # FRA_DST, FRA_PRIORITY, FRA_IP_PROTO, FRA_DPORT_RANGE
TO_TABLE, PROHIBIT = 1, 8  # FR_ACT_TO_TBL, FR_ACT_PROHIBIT
MAIN_TABLE = 254
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


def bring_up(interface: str) -> None:
    """Bring up an interface of our network namespace. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        name = interface.encode()
        found = fcntl.ioctl(any_socket, GET_FLAGS, struct.pack("16sH22x", name, 0))
        flags = struct.unpack_from("H", found, 16)[0]
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sH22x", name, flags | UP))


def add_rule(rule: Rule, priority: int) -> None:
    """Add a rule to our network namespace. Raises OSError."""
    network = ip_network(rule.network)
    family, action = FAMILIES[network.version], TO_TABLE if rule.allowed else PROHIBIT
    body = RULE.pack(family, network.prefixlen, 0, 0, MAIN_TABLE if rule.allowed else 0, action, 0)
    body += _attribute(DESTINATION, network.network_address.packed) if network.prefixlen else b""
    body += _attribute(PRIORITY, struct.pack("=I", priority))
    if rule.port is not None:
        body += _attribute(PROTOCOL, struct.pack("=B", rule.protocol))
        body += _attribute(PORTS, struct.pack("=HH", rule.port, rule.port))
    for _ in _ask(NEW_RULE, REQUEST | ACKNOWLEDGE | CREATE | EXCLUSIVE, body):
        pass


def list_addresses() -> list[str]:
    """Return all addresses of this network namespace, such as 192.0.2.2 and fe80::1. Raises OSError."""
    found = []
    for answer in _ask(GET_ADDRESS, REQUEST | DUMP, ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        known = dict(_attributes(answer[ADDRESS.size :]))
        if (packed := known.get(OF_LOCAL) or known.get(OF_ADDRESS)) is not None:
            found.append(str(ip_address(packed)))
    return found


def _ask(kind: int, flags: int, body: bytes) -> Iterator[bytes]:
    """Yield the bodies of what the kernel answers. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as kernel:
        kernel.send(HEADER.pack(HEADER.size + len(body), kind, flags, 1, 0) + body)
        while True:
            answer = kernel.recv(1 << 16)
            while answer:
                length, said, *_ = HEADER.unpack_from(answer)
                if said == DONE:
                    return
                if said == ERROR:
                    if number := -struct.unpack_from("=i", answer, HEADER.size)[0]:
                        raise OSError(number, os.strerror(number))
                    return
                yield answer[HEADER.size : length]
                answer = answer[length + 3 & ~3 :]


def _attribute(kind: int, value: bytes) -> bytes:
    length = ATTRIBUTE.size + len(value)
    return ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        yield kind, data[ATTRIBUTE.size : length]
        data = data[length + 3 & ~3 :]


def has_ipv6() -> bool:
    """Return whether this kernel speaks IPv6 at all."""
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()
    except OSError as error:
        if error.errno != errno.EAFNOSUPPORT:
            raise
        return False
    return True
