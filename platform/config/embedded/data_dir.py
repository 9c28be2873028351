"""Data directory, private run directory, lock and ports of an embedded installation."""

import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import secrets
import socket
import stat
import tempfile
from pathlib import Path
from shutil import disk_usage

from common.private_file import create_private_file
from config.embedded.supervisor import Failure
from runtimes.local.access.listeners import find_descriptor, list_listeners
from runtimes.local.processes import list_processes

PLENTY_BYTES = 1024**3
MARK = "install"
"""File of an installation whose jobs are on a cluster, with its name there."""


def open_data(data: Path) -> None:
    """Make or check the data directory. Raises Failure."""
    # As root, jobs run under other uids and must pass; secret files inside are private themselves.
    mode = 0o711 if os.geteuid() == 0 else 0o700
    try:
        data.mkdir(parents=True, exist_ok=True, mode=mode)
        (data / "logs-of-platform").mkdir(exist_ok=True, mode=0o700)
    except PermissionError:
        raise Failure(f"No write access to {data}.", "Start as its owner, or name another place: --data DIR.") from None
    except FileExistsError:
        raise Failure(f"{data} is not a directory.", "Move it away, or name another place: --data DIR.") from None
    except OSError as error:
        raise Failure(f"{data} cannot be made: {error.strerror}.", "Free some space, or name another place.") from None
    owner = data.stat().st_uid
    if owner != os.geteuid():
        raise Failure(
            f"{data} belongs to {show_account(owner)}.", "Start as that account, or use another place: --data DIR."
        )


def describe_room(data: Path) -> str:
    """Return a note where little room is left, or ""."""
    free = disk_usage(data).free
    if free >= PLENTY_BYTES:
        return ""
    return (
        f"Only {free // 1024**2} MiB are free for {data}. New jobs are refused while the disk is full: free some space."
    )


def check_data(data: Path, *, cluster: bool) -> None:
    """Check that a folder's jobs are here or on a cluster. Raises Failure."""
    if (data / "postgres").exists() and (data / MARK).exists() != cluster:
        what = "of this machine" if cluster else "of a cluster"
        how = "without --cluster" if cluster else "with --cluster"
        raise Failure(f"{data} is for jobs {what}.", f"Start it {how}, or name another place: --data DIR.")


def open_run(data: Path) -> Path:
    """Make or check the private socket directory: short, 0700 and ours. Raises Failure.

    Its name in /tmp can be guessed, so one made by another account is refused.
    """
    name = "tessera-" + hashlib.sha256(str(data).encode()).hexdigest()[:12]
    run = runtime_home() / name
    with contextlib.suppress(FileExistsError):
        run.mkdir(mode=0o700)
    found = run.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise Failure(f"{run} is not a private directory of this account.", "Find out who made it, then remove it.")
    return run


def runtime_home() -> Path:
    """Return /tmp for root: its runtime directory is closed to jobs."""
    home = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if (
        os.geteuid()
        and home.is_absolute()
        and home.is_dir()
        and home.stat().st_uid == os.geteuid()
        and os.access(home, os.W_OK)
    ):
        return home
    return Path(tempfile.gettempdir())


def take_lock(data: Path) -> int:
    """Lock the data directory. Raises Failure."""
    descriptor = os.open(data / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        running = read_running(data)
        where = f": {running['url']} (process {running['pid']})" if running else ", and is just starting"
        raise Failure(
            f"Tessera runs here already{where}.", "Open that address, or stop it there with Ctrl-C."
        ) from None
    return descriptor


def write_running(data: Path, url: str, children: dict[str, int]) -> bool:
    """Write `running.json` atomically. On a full disk the older one stays; return False."""
    fresh = data / "running.json.new"
    try:
        fresh.write_text(json.dumps({"url": url, "pid": os.getpid(), "children": children}))
        fresh.replace(data / "running.json")
    except OSError:
        return False
    return True


def read_running(data: Path) -> dict:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((data / "running.json").read_text())
    return {}


def secret_key_file(data: Path) -> Path:
    """Return the key file, made once, private."""
    path = data / "secret_key"
    with contextlib.suppress(FileExistsError):
        with create_private_file(path) as file:
            file.write(secrets.token_urlsafe(50))
    return path


def remembered_gpus(data: Path, given: str) -> str:
    """Return this start's --gpus, else the last one's."""
    path = data / "gpus"
    if given:
        path.write_text(given)
        return given
    return path.read_text() if path.exists() else ""


def listen(port: int) -> list[socket.socket]:
    """Listen on 127.0.0.1 and, with IPv6, ::1: browsers use either for localhost. Raises Failure.

    The supervisor keeps the sockets, so a restart of the web process refuses nobody.
    """
    sockets = [open_listener(socket.AF_INET, "127.0.0.1", port)]
    with contextlib.suppress(OSError):
        sockets.append(open_listener(socket.AF_INET6, "::1", port))
    return sockets


def listen_for_ssh(port: int) -> tuple[int, list[socket.socket]]:
    """Return the first free of ten ports and its sockets."""
    for number in range(port, min(port + 10, 65_536)):
        with contextlib.suppress(Failure):
            return number, listen(number)
    return 0, []


def open_listener(family: int, host: str, port: int) -> socket.socket:
    """Listen on a port; raise Failure if it is taken."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(512)
    except OSError as error:
        sock.close()
        if family == socket.AF_INET6 and not describe_port_holder(port):
            raise
        raise Failure(
            f"Port {port} cannot be used: {error.strerror}{describe_port_holder(port)}.",
            f"Stop that program, or take another port: --port {port + 1 if port < 65535 else 8470}.",
        ) from None
    return sock


def describe_port_holder(port: int) -> str:
    """Return ", held by process 12 (name)" for a port, or ""."""
    inodes = {inode for _, found in list_listeners(port) for inode in found}
    if not inodes:
        return ""
    for process in list_processes():
        if any(find_descriptor(process.pid, inode) for inode in inodes):
            with contextlib.suppress(OSError):
                return f", held by process {process.pid} ({Path(f'/proc/{process.pid}/comm').read_text().strip()})"
    return ", held by a process of another account"


def show_account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
