"""Manage the cluster's processes without stale pid files.

The environment has the state folder, inherited by containerd's children; argv[0] is the part's name.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from dev.cluster.paths import ClusterPaths, Refusal

MARK = "TESSERA_CLUSTER"
POLL_S = 0.05
BEGIN_S = 1


def start(paths: ClusterPaths, name: str, *arguments: str) -> None:
    """Run a program in a new session unless it runs."""
    if name in find_parts(paths):
        return
    with open(paths.log(name), "ab") as log:
        subprocess.run(
            ["setsid", "--fork", str(paths.bin / name), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=paths.state,
            env=environment(paths),
            check=True,
        )
    poll_until(lambda: name in find_parts(paths), BEGIN_S)  # setsid returns before exec


def find_parts(paths: ClusterPaths) -> dict[str, int]:
    """Return {part: pid} without containerd's shims."""
    parts = {path.name for path in paths.bin.glob("*")}
    names = ((Path(read_words(pid, "cmdline")[0]).name, pid) for pid in find_processes(paths) if is_leader(pid))
    return {name: pid for name, pid in names if name in parts}


def find_processes(paths: ClusterPaths) -> list[int]:
    """Return pids with this cluster's mark."""
    mark = f"{MARK}={paths.state}"
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if mark in read_words(pid, "environ")]


def kill(pids: Iterable[int]) -> None:
    """Kill processes and wait."""
    pids = list(pids)
    for pid in pids:
        send(pid, signal.SIGKILL)
    poll_until(lambda: not any(is_alive(pid) for pid in pids), 10)


def wait_until(paths: ClusterPaths, name: str, is_true: Callable[[], bool], within_s: float) -> None:
    """Raise Refusal with the log's end if the part ended or timed out."""
    started = asked_at = time.monotonic()
    while not is_true():
        took_s = time.monotonic() - asked_at  # poll less if polling is slow
        gone = name not in find_parts(paths)
        if gone or time.monotonic() - started > within_s:
            what = "ended" if gone else f"was not ready within {within_s:.0f} s"
            tail = paths.log(name).read_text(errors="replace").splitlines()[-4:]
            raise Refusal("\n    ".join([f"{name} {what}. The end of {paths.log(name)}:", *tail]))
        time.sleep(max(POLL_S, 5 * took_s))
        asked_at = time.monotonic()


def poll_until(is_true: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def accepts_connections(path: Path) -> bool:
    """Return whether the socket accepts connections."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def environment(paths: ClusterPaths) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TZ") if name in os.environ}
    path = f"{paths.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return kept | {"PATH": path, MARK: str(paths.state)}


def is_leader(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def is_alive(pid: int) -> bool:
    """Return whether it runs and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def read_words(pid: int, name: str) -> list[str]:
    """Return words of /proc/PID/`name`, [""] if inaccessible."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return [""]
