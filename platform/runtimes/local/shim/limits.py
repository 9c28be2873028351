"""Limit memory, CPU and processes by control groups, and choose cores. Few imports, for the shim.

Never RLIMIT_AS: CUDA reserves far more address space than it uses.
"""

import math
import os
import resource
import time
from collections.abc import Collection, Mapping, Sequence

V2, V1, WATCHDOG = "cgroup v2", "cgroup v1", "watchdog"


def make_group(kind: str, parent: str, task: str, memory_mib: int, cpu_milli: int) -> str:
    """Create a task's memory group, return its path. Raises OSError."""
    group = os.path.join(parent, task)
    os.makedirs(group, exist_ok=True)
    if kind == V2:
        _put(group, "memory.max", memory_mib << 20)
        _try_put(group, "memory.swap.max", 0)
        _try_put(group, "memory.oom.group", 1)
        _try_put(group, "cpu.weight", min(10000, max(1, cpu_milli // 10)))
    else:
        _put(group, "memory.limit_in_bytes", memory_mib << 20)
        _try_put(group, "memory.memsw.limit_in_bytes", memory_mib << 20)
    return group


def make_cpu_group(parent: str, task: str, cpu_milli: int) -> str:
    """Create a task's CPU group (version 1)."""
    group = os.path.join(parent, task)
    os.makedirs(group, exist_ok=True)
    _put(group, "cpu.shares", max(2, cpu_milli * 1024 // 1000))
    return group


def make_pids_group(parent: str, task: str, most: int) -> str:
    """Create a group that limits processes and threads; version 2 has one for all."""
    group = os.path.join(parent, task)
    os.makedirs(group, exist_ok=True)
    _put(group, "pids.max", most)
    return group


def limit_account(most: int) -> None:
    """Limit the whole account's processes; ineffective for root. Source: getrlimit(2)."""
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def groups_of(plan: dict, task: str) -> list[str]:
    """Return a task's groups by its plan, also without a shim."""
    parents = (plan["memory_parent"], plan["cpu_parent"], plan.get("pids_parent"))  # missing in older plans
    return [os.path.join(parent, task) for parent in dict.fromkeys(parents) if parent]


def enter(group: str) -> None:
    _put(group, "cgroup.procs", os.getpid())


def members(group: str) -> list[int]:
    try:
        with open(os.path.join(group, "cgroup.procs")) as file:
            return [int(line) for line in file]
    except OSError:
        return []


def oom_kills(kind: str, group: str) -> int:
    return _count(group, "memory.events" if kind == V2 else "memory.oom_control", "oom_kill")


def refused_processes(group: str) -> int:
    """Count forks that the kernel refused."""
    return _count(group, "pids.events", "max")


def peak_mib(kind: str, group: str) -> int | None:
    name = "memory.peak" if kind == V2 else "memory.max_usage_in_bytes"
    try:
        with open(os.path.join(group, name)) as file:
            return int(file.read()) >> 20
    except OSError:
        return None


def remove(group: str, patience_s: float = 1.0) -> None:
    """Remove an empty group, retrying while the kernel releases processes."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        try:
            os.rmdir(group)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.005)
        else:
            return


def choose_cpus(
    cpu_milli: int, near: Sequence[Sequence[int]], allowed: Collection[int], load: Mapping[int, int]
) -> list[int]:
    """Choose as many cores as cpu_milli rounds up to, least used first; [] for no pinning, as below one core.

    near: cores of each card's NUMA node, taken in turn; any if too few. load: tasks pinned by core.
    """
    count = math.ceil(cpu_milli / 1000)
    if cpu_milli < 1000 or count >= len(allowed):
        return []

    def by_use(cores: Collection[int]) -> list[int]:
        return sorted(cores, key=lambda core: (load.get(core, 0), core))

    left = {tuple(cores): by_use(cores) for cores in near}
    chosen: list[int] = []
    while len(chosen) < count and any(left.values()):
        chosen += [left[tuple(cores)].pop(0) for cores in near if left[tuple(cores)]]
    return sorted((chosen if len(chosen) >= count else by_use(allowed))[:count])


def _count(group: str, name: str, word: str) -> int:
    try:
        with open(os.path.join(group, name)) as file:
            return sum(int(line.split()[1]) for line in file if line.startswith(f"{word} "))
    except OSError:
        return 0


def _put(group: str, name: str, value: int) -> None:
    with open(os.path.join(group, name), "w") as file:
        file.write(str(value))


def _try_put(group: str, name: str, value: int) -> None:
    try:
        _put(group, name, value)
    except OSError:
        pass  # unknown to this kernel
