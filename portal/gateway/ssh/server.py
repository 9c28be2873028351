"""Starts and stops the SSH gateway with the web process."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Sequence

import asyncssh

from portal.access.ssh_endpoint import host_key_file, public_key_file
from portal.gateway.ssh.connection import SshServer, open_servers

LOGIN_S = 30
ALIVE_S, MOST_UNANSWERED = 30, 3
BACKLOG = 128


@contextlib.asynccontextmanager
async def serve(sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
    """Serve SSH on bound sockets; open sessions are told when the block ends."""
    options = asyncssh.SSHServerConnectionOptions(server_factory=lambda: SshServer(serve_inside), **_options())

    async def serve_inside(sock: socket.socket, target: str) -> None:
        inside = asyncssh.SSHServerConnectionOptions(
            server_factory=lambda: SshServer(serve_inside, target), **_options()
        )
        connection = await asyncssh.run_server(sock, options=inside)
        await connection.wait_closed()

    listeners = [await asyncssh.listen(sock=sock, options=options, backlog=BACKLOG) for sock in sockets]
    try:
        yield
    finally:
        for listener in listeners:
            listener.close()
        line = "The platform is restarting. Connect again in a moment."
        await asyncio.gather(*(server.end(line) for server in list(open_servers)))


def bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def read_host_key() -> asyncssh.SSHKey:
    """Return the host key, created at the first start and kept: clients pin it."""
    file = host_key_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.touch(0o600)
        fresh.write_bytes(asyncssh.generate_private_key("ssh-ed25519", comment="tessera").export_private_key())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, file)  # atomic; the first process wins
        fresh.unlink()
    key = asyncssh.read_private_key(file)
    public_key_file().write_bytes(key.export_public_key())
    return key


def _options() -> dict:
    return {
        "server_host_keys": [read_host_key()],
        "server_version": "Tessera",
        "encoding": None,
        "line_editor": False,
        "allow_scp": False,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "password_auth": False,
        "host_based_auth": False,
        "compression_algs": ["none"],
        "login_timeout": LOGIN_S,
        "keepalive_interval": ALIVE_S,
        "keepalive_count_max": MOST_UNANSWERED,
    }
