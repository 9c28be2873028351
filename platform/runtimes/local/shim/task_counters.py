"""Count what a task uses, as totals since it began, from its control groups or else from /proc. Few imports.

    cpu_ms, read_kib, write_kib             totals, which never decrease
    memory_mib, peak_mib, processes         now; memory without file cache that the kernel can drop

What cannot be known is absent, never 0. Network is: tasks share the machine's network, where the kernel counts for all.
"""

import os
import time
from collections.abc import Callable, Iterable

from runtimes.local.shim.cgroups import V2, list_members, read_peak_mib

COUNT_EVERY_S = 5.0
"""The kernel integrates meanwhile, and holds the peak: counting more often would only cost more."""
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
TOTALS = ("cpu_ms", "read_kib", "write_kib", "peak_mib")

Counters = dict[str, int]


class TaskCounters:
    """Counts a task at intervals and writes the newest counters. reaped_ms: CPU time of ended children of the shim."""

    def __init__(self, memory_kind: str, groups: Iterable[str], reaped_ms: Callable[[], int]):
        self.kind, self.groups = memory_kind, list(groups)
        self.reaped_ms = reaped_ms
        self.before = reaped_ms()
        self.next_at = 0.0
        self.totals: Counters = {}

    def count(self, pids: Iterable[int], helper: int | None, resident_mib: int | None) -> dict | None:
        """Return what is to be told, None before the next time.

        pids, resident_mib: of the tree, where no group tells. helper: our process that reaps the task's.
        """
        if (now := time.monotonic()) < self.next_at:
            return None
        self.next_at = now + COUNT_EVERY_S
        counters = read_counters(self.kind, self.groups, pids, helper, self.reaped_ms() - self.before)
        if "memory_mib" not in counters and resident_mib is not None:
            counters |= {"memory_mib": resident_mib, "peak_mib": resident_mib}
        for name in TOTALS:  # a process that ends between two looks takes its own figures along
            if name in counters:
                self.totals[name] = counters[name] = max(counters[name], self.totals.get(name, 0))
        return {"at_s": time.clock_gettime(time.CLOCK_BOOTTIME), "counters": counters}


def read_counters(
    kind: str, groups: Iterable[str], pids: Iterable[int] = (), helper: int | None = None, reaped_ms: int = 0
) -> Counters:
    """Read a task's counters. kind: of its memory group, if it has one. pids: its processes, where no group lists them.

    helper: a process that is not the task's, and has reaped some of it. reaped_ms: CPU time of processes that ended,
    beyond what the living account for.
    """
    groups = list(groups)
    job = {*pids, *(pid for group in groups for pid in list_members(group))} - {helper}
    members = job | ({helper} if helper is not None else set())
    found: dict[str, int | None] = {"processes": len(job)}
    for group in groups:
        found |= {name: value for name, value in _read_group(kind, group).items() if value is not None}
    if (peak := found.get("peak_mib")) is not None:
        found["peak_mib"] = max(peak, found.get("memory_mib") or 0)  # which is rounded up
    if "cpu_ms" not in found:
        found["cpu_ms"] = reaped_ms + sum(read_cpu_ms(pid) for pid in members)
    if "read_kib" not in found:
        found |= _sum_io(members)
    return {name: value for name, value in found.items() if value is not None}


def _read_group(kind: str, group: str) -> dict[str, int | None]:
    if kind == V2:
        used, cache = _number(group, "memory.current"), _field(group, "memory.stat", "inactive_file")
        cpu = _field(group, "cpu.stat", "usage_usec")
        cpu_ms, io = None if cpu is None else cpu // 1000, _read_io_stat(group)
    else:
        used, cache = _number(group, "memory.usage_in_bytes"), _field(group, "memory.stat", "total_inactive_file")
        cpu = _number(group, "cpuacct.usage")
        cpu_ms, io = None if cpu is None else cpu // 1_000_000, {}
    memory = None if used is None or cache is None else -(-max(used - cache, 0) >> 20)  # a little is not 0
    return {"cpu_ms": cpu_ms, "memory_mib": memory, "peak_mib": read_peak_mib(kind, group)} | io


def _read_io_stat(group: str) -> dict[str, int | None]:
    """Sum bytes of all devices. Source: io.stat in the kernel's cgroup-v2.rst."""
    text = _text(group, "io.stat")
    if text is None:
        return {}
    words = [word.split("=", 1) for line in text.splitlines() for word in line.split()[1:] if "=" in word]
    return {
        f"{way}_kib": sum(int(value) for name, value in words if name == f"{way[0]}bytes") >> 10
        for way in ("read", "write")
    }


def read_cpu_ms(pid: int, proc: str = "/proc") -> int:
    """Return CPU time of a process and of its children that ended, 0 if it is gone. Source: proc_pid_stat(5)."""
    text = _text(proc, f"{pid}/stat")
    fields = text.rpartition(")")[2].split() if text else []  # names may contain spaces
    return round(sum(map(int, fields[11:15])) * TICK_MS)


def _sum_io(pids: Iterable[int]) -> dict[str, int | None]:
    """Sum what processes and their ended children moved from and to disks; nothing if one of them does not tell."""
    read = written = 0
    for pid in pids:
        try:
            counted = read_io(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError:
            return {}
        read, written = read + counted["read_bytes"], written + counted["write_bytes"]
    return {"read_kib": read >> 10, "write_kib": written >> 10}


def read_io(pid: int, proc: str = "/proc") -> dict[str, int]:
    """Return a process's I/O counters. Raises OSError. Source: proc_pid_io(5)."""
    with open(f"{proc}/{pid}/io") as file:
        return {name: int(value) for name, value in (line.split(":") for line in file)}


def _text(folder: str, name: str) -> str | None:
    try:
        with open(os.path.join(folder, name)) as file:
            return file.read()
    except OSError:
        return None


def _number(group: str, name: str) -> int | None:
    text = _text(group, name)
    return int(text) if text is not None else None


def _field(group: str, name: str, word: str) -> int | None:
    lines = (_text(group, name) or "").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{word} ")), None)
