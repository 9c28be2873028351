"""Turn a TaskSpec into the shim's plan."""

import os
import signal
from dataclasses import asdict, replace
from pathlib import Path

import pynvml

from runtimes.contract.task import Checkpoint, Mount, TaskSpec
from runtimes.environment import SECRETS, build_gang_files, build_task_environment
from runtimes.gpu_sharing import build_slice_environment, list_watched_limits
from runtimes.images.names import RegistryLogin, make_image_key, read_image
from runtimes.local.config import NodeContext
from runtimes.local.images.driver_files import find_driver_files
from runtimes.local.node.isolation_probe import SOURCES
from runtimes.local.shim import secret_files
from runtimes.local.shim.cgroups import WATCHDOG
from runtimes.local.shim.mounts import in_home
from runtimes.python_environment import FOLDER, put_programs_first
from runtimes.report_file import add_tools, read_tools
from runtimes.storage.areas import get_area_path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GPU_EVERY_S = 2.0
CHECKPOINT_EVERY_S = 10.0
NEW_FOLDER_MODES = {"home": 0o755, "team": 0o770, "volume": 0o755}  # by mounts; versions of datasets are there
TASK_ROOT = "/tessera"
"""Where a task in an image finds its own folder, as on a cluster."""
IMAGE_SHELL = ("/bin/sh", "-c", 'exec "$(command -v bash || command -v sh)" -c "$1"', "tessera")
"""As on a cluster: bash, where the image has it."""
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
LOW_NICE = 5  # below one core without CPU shares


def build_plan(
    spec: TaskSpec,
    node: NodeContext,
    *,
    scratch: str,
    log: str,
    cpus: list[int],
    memory_node: int | None = None,
    gpu_slice: dict | None = None,
    mps: dict | None = None,
    network: str = "",
) -> dict:
    """Return spec.json's content. gpu_slice: from slices.make_slice_directory. mps: from ComputeSharing.of_task.

    network: the folder of its network, "" for the machine's.
    """
    config, isolation = node.config, node.isolation
    seen_at = TASK_ROOT if spec.image else str(config.run_dir / "task") if isolation.namespaces else scratch
    work = os.path.join(seen_at, "work")
    secrets = secret_files.choose_folder(spec.uuid, seen_at, isolation.namespaces) if spec.secrets else ""
    env = build_environment(spec, node, seen_at) | (mps["env"] if mps else {})
    env |= {SECRETS: secrets} if secrets else {}
    cwd = os.path.normpath(os.path.join(work, spec.workdir or ""))
    plan = {
        "argv": [*(IMAGE_SHELL if spec.image else (find_shell(), "-c")), spec.run],
        "env": env,
        "binds": build_binds(spec, node, scratch, seen_at, gpu_slice, mps),
        "cwd": cwd,
        "code_path": spec.code_path,
        "scratch": scratch,
        "hosts": build_gang_files(spec.peers),
        "tools": read_tools(),
        "log": log,
        "log_caps": dict(config.log_caps),
        "namespaces": isolation.namespaces,
        "hide": config.hidden,
        "image": plan_image(spec, node, scratch, gpu_slice) if spec.image else None,
        "seen_at": seen_at,
        "secrets": secrets,
        "network": network,
        "shm_mib": 0
        if mps
        else spec.shm_mib or spec.memory_mib,  # programs and the daemon of MPS meet in the machine's /dev/shm
        "uid": spec.uid if isolation.separate_uids else None,
        "gid": spec.gid if isolation.separate_uids else None,
        "account": [spec.user, os.path.join(seen_at, "home"), "/bin/sh" if spec.image else find_shell()],
        "cpus": cpus,
        "memory_node": memory_node,
        "nice": LOW_NICE if spec.cpu_milli < 1000 and node.memory.kind == WATCHDOG else 0,
        "cpu_milli": spec.cpu_milli,
        "memory_mib": spec.memory_mib,
        "memory_kind": node.memory.kind,
        "memory_parent": node.memory.memory_parent,
        "cpu_parent": node.memory.cpu_parent,
        "pids_parent": node.memory.pids_parent if config.processes_most else "",
        "processes_most": config.processes_most,
        "gpu_limits": list_watched_limits(spec.gpus, node.cards),
        "gpu_every_s": GPU_EVERY_S,
        "gpu_samples": max(1, round(config.gpu_above_s / GPU_EVERY_S)),
        "slice": gpu_slice,
        "mps": mps,
        "max_time_s": spec.max_time_s,
        "grace_s": spec.grace_s,
        "checkpoint": _plan_checkpoint(spec.checkpoint, cwd, env["HOME"]) if spec.checkpoint else None,
        "path": [*SOURCES, str(Path(pynvml.__file__).parent)],
    }
    return {"spec": asdict(replace(spec, secrets=(), logins=())), "plan": plan}


def plan_image(spec: TaskSpec, node: NodeContext, scratch: str, gpu_slice: dict | None) -> dict:
    """Return what the shim needs to have the task's image here, and to enter it."""
    config = node.config
    has_card = any(not node.cards[share.uuid].simulated for share in spec.gpus)
    return {
        "name": spec.image,
        "key": make_image_key(spec.image),
        "store": str(config.images_dir),
        "most_bytes": config.images_mib << 20,
        "authority": config.registry_ca,
        "plain": list(config.registry_plain),
        "proxies": {name: value for name, value in os.environ.items() if name.lower() in PROXIES},
        "folder": os.path.join(os.path.dirname(scratch), "rootfs"),
        "files": find_driver_files(with_slice=gpu_slice is not None) if has_card else [],
    }


def choose_login(spec: TaskSpec) -> RegistryLogin | None:
    """Return the login for the registry of the task's image."""
    registry = read_image(spec.image).registry if spec.image else ""
    return next((login for login in spec.logins if login.registry == registry), None)


def build_environment(spec: TaskSpec, node: NodeContext, seen_at: str) -> dict[str, str]:
    """Return a job's whole environment."""
    region = os.path.join(seen_at, "vgpu.cache")
    hints, fixed = build_slice_environment(spec.gpus, node.cards, libvgpu=node.config.libvgpu, region=region)
    team = {"TESSERA_TEAM_FOLDER": os.path.join(seen_at, "team")} if node.files else {}
    env = build_task_environment(spec, seen_at, hints, fixed | team)
    if spec.image:  # which has a PATH and a shell of its own, see rootfs.task_image
        return env
    return add_tools(put_programs_first({"PATH": PATH, "SHELL": find_shell()} | env, seen_at), seen_at)


def build_binds(
    spec: TaskSpec,
    node: NodeContext,
    scratch: str,
    seen_at: str,
    gpu_slice: dict | None = None,
    mps: dict | None = None,
) -> list[dict]:
    """Return binds for mounts.py, the task's directory first: others lie in it."""
    binds = [_bind(scratch, seen_at)] if node.isolation.namespaces else []
    if gpu_slice and node.isolation.namespaces:
        binds.append(_bind(gpu_slice["folder"], gpu_slice["seen_at"], read_only=True))
    if mps and node.isolation.namespaces:
        binds.append(_bind(mps["pipe"], mps["seen_at"], read_only=True))
    if node.files is not None:
        for kind, number in (("home", spec.uid), ("team", spec.gid)):
            binds.append(_bind(os.path.join(node.files, kind, str(number)), seen_at, below=kind))
    if spec.environment is not None:
        root, source, mode = _find_source(spec.environment, node)
        read_only = spec.environment.read_only
        binds.append(_bind(root, seen_at, below=FOLDER, source=source, mode=mode, read_only=read_only))
    for mount in spec.mounts:
        root, source, mode = _find_source(mount, node)
        if os.path.isabs(mount.target):
            if node.isolation.namespaces:  # else in place
                binds.append(_bind(root, mount.target, source=source, mode=mode, read_only=mount.read_only))
        else:
            work = os.path.join(seen_at, "work")
            below = os.path.normpath(mount.target)
            binds.append(_bind(root, work, below=below, source=source, mode=mode, read_only=mount.read_only))
    return binds


def _find_source(mount: Mount, node: NodeContext) -> tuple[str, str, int | None]:
    """Return the root, the path below it, and the mode of folders that are made there."""
    if mount.place is None:
        return mount.source, "", None
    root = str(get_area_path(node.files or "", mount.place))
    is_made = mount.place.kind != "volume" or not mount.read_only
    return root, mount.source, NEW_FOLDER_MODES.get(mount.place.kind) if is_made else None


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


def find_shell() -> str:
    return next((path for path in ("/bin/bash", "/usr/bin/bash") if os.path.exists(path)), "/bin/sh")
