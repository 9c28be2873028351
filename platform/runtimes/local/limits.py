"""Limits on memory, CPU and processes by control groups, where we may write them, and which cores a task gets.

Used by the shim, so it imports little. A group is a directory; version 1 has one per controller, version 2 one for all.
Never RLIMIT_AS: CUDA reserves address space far beyond what it uses.
"""

import math
import os
import resource
import time
from collections.abc import Collection, Mapping, Sequence

V2, V1, WATCHDOG = "cgroup v2", "cgroup v1", "watchdog"


def make_group(kind: str, parent: str, task: str, memory_mib: int, cpu_milli: int) -> str:
    """Create the task's group and set its limits; returns its path. Raises OSError when that is not possible."""
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
    """Version 1 keeps CPU shares in a tree of their own."""
    group = os.path.join(parent, task)
    os.makedirs(group, exist_ok=True)
    _put(group, "cpu.shares", max(2, cpu_milli * 1024 // 1000))
    return group


def make_pids_group(parent: str, task: str, most: int) -> str:
    """most: processes and threads at once. Version 1 has a tree for them, in version 2 it is the task's one group."""
    group = os.path.join(parent, task)
    os.makedirs(group, exist_ok=True)
    _put(group, "pids.max", most)
    return group


def limit_account(most: int) -> None:
    """The weaker limit where no group can be had: on all processes and threads of an account together.

    For this process and all that come from it, once they are no root. Source: getrlimit(2).
    """
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def groups_of(plan: dict, task: str) -> list[str]:
    """Where this task's groups are, if it has any: known from its plan alone, so also after its shim was killed."""
    parents = (plan["memory_parent"], plan["cpu_parent"], plan.get("pids_parent"))  # older plans have no third
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
    """How often the kernel killed somebody here for want of memory."""
    return _count(group, "memory.events" if kind == V2 else "memory.oom_control", "oom_kill")


def refused_processes(group: str) -> int:
    """How often the kernel refused somebody here one more process or thread."""
    return _count(group, "pids.events", "max")


def peak_mib(kind: str, group: str) -> int | None:
    name = "memory.peak" if kind == V2 else "memory.max_usage_in_bytes"
    try:
        with open(os.path.join(group, name)) as file:
            return int(file.read()) >> 20
    except OSError:
        return None


def remove(group: str, patience_s: float = 1.0) -> None:
    """Take the empty group away. The kernel may need a moment after the last process is gone."""
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
    """The cores to pin to: as many as cpu_milli rounds up to, the least used first; [] means no pin.

    near: of each card of the task the cores of its NUMA node, dealt out in turn, so that a task on two nodes has cores
    near all of its cards; anywhere where they are not enough. load: how many tasks are pinned to each core already.
    Below one core a pin would only hurt: the share decides.
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
    """The number behind a word in one of the group's files; 0 without."""
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
        pass  # this kernel has no such knob; the limit on memory itself is set
