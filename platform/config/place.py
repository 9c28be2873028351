"""Where an embedded installation lives: data, private run directory, one lock, its port. All checked first."""

import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import secrets
import shutil
import socket
import stat
import tempfile
from pathlib import Path

from config.supervisor import Failure

NEEDED_BYTES = 1024**3


def open_data(data: Path) -> None:
    """Make the data directory, or check that it is ours and has room. Raises Failure."""
    # As root each job runs under a uid of its own and must be able to pass; what is secret inside is closed by itself.
    mode = 0o711 if os.geteuid() == 0 else 0o700
    try:
        data.mkdir(parents=True, exist_ok=True, mode=mode)
        (data / "logs-of-platform").mkdir(exist_ok=True, mode=0o700)
    except PermissionError:
        raise Failure(f"No write access to {data}.", "Start as its owner, or name another place: --data DIR.") from None
    except FileExistsError:
        raise Failure(f"{data} is not a directory.", "Move it away, or name another place: --data DIR.") from None
    owner = data.stat().st_uid
    if owner != os.geteuid():
        raise Failure(
            f"{data} belongs to {account(owner)}.", "Start as that account, or use another place: --data DIR."
        )
    free = shutil.disk_usage(data).free
    if free < NEEDED_BYTES:
        raise Failure(f"Only {free // 1024**2} MiB are free for {data}; 1024 MiB are needed.", "Free some space first.")


def open_run(data: Path) -> Path:
    """The private directory for sockets: short path, named after the data, 0700 and ours. Raises Failure.

    Its name can be guessed and /tmp is everybody's, so one that somebody else prepared is refused.
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
    """Root's own runtime directory is closed to the accounts that its jobs run under, who must pass: then /tmp."""
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
    """One supervisor per data directory, as long as the returned file descriptor is open. Raises Failure."""
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


def write_running(data: Path, url: str, children: dict[str, int]) -> None:
    """Tell a second start, `bin/bench` and people who runs here: `running.json`, replaced as a whole."""
    fresh = data / "running.json.new"
    fresh.write_text(json.dumps({"url": url, "pid": os.getpid(), "children": children}))
    fresh.replace(data / "running.json")


def read_running(data: Path) -> dict:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((data / "running.json").read_text())
    return {}


def secret_key_file(data: Path) -> Path:
    """Made once, readable by us only; it signs sessions and login links."""
    path = data / "secret_key"
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
    return path


def remembered_gpus(data: Path, given: str) -> str:
    """The --gpus text of this start, else of the last one that had it: a restart must not change the machine."""
    path = data / "gpus"
    if given:
        path.write_text(given)
        return given
    return path.read_text() if path.exists() else ""


def listen(port: int) -> list[socket.socket]:
    """Listening sockets on 127.0.0.1 and, where there is IPv6, ::1: browsers may take either for localhost.

    The supervisor keeps them open, so a restart of the web process refuses nobody. Raises Failure.
    """
    sockets = [bind(socket.AF_INET, "127.0.0.1", port)]
    with contextlib.suppress(OSError):
        sockets.append(bind(socket.AF_INET6, "::1", port))
    return sockets


def listen_for_ssh(port: int) -> tuple[int, list[socket.socket]]:
    """The first free port from `port` on, of ten, and its sockets; (0, []) where none is."""
    for number in range(port, min(port + 10, 65_536)):
        with contextlib.suppress(Failure):
            return number, listen(number)
    return 0, []


def bind(family: int, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(512)
    except OSError as error:
        sock.close()
        if family == socket.AF_INET6 and not holder_of(port):
            raise
        raise Failure(
            f"Port {port} cannot be used: {error.strerror}{holder_of(port)}.",
            f"Stop that program, or take another port: --port {port + 1 if port < 65535 else 8470}.",
        ) from None
    return sock


def holder_of(port: int) -> str:
    """ ", held by process 12 (name)" for a port of this machine, as far as this account may see; "" when unknown."""
    inodes = {f"socket:[{inode}]" for inode in listening_inodes(port)}
    if not inodes:
        return ""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if any(str(link.readlink()) in inodes for link in (entry / "fd").iterdir()):
                    return f", held by process {entry.name} ({(entry / 'comm').read_text().strip()})"
    return ", held by a process of another account"


def listening_inodes(port: int) -> list[str]:
    """Inodes of sockets in state LISTEN (0A) on the port; the columns of /proc/net/tcp are in proc(5)."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                    found.append(columns[9])
    return found


def account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
