"""Turn a TaskSpec into the shim's plan."""

import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pynvml

from runtimes.contract.node import GpuView
from runtimes.contract.task import Checkpoint, TaskSpec
from runtimes.environment import task_environment
from runtimes.gangs import gang_files
from runtimes.gpu_sharing import slice_environment, watched_limits
from runtimes.local.node.isolation_probe import SOURCES, Isolation, MemoryControl
from runtimes.local.shim.limits import WATCHDOG
from runtimes.local.shim.mounts import in_home
from runtimes.storage.areas import area_path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOG_CAPS = {"rate": 1 << 20, "burst": 8 << 20, "total": 200 << 20, "line": 16384, "tail": 1 << 20}
GPU_EVERY_S = 2.0
CHECKPOINT_EVERY_S = 10.0
NEW_FOLDER_MODES = {"home": 0o755, "team": 0o770}  # by mounts
LOW_NICE = 5  # below one core without CPU shares


@dataclass(frozen=True)
class Surroundings:
    """Settings of a node for all tasks.

    seen_at: scratch in namespaces. files: root of areas, None if unreachable. gpu_above_s: allowed time above a slice.
    """

    isolation: Isolation
    memory: MemoryControl
    hide: tuple[str, ...]
    seen_at: str
    files: str | None
    cards: Mapping[str, GpuView]
    libvgpu: str | None
    log_caps: Mapping[str, int]
    processes_most: int
    gpu_above_s: float


def build_plan(
    spec: TaskSpec,
    around: Surroundings,
    *,
    scratch: str,
    log: str,
    cpus: list[int],
    gpu_slice: dict | None = None,
    mps: dict | None = None,
) -> dict:
    """Return spec.json's content. gpu_slice: from slices.make_slice. mps: from ComputeSharing.of_task."""
    isolation = around.isolation
    seen_at = around.seen_at if isolation.namespaces else scratch
    work = os.path.join(seen_at, "work")
    env = build_environment(spec, around, seen_at) | (mps["env"] if mps else {})
    cwd = os.path.normpath(os.path.join(work, spec.workdir or ""))
    plan = {
        "argv": [shell(), "-c", spec.run],
        "env": env,
        "binds": build_binds(spec, around, scratch, seen_at, gpu_slice, mps),
        "cwd": cwd,
        "code_path": spec.code_path,
        "scratch": scratch,
        "hosts": gang_files(spec.peers),
        "log": log,
        "log_caps": dict(around.log_caps),
        "namespaces": isolation.namespaces,
        "hide": list(around.hide),
        "seen_at": seen_at,
        "uid": spec.uid if isolation.own_uid else None,
        "gid": spec.gid if isolation.own_uid else None,
        "account": [spec.user, os.path.join(seen_at, "home"), shell()],
        "cpus": cpus,
        "nice": LOW_NICE if spec.cpu_milli < 1000 and around.memory.kind == WATCHDOG else 0,
        "cpu_milli": spec.cpu_milli,
        "memory_mib": spec.memory_mib,
        "memory_kind": around.memory.kind,
        "memory_parent": around.memory.memory_parent,
        "cpu_parent": around.memory.cpu_parent,
        "pids_parent": around.memory.pids_parent if around.processes_most else "",
        "processes_most": around.processes_most,
        "gpu_limits": watched_limits(spec.gpus, around.cards),
        "gpu_every_s": GPU_EVERY_S,
        "gpu_samples": max(1, round(around.gpu_above_s / GPU_EVERY_S)),
        "slice": gpu_slice,
        "mps": mps,
        "max_time_s": spec.max_time_s,
        "grace_s": spec.grace_s,
        "checkpoint": _plan_checkpoint(spec.checkpoint, cwd, env["HOME"]) if spec.checkpoint else None,
        "path": [*SOURCES, str(Path(pynvml.__file__).parent)],
    }
    return {"spec": asdict(spec), "plan": plan}


def build_environment(spec: TaskSpec, around: Surroundings, seen_at: str) -> dict[str, str]:
    """Return a job's whole environment."""
    region = os.path.join(seen_at, "vgpu.cache")
    hints, fixed = slice_environment(spec.gpus, around.cards, libvgpu=around.libvgpu, region=region)
    team = {"TESSERA_TEAM_FOLDER": os.path.join(seen_at, "team")} if around.files else {}
    return {"PATH": PATH, "SHELL": shell()} | task_environment(spec, seen_at, hints, fixed | team)


def build_binds(
    spec: TaskSpec,
    around: Surroundings,
    scratch: str,
    seen_at: str,
    gpu_slice: dict | None = None,
    mps: dict | None = None,
) -> list[dict]:
    """Return binds for mounts.py, the task's directory first: others lie in it."""
    binds = [_bind(scratch, seen_at)] if around.isolation.namespaces else []
    if gpu_slice and around.isolation.namespaces:
        binds.append(_bind(gpu_slice["folder"], gpu_slice["seen_at"], read_only=True))
    if mps and around.isolation.namespaces:
        binds.append(_bind(mps["pipe"], mps["seen_at"], read_only=True))
    if around.files is not None:
        for kind, number in (("home", spec.uid), ("team", spec.gid)):
            binds.append(_bind(os.path.join(around.files, kind, str(number)), seen_at, below=kind))
    for mount in spec.mounts:
        if mount.place is None:
            root, source, mode = mount.source, "", None
        else:
            root = str(area_path(around.files or "", mount.place))
            source, mode = mount.source, NEW_FOLDER_MODES[mount.place.kind]
        if os.path.isabs(mount.target):
            if around.isolation.namespaces:  # else in place
                binds.append(_bind(root, mount.target, source=source, mode=mode, read_only=mount.read_only))
        else:
            work = os.path.join(seen_at, "work")
            below = os.path.normpath(mount.target)
            binds.append(_bind(root, work, below=below, source=source, mode=mode, read_only=mount.read_only))
    return binds


def _plan_checkpoint(checkpoint: Checkpoint, cwd: str, home: str) -> dict:
    return {
        "dir": os.path.normpath(os.path.join(cwd, in_home(checkpoint.dir, home))),
        "signal": int(signal.Signals[checkpoint.signal]) if checkpoint.signal else None,
        "grace_s": checkpoint.grace_s,
        "every_s": CHECKPOINT_EVERY_S,
    }


def _bind(
    root: str, base: str, *, source: str = "", below: str = "", mode: int | None = None, read_only: bool = False
) -> dict:
    return {"root": root, "source": source, "mode": mode, "base": base, "below": below, "read_only": read_only}


def shell() -> str:
    return next((path for path in ("/bin/bash", "/usr/bin/bash") if os.path.exists(path)), "/bin/sh")
