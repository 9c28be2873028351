"""The SSH gateway of a test: the real web process, and OpenSSH's own clients to try it with."""

import contextlib
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from events.models import Event
from tests.runtimes.worlds import LocalWorld, wait_for
from tests.web_process import WebProcess

ROOT = Path(__file__).parents[1]
MIB = 1024 * 1024
SFTP_SERVER = Path("/usr/lib/openssh/sftp-server")
needs_sftp = pytest.mark.skipif(not SFTP_SERVER.exists(), reason="needs openssh-sftp-server")


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=128)


class Gateway:
    """The web process with its SSH socket, which outlives it as under the supervisor; and the task behind it."""

    def __init__(self, home: Path, local: LocalWorld):
        self.home, self.local = home, local
        self.web = WebProcess(ssh=True, TESSERA_DATA=local.base / "data")
        self.port, self.url = self.web.ssh_port, self.web.url
        for name in ("ada", "eve"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / name], check=True)
        self.start()

    def start(self) -> None:
        self.web.start()

    def stop(self) -> None:
        self.web.stop()

    @property
    def key_file(self) -> Path:
        return self.local.base / "data/ssh_host_ed25519_key"

    def options(self, who: str = "ada", batch: str = "yes") -> list[str]:
        known = self.home / "known_hosts"
        wait_for(lambda: Path(f"{self.key_file}.pub").exists())
        known.write_text(f"gateway {Path(f'{self.key_file}.pub').read_text()}")
        told = {
            "StrictHostKeyChecking": "yes", "UserKnownHostsFile": known, "HostKeyAlias": "gateway", "Port": self.port,
            "IdentityFile": self.home / who, "IdentitiesOnly": "yes", "BatchMode": batch, "ConnectTimeout": 60,
        }  # fmt: skip
        return ["-F", "none", *(part for name, value in told.items() for part in ("-o", f"{name}={value}"))]

    def ssh(self, *args, name="", who="ada", batch="yes", **also) -> subprocess.CompletedProcess:
        also = {"stdin": subprocess.DEVNULL} | also if "input" not in also else also
        command = ["ssh", *self.options(who, batch), "-l", name, "127.0.0.1", *args]
        return subprocess.run(command, capture_output=True, timeout=60, **also)


def nobody_is_inside() -> bool:
    return Event.objects.filter(verb="entered").count() == Event.objects.filter(verb="left").count()


def ssh(world, *args, **also):
    return world.gateway.ssh(*args, **{"name": world.name, **also})


@contextmanager
def forwarding(world, *args):
    command = ["ssh", *world.gateway.options(), "-N", "-o", "ExitOnForwardFailure=yes", *args]
    with client([*command, "-l", world.name, "127.0.0.1"], stderr=subprocess.PIPE) as process:
        yield process


@contextmanager
def client(command, **pipes):
    """An `ssh` that goes on until it is no longer needed. It is killed: a SIGTERM that comes between its look at the
    flag and its poll is not noticed before something else wakes it.
    """
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def free_port() -> int:
    with listener() as sock:
        return sock.getsockname()[1]


def ask(port: int) -> bytes:
    """What the answer to a plain request is, b"" where the connection is closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            return b"".join(iter(lambda: sock.recv(65536), b""))
    return b""


def is_open(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serving(world):
    """A web server that a session started in the task. Its port."""
    port = free_port()
    command = ["ssh", *world.gateway.options(), "-l", world.name, "127.0.0.1",
               f"exec python3 -m http.server --bind 127.0.0.1 {port}"]  # fmt: skip
    with client(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        wait_for(lambda: is_open(port))
        yield port
