"""Unix sockets of packets in a folder, reached through its descriptor: a socket's path is limited to 107 bytes.

Few imports, for the shim.
"""

import os
import socket
import struct

MESSAGE_LIMIT = 128 << 10
MOST_FDS = 4
INT = struct.calcsize("i")


def listen_in(folder: str | os.PathLike, name: str) -> socket.socket:
    """Listen for packets at a new socket that only our account may connect to. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.setblocking(False)
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mask = os.umask(0o177)
    try:
        listener.bind(f"/proc/self/fd/{opened}/{name}")
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(mask)
        os.close(opened)
    listener.listen(128)
    return listener


def connect_in(folder: str | os.PathLike, name: str) -> socket.socket:
    """Connect without waiting. Raises OSError."""
    conn = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    conn.setblocking(False)
    try:
        opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            conn.connect(f"/proc/self/fd/{opened}/{name}")
        finally:
            os.close(opened)
    except OSError:
        conn.close()
        raise
    return conn


def receive_packet(conn: socket.socket) -> tuple[bytes, list[int]]:
    """Return (packet, descriptors). Raises OSError. socket.recv_fds drops MSG_CMSG_CLOEXEC and would leak them."""
    data, ancillary, _, _ = conn.recvmsg(MESSAGE_LIMIT, socket.CMSG_LEN(MOST_FDS * INT), socket.MSG_CMSG_CLOEXEC)
    rights = [body for level, kind, body in ancillary if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
    return data, [fd for body in rights for fd in struct.unpack(f"{len(body) // INT}i", body)]
