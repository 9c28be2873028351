"""The host's cores, memory, NUMA nodes and boot id, from /proc and /sys."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Numa:
    """One NUMA node. cpus: usable ones. socket: None if unknown."""

    id: int
    cpus: tuple[int, ...]
    memory_mib: int
    socket: int | None = None


def list_numa(sys_root: str = "/sys", allowed: set[int] | None = None) -> tuple[Numa, ...]:
    allowed = os.sched_getaffinity(0) if allowed is None else allowed
    nodes = []
    for path in sorted(Path(sys_root, "devices/system/node").glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        cpus = tuple(cpu for cpu in parse_cpus((path / "cpulist").read_text()) if cpu in allowed)
        found = re.search(r"MemTotal:\s+(\d+) kB", (path / "meminfo").read_text())
        memory_mib = int(found[1]) >> 10 if found else 0
        nodes.append(Numa(int(path.name[4:]), cpus, memory_mib, _socket(sys_root, cpus)))
    if len(nodes) < 2:  # total memory includes memory added later
        return (Numa(0, tuple(sorted(allowed)), read_memory_mib()),)
    return tuple(nodes)


def parse_cpus(text: str) -> list[int]:
    """`0-3,8` is [0, 1, 2, 3, 8]."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cpus += range(int(first), int(last or first) + 1)
    return cpus


def read_memory_mib() -> int:
    found = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    amounts = [int(found[1]) >> 10] if found else []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            amounts.append(int(Path(path).read_text()) >> 20)
        except (OSError, ValueError):
            pass  # no such controller here, or "max"
    return min(amounts)


def read_cpu_milli(cpus: int) -> int:
    """Return millicores: of usable CPUs, or our control group's quota if less."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cpus * 1000, int(quota) * 1000 // int(period))
    except (OSError, ValueError):
        return cpus * 1000


def read_boot_id() -> str:
    """Return the id of this boot. Source: random(4)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read_kernel_release() -> str:
    return platform.release()


def _socket(sys_root: str, cpus: tuple[int, ...]) -> int | None:
    try:
        path = Path(sys_root, f"devices/system/cpu/cpu{cpus[0]}/topology/physical_package_id")
        package = int(path.read_text())
    except (IndexError, OSError, ValueError):
        return None
    return package if package >= 0 else None
