"""The machine around the cards, from /proc and /sys: cores, memory, NUMA nodes, and which boot this is."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Numa:
    """cpus: those that we may use. socket: the physical package that its cores are on, None when unknown."""

    id: int
    cpus: tuple[int, ...]
    memory_mib: int
    socket: int | None = None


def list_numa(sys_root: str = "/sys", allowed: set[int] | None = None) -> tuple[Numa, ...]:
    """The machine's NUMA nodes with the cores that we may use; one node 0 where the kernel tells none."""
    allowed = os.sched_getaffinity(0) if allowed is None else allowed
    nodes = []
    for path in sorted(Path(sys_root, "devices/system/node").glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        cpus = tuple(cpu for cpu in parse_cpus((path / "cpulist").read_text()) if cpu in allowed)
        found = re.search(r"MemTotal:\s+(\d+) kB", (path / "meminfo").read_text())
        memory_mib = int(found[1]) >> 10 if found else 0
        nodes.append(Numa(int(path.name[4:]), cpus, memory_mib, _socket(sys_root, cpus)))
    if len(nodes) < 2:  # then all memory is there, also what the kernel adds later
        return (Numa(0, tuple(sorted(allowed)), total_memory_mib()),)
    return tuple(nodes)


def parse_cpus(text: str) -> list[int]:
    """`0-3,8` is [0, 1, 2, 3, 8]."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cpus += range(int(first), int(last or first) + 1)
    return cpus


def total_memory_mib() -> int:
    """What the machine, or the control group we live in, has."""
    found = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    amounts = [int(found[1]) >> 10] if found else []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            amounts.append(int(Path(path).read_text()) >> 20)
        except (OSError, ValueError):
            pass  # no such controller here, or "max"
    return min(amounts)


def cpu_milli(cpus: int) -> int:
    """Thousandths of a core: those we may run on, or what our control group grants if that is less."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cpus * 1000, int(quota) * 1000 // int(period))
    except (OSError, ValueError):
        return cpus * 1000


def boot_id() -> str:
    """Another one after each start of the machine. Source: random(4)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def kernel() -> str:
    return platform.release()


def _socket(sys_root: str, cpus: tuple[int, ...]) -> int | None:
    try:
        path = Path(sys_root, f"devices/system/cpu/cpu{cpus[0]}/topology/physical_package_id")
        package = int(path.read_text())
    except (IndexError, OSError, ValueError):
        return None
    return package if package >= 0 else None
