"""What a group of processes uses, as totals, from its control groups or else from /proc. Few imports, for the shim.

    cpu_ms, read_kib, write_kib             totals
    memory_mib, peak_mib, processes         now; memory without file cache that the kernel can drop

What cannot be known is absent, never 0.
"""

import os
from collections.abc import Iterable

V2, V1 = "cgroup v2", "cgroup v1"
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
TOTALS = ("cpu_ms", "read_kib", "write_kib", "peak_mib")

Counters = dict[str, int]


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
    if "write_kib" not in found:
        found = _sum_io(members) | found
    return {name: value for name, value in found.items() if value is not None}


def keep_totals(totals: Counters, counters: Counters) -> None:
    """Let no total decrease: a process that ends between two looks takes its own figures along."""
    for name in TOTALS:
        if name in counters:
            totals[name] = counters[name] = max(counters[name], totals.get(name, 0))


def list_members(group: str) -> list[int]:
    """Return the processes of a control group, none if it is gone."""
    return [int(line) for line in (_text(group, "cgroup.procs") or "").split()]


def read_peak_mib(kind: str, group: str) -> int | None:
    peak = _number(group, "memory.peak" if kind == V2 else "memory.max_usage_in_bytes")
    return None if peak is None else peak >> 20


def _read_group(kind: str, group: str) -> dict[str, int | None]:
    if kind == V2:
        used, cache = _number(group, "memory.current"), _field(group, "memory.stat", "inactive_file")
        cpu = _field(group, "cpu.stat", "usage_usec")
        cpu_ms, io = None if cpu is None else cpu // 1000, _read_io_stat(group)
    else:
        used, cache = _number(group, "memory.usage_in_bytes"), _field(group, "memory.stat", "total_inactive_file")
        cpu = _number(group, "cpuacct.usage")
        cpu_ms, io = None if cpu is None else cpu // 1_000_000, _read_blkio(group)
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


def _read_blkio(group: str) -> dict[str, int | None]:
    """Return reads only: version 1 counts writes for whoever flushes the cache. Source: blkio-controller.rst."""
    text = _text(group, "blkio.throttle.io_service_bytes_recursive")
    if text is None:
        return {}
    return {"read_kib": sum(int(line.split()[2]) for line in text.splitlines() if " Read " in line) >> 10}


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
