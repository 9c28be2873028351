"""Limit memory, CPU and processes by control groups. Few imports, for the shim.

Never RLIMIT_AS: CUDA reserves far more address space than it uses.
"""

import os
import time
from collections.abc import Mapping

from agent.usage.group_counters import V1, V2

WATCHDOG = "watchdog"


def make_memory_group(kind: str, parent: str, task: str, memory_mib: int, cpu_milli: int) -> str:
    """Create a task's memory group, which in version 2 shares the CPU, too; return its path. Raises OSError."""
    limit = memory_mib << 20
    if kind == V1:
        return _make(parent, task, {"memory.limit_in_bytes": limit}, {"memory.memsw.limit_in_bytes": limit})
    wanted = {"memory.swap.max": 0, "memory.oom.group": 1, "cpu.weight": min(10000, max(1, cpu_milli // 10))}
    return _make(parent, task, {"memory.max": limit}, wanted)


def make_cpu_group(parent: str, task: str, cpu_milli: int) -> str:
    """Create a task's CPU group (version 1)."""
    return _make(parent, task, {"cpu.shares": max(2, cpu_milli * 1024 // 1000)})


def make_pids_group(parent: str, task: str, most: int) -> str:
    """Create a group that limits processes and threads; version 2 has one for all."""
    return _make(parent, task, {"pids.max": most})


def list_group_paths(plan: dict, task: str) -> list[str]:
    """Return a task's groups by its plan, also without a shim."""
    parents = (plan["memory_parent"], plan["cpu_parent"], plan.get("pids_parent"))  # missing in older plans
    return [os.path.join(parent, task) for parent in dict.fromkeys(parents) if parent]


def enter_group(group: str) -> None:
    _put(group, "cgroup.procs", os.getpid())


def count_oom_kills(kind: str, group: str) -> int:
    return _count(group, "memory.events" if kind == V2 else "memory.oom_control", "oom_kill")


def count_refused_forks(group: str) -> int:
    """Count forks that the kernel refused."""
    return _count(group, "pids.events", "max")


def remove_group(group: str, patience_s: float = 1.0) -> None:
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


def _count(group: str, name: str, word: str) -> int:
    try:
        with open(os.path.join(group, name)) as file:
            return sum(int(line.split()[1]) for line in file if line.startswith(f"{word} "))
    except OSError:
        return 0


def _make(parent: str, task: str, settings: Mapping[str, int], wanted: Mapping[str, int] = {}) -> str:
    """Create a group. wanted: settings that this kernel may not know."""
    group = os.path.join(parent, task)
    os.makedirs(group, exist_ok=True)
    for name, value in settings.items():
        _put(group, name, value)
    for name, value in wanted.items():
        try:
            _put(group, name, value)
        except OSError:
            pass
    return group


def _put(group: str, name: str, value: int) -> None:
    with open(os.path.join(group, name), "w") as file:
        file.write(str(value))
