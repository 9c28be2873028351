"""Receive the namespace of a job's network from its holder. Few imports, for the shim."""

import json
import select
import socket

from runtimes.local.access.packet_sockets import receive_packet

PATIENCE_MS = 30_000  # names may take long to resolve


def receive_network(conn: socket.socket) -> tuple[int, int]:
    """Return the namespace of the network and its owner, opened, once its holder has made it. Raises OSError."""
    poll = select.poll()
    poll.register(conn, select.POLLIN)
    if not poll.poll(PATIENCE_MS):
        raise OSError("no network of its own came in time.")
    said, fds = receive_packet(conn)
    answer = json.loads(said) if said else {"error": "what holds its network ended."}
    if "error" in answer:
        raise OSError(answer["error"])
    network, owner = fds
    return network, owner
