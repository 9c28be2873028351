"""Start a task: check that it can run here, make what it needs, and start its shim."""

import errno
import math
import os
import subprocess
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from shutil import disk_usage

from runtimes.contract.errors import Rejected
from runtimes.contract.task import Mount, TaskSpec
from runtimes.gpu_sharing import needs_slice
from runtimes.images.names import is_bad_image
from runtimes.local.network.joining import build_settings, join_network
from runtimes.local.node.data_locations import DataLocations
from runtimes.local.node.isolation_probe import run_python
from runtimes.local.node.machine import Machine
from runtimes.local.plan import build_plan, choose_login
from runtimes.local.shim.secret_files import write_memory_file
from runtimes.local.taskdir import TaskDir, list_live_records
from runtimes.storage.areas import AreaId, ensure_area
from runtimes.storage.file_lock import hold_file_lock

ROOM_BYTES = 8 * 1024**2


def check_spec(spec: TaskSpec, machine: Machine) -> None:
    """Raise Rejected if this machine can never run a task."""
    if spec.node != machine.config.node_name:
        raise Rejected(f"This machine is {machine.config.node_name}, not {spec.node}.")
    if any(share.uuid not in machine.cards for share in spec.gpus):
        machine.read_cards()
    unknown = [share.uuid for share in spec.gpus if share.uuid not in machine.cards]
    if unknown:
        raise Rejected(f"This machine has no GPU {', '.join(unknown)}.")
    if machine.isolation.separate_uids and (spec.uid <= 0 or spec.gid <= 0):
        raise Rejected("A job never runs as root: its user has no uid or its team no gid.")
    if spec.image and not machine.images.works:
        raise Rejected(machine.images.words)
    if spec.image and is_bad_image(spec.image):
        raise Rejected(f"Not the name of an image: {spec.image[:100]!r}.")
    for mount in spec.mounts:
        _check_mount(mount, machine)


def check_room(tasks_dir: Path) -> None:
    """Raise OSError on a full disk, where a task could not write that it began and would fail for it."""
    if disk_usage(tasks_dir).free < ROOM_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tasks_dir))


def _check_mount(mount: Mount, machine: Machine) -> None:
    target, apart = os.path.normpath(mount.target), machine.isolation.namespaces
    if target.split("/")[0] in ("", ".", "..") and not os.path.isabs(target):
        raise Rejected(f"Data cannot be mounted at {mount.target!r}: it is not inside of where the task works.")
    if apart and os.path.isabs(target) and not any(target.startswith(f"{path}/") for path in machine.config.hidden):
        raise Rejected(f"Data cannot be mounted at {mount.target}: name a place inside of where the task works.")
    if not apart and os.path.isabs(target) and (mount.place is not None or target != mount.source):
        raise Rejected(f"{mount.target} cannot be mounted: this machine allows no namespaces.")
    if not apart and mount.read_only and mount.place is not None:
        raise Rejected(f"{mount.target} cannot be kept read-only: this machine allows no namespaces.")
    if mount.place is not None and not machine.files_reachable:
        raise Rejected(f"{mount.target} cannot be had: jobs on this machine cannot reach {machine.config.areas_dir}.")


def launch_task(spec: TaskSpec, task: TaskDir, lock: int, machine: Machine, data: DataLocations, log: Path) -> None:
    """Write the task's plan and start its shim, which inherits the held lock. Raises OSError."""
    node = machine.context(machine.cards)
    if node.files is not None:
        _ensure_areas(spec, machine)
        data.record_use(spec.mounts)
    scratch = machine.scratch_of(spec.uuid)
    os.makedirs(os.path.dirname(scratch), exist_ok=True)
    os.chmod(os.path.dirname(scratch), 0o711)  # noqa: S103 - jobs of other accounts pass through
    gpu_slice = machine.slices.make(spec) if needs_slice(spec.gpus, node.cards) else None
    by_mps = spec.mps and not spec.image  # its programs would meet in the machine's /dev/shm
    mps = machine.compute.of_task(spec.gpus, node.cards, machine.driver) if by_mps else None
    network = find_network_folder(spec, machine) if machine.networks.works else None
    with hold_file_lock(machine.config.tasks_dir / ".cores"):  # depends on others' choices
        cpus = _choose_cpus(spec, machine)
        near = choose_memory_node(spec.numa, machine.memory_nodes)
        plan = build_plan(
            spec,
            node,
            scratch=scratch,
            log=str(log),
            cpus=cpus,
            memory_node=near,
            gpu_slice=gpu_slice,
            mps=mps,
            network=str(network or ""),
        )
        task.write("spec.json", plan)
    given = {"lock": lock, "secrets": -1, "login": -1, "network": -1}
    started = []
    try:
        if spec.secrets:
            said = [(each.name, each.value, each.is_variable) for each in spec.secrets]
            given["secrets"] = write_memory_file("secrets", said)
        if login := choose_login(spec):
            given["login"] = write_memory_file("login", (login.registry, login.user, login.password))
        if network is not None:
            settings = build_settings(machine.networks.pasta, machine.config.opened, spec.platform_url)
            joined = join_network(network, settings)
            given["network"] = joined.conn.detach()
            started += [joined.holder] if joined.holder is not None else []
        started.append(_start_shim(task, list(given.values())))
    finally:
        for process in started:
            process.wait()  # it forks and exits
        for fd in given.values():
            if fd >= 0 and fd != lock:
                os.close(fd)


def _start_shim(task: TaskDir, given: Sequence[int]) -> subprocess.Popen:
    """Start a task's shim. given: descriptors that it takes over, -1 for none. Raises OSError."""
    start = "from runtimes.local.shim.shim import main; main(*sys.argv[1:])"
    with open(task / "shim.log", "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as errors:
        return subprocess.Popen(
            run_python(start, task.path, *("" if fd < 0 else str(fd) for fd in given)),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[fd for fd in given if fd >= 0],
            start_new_session=True,
        )


def find_network_folder(spec: TaskSpec, machine: Machine) -> Path:
    """Return the folder of a task's network, which all tasks of its gang share: they meet on the loopback."""
    return machine.config.networks_dir / (spec.peers[0].uuid if spec.peers and spec.peers[0].uuid else spec.uuid)


def _ensure_areas(spec: TaskSpec, machine: Machine) -> None:
    uid, gid = (spec.uid, spec.gid) if machine.isolation.separate_uids else (None, None)
    for area in (AreaId("home", spec.uid), AreaId("team", spec.gid)):
        ensure_area(machine.config.areas_dir, area, uid=uid, gid=gid)


def _choose_cpus(spec: TaskSpec, machine: Machine) -> list[int]:
    cores = {node.id: node.cpus for node in machine.numa}
    near = [cores[node] for node in spec.numa if node in cores]
    load = Counter(cpu for record in list_live_records(machine.config.tasks_dir) for cpu in record["plan"]["cpus"])
    return choose_cpus(spec.cpu_milli, near, os.sched_getaffinity(0), load)


def choose_memory_node(near: Collection[int], real: Collection[int]) -> int | None:
    """Return the NUMA node whose memory a task uses first; None where its cores are of several, or it is simulated."""
    nodes = set(near)
    return nodes.pop() if len(nodes) == 1 and nodes <= set(real) else None


def choose_cpus(
    cpu_milli: int, near: Sequence[Sequence[int]], allowed: Collection[int], load: Mapping[int, int]
) -> list[int]:
    """Choose as many cores as cpu_milli rounds up to, least used first; [] for no pinning.

    near: cores of the NUMA node of each card, or of each core of a task without cards, taken in turn; any if too few.
    Less than one core may use all of those. load: tasks pinned by core.
    """
    count = math.ceil(cpu_milli / 1000)
    if cpu_milli < 1000:
        count = len({core for cores in near for core in cores})
    if not count or count >= len(allowed):
        return []

    def by_use(cores: Collection[int]) -> list[int]:
        return sorted(cores, key=lambda core: (load.get(core, 0), core))

    left = {tuple(cores): by_use(cores) for cores in near}
    chosen: list[int] = []
    while len(chosen) < count and any(left.values()):
        chosen += [left[tuple(cores)].pop(0) for cores in near if left[tuple(cores)]]
    return sorted((chosen if len(chosen) >= count else by_use(allowed))[:count])
