"""Find by trying what this kernel allows for isolation and limits."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import runtimes
from agent import host
from runtimes.local.shim import cgroups

SOURCES = tuple(str(Path(file or "").resolve().parent.parent) for file in (runtimes.__file__, host.__file__))
"""Where Python finds our packages: the platform's and the agent's."""
NOBODY = 65534
OWN_UID, OWN_NAMESPACES, SHARED = "own uid", "own namespaces", "shared account"


@dataclass(frozen=True)
class Isolation:
    """How jobs are isolated. words: for the node page. separate_uids: jobs run as TaskSpec.uid."""

    words: str
    separate_uids: bool
    namespaces: bool


@dataclass(frozen=True)
class MemoryControl:
    """How limits are set. kind: cgroup v2, cgroup v1, watchdog. Parents: writable groups or ""."""

    kind: str
    memory_parent: str = ""
    cpu_parent: str = ""
    pids_parent: str = ""


def probe_isolation(scratch: Path, run_dir: Path) -> Isolation:
    """Find how jobs can be isolated. scratch: a new path for the test."""
    root = os.geteuid() == 0
    namespaces = _namespaces_work(scratch, run_dir, root)
    words = OWN_UID if root else OWN_NAMESPACES if namespaces else SHARED
    return Isolation(words, separate_uids=root, namespaces=namespaces)


def probe_memory() -> MemoryControl:
    mounts, own = _cgroup_mounts(), _own_cgroups()
    for parent in _create_v2_parents(mounts, own):
        if _trial(parent, partial(cgroups.make_memory_group, cgroups.V2), 64, 1000):
            pids = parent if _trial(parent, cgroups.make_pids_group, 1000) else ""
            return MemoryControl(cgroups.V2, parent, pids_parent=pids)
    memory = _usable(_v1_candidates("memory", mounts, own), partial(cgroups.make_memory_group, cgroups.V1), 64, 1000)
    cpu = _usable(_v1_candidates("cpu", mounts, own), cgroups.make_cpu_group, 1000) if memory else ""
    pids = _usable(_v1_candidates("pids", mounts, own), cgroups.make_pids_group, 1000)
    return MemoryControl(cgroups.V1 if memory else cgroups.WATCHDOG, memory, cpu, pids)


def run_python(code: str, *args: str) -> list[str]:
    """Return the command of an isolated Python with our packages."""
    return [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {list(SOURCES)!r}; {code}", *args]


def _namespaces_work(scratch: Path, run_dir: Path, root: bool) -> bool:
    try:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        if root:
            os.chown(scratch, NOBODY, NOBODY)
        uid = str(NOBODY) if root else ""
        code = "from runtimes.local.isolation import probe_namespaces; probe_namespaces(*sys.argv[1:])"
        command = run_python(code, str(scratch), str(run_dir), uid)
        return subprocess.run(command, env={}, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        shutil.rmtree(scratch.parent, ignore_errors=True)


def _cgroup_mounts() -> list[tuple[str, str, str, set[str]]]:
    """Return (kind, root, mount point, options)."""
    mounts = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, point = (re.sub(r"\\(\d{3})", lambda o: chr(int(o[1], 8)), text) for text in before.split()[3:5])
            mounts.append((kind, root, point, set(options.split(","))))
    return mounts


def _own_cgroups() -> dict[str, str]:
    """Return our groups by controller; "" is version 2."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    return own


def _here(root: str, point: str, path: str) -> str:
    """Return our group's path in a mount, else its top."""
    inside = os.path.relpath(path, root)
    return point if inside.startswith("..") else os.path.normpath(os.path.join(point, inside))


def _create_v2_parents(mounts, own) -> list[str]:
    found = []
    for kind, root, point, _ in mounts:
        if kind == "cgroup2":
            here = _here(root, point, own.get("", "/"))
            found += [os.path.join(parent, "tessera") for parent in (point, here, os.path.dirname(here))]
    return [parent for parent in dict.fromkeys(found) if _create_delegated_group(parent)]


def _create_delegated_group(parent: str) -> bool:
    """Create the group, with the controllers memory, cpu and pids as offered."""
    above = os.path.dirname(parent)
    try:
        offered = Path(above, "cgroup.controllers").read_text().split()
        if "memory" not in offered:
            return False
        os.makedirs(parent, exist_ok=True)
        for folder in (above, parent):
            for name in ("memory", *(name for name in ("cpu", "pids") if name in offered)):
                if name not in Path(folder, "cgroup.subtree_control").read_text().split():
                    Path(folder, "cgroup.subtree_control").write_text(f"+{name}")
    except OSError:
        cgroups.remove_group(parent, patience_s=0.01)
        return False
    return True


def _v1_candidates(controller: str, mounts, own) -> list[str]:
    for kind, root, point, options in mounts:
        if kind == "cgroup" and controller in options:
            here = _here(root, point, own.get(controller, "/"))
            return [os.path.join(parent, "tessera") for parent in dict.fromkeys((here, point))]
    return []


def _usable(parents: list[str], make: Callable[..., str], *numbers: int) -> str:
    return next((parent for parent in parents if _trial(parent, make, *numbers)), "")


def _trial(parent: str, make: Callable[..., str], *numbers: int) -> bool:
    name = f"trial-{os.getpid()}"
    try:
        group = make(parent, name, *numbers)
        command = ["/bin/sh", "-c", f"echo 0 > '{group}/cgroup.procs'"]
        return subprocess.run(command, env={}, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        cgroups.remove_group(os.path.join(parent, name))
