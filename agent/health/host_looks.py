"""Reads what the checks of a machine judge: disks, homes, the container engine, the kernel's counts."""

import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent.health.machine_checks import Disk, Home

OOM_KILL = "oom_kill "
PING = b"GET /_ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ENGINE_WITHIN_S = 10.0


def look_at_disks(written: Path, others: Iterable[Path]) -> list[Disk]:
    """Return each disk once, by the first path on it. Others than `written` may be mounted to be read only."""
    found: dict[int, Disk] = {}
    for path in (written, *others):
        try:
            told, device = os.statvfs(path), path.stat().st_dev
        except OSError:
            continue
        full = 100 - 100 * told.f_bavail // max(told.f_blocks - told.f_bfree + told.f_bavail, 1)
        inodes = 100 - 100 * told.f_favail // told.f_files if told.f_files else 0
        found.setdefault(
            device, Disk(str(path), int(full), int(inodes), path == written and bool(told.f_flag & os.ST_RDONLY))
        )
    return list(found.values())


def look_at_homes(homes: Sequence[Path], own: Sequence[Path]) -> list[Home]:
    """Return whether each is mounted: on a file system other than the machine's own. May wait for a file server.

    own: paths on file systems of the machine.
    """
    machine = {path.stat().st_dev for path in own if path.exists()}
    return [_look_at_home(path, machine) for path in homes]


def ask_engine(path: Path, within_s: float = ENGINE_WITHIN_S) -> str:
    """Return why a container engine does not answer at its socket; "" if it does.

    Any answer counts: Docker and Podman speak HTTP; engines of CRI speak HTTP/2 and hang up on anything else.
    """
    try:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.settimeout(within_s)
            engine.connect(str(path))
            engine.sendall(PING)
            engine.recv(1)
    except ConnectionResetError:
        return ""
    except TimeoutError:
        return f"it did not answer within {within_s:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def read_oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """Return how many processes the kernel ended for want of memory since boot."""
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(OOM_KILL)), None)


def _look_at_home(path: Path, machine: set[int]) -> Home:
    try:
        os.statvfs(path)  # a stale mount has a device, and fails here
        return Home(str(path), path.stat().st_dev not in machine)
    except OSError as error:
        return Home(str(path), False, error.strerror or str(error))
