"""How full a machine's disks are. Those of file servers are left out: who asks one that is gone waits for ever.

    path, used_mib, all_mib, inodes, all_inodes, read_only

all_mib: without what is reserved for root. Inodes are absent where a file system makes them as needed.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "9p", "afs", "beegfs", "gpfs", "glusterfs"})
LONGEST_PATH = 100


@dataclass(frozen=True)
class Mount:
    """device: "major:minor". read_only: the whole file system, not only this mount of it."""

    point: str
    device: str
    kind: str
    read_only: bool


def read_disks(paths: Iterable[Path], proc: Path = Path("/proc")) -> list[dict[str, Any]]:
    """Return the disk below each path, each disk once."""
    mounts = read_mounts(proc)
    disks: dict[str, dict[str, Any]] = {}
    for path in paths:
        mount = find_mount(str(path), mounts)
        if mount is None or mount.device in disks or mount.kind in REMOTE or mount.kind.startswith("fuse"):
            continue
        try:
            filled = os.statvfs(path)
        except OSError:
            continue
        used, free = filled.f_blocks - filled.f_bfree, filled.f_bavail
        disk = {
            "path": str(path)[:LONGEST_PATH],
            "used_mib": used * filled.f_frsize >> 20,
            "all_mib": (used + free) * filled.f_frsize >> 20,
            "read_only": mount.read_only,
        }
        inodes = {"inodes": filled.f_files - filled.f_ffree, "all_inodes": filled.f_files} if filled.f_files else {}
        disks[mount.device] = disk | inodes
    return list(disks.values())


def read_mounts(proc: Path) -> list[Mount]:
    """Return what is mounted, the newest last. Source: proc_pid_mountinfo(5)."""
    try:
        lines = (proc / "self/mountinfo").read_text().splitlines()
    except OSError:
        return []
    mounts = []
    for line in lines:
        before, _, after = line.partition(" - ")
        words, kinds = before.split(), after.split()
        if len(words) > 4 and len(kinds) > 2:
            point = words[4].replace("\\040", " ")
            mounts.append(Mount(point, words[2], kinds[0], "ro" in kinds[2].split(",")))
    return mounts


def find_mount(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """Return the mount that a path lies on, without asking its file system."""
    above = [mount for mount in mounts if f"{path}/".startswith(f"{mount.point.rstrip('/')}/")]
    return max(reversed(above), key=lambda mount: len(mount.point), default=None)
