"""What a machine uses: its CPU and network as totals since it started, its memory and load now.

    cpu_ms, net_rx_kib, net_tx_kib, agent_cpu_ms                     totals
    cores, memory_mib, memory_all_mib, swap_mib, swap_all_mib        now
    load_centi (of the last minute, in hundredths), agent_mib        now
    disks                                                            see disks.py

What cannot be known is absent, never 0.
"""

import os
import re
import resource
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent.usage.disks import read_disks
from agent.usage.group_counters import TICK_MS
from agent.usage.network import read_traffic, sum_traffic

WORKING = (0, 1, 2, 5, 6)
"""Columns of `cpu` in /proc/stat: user, nice, system, irq, softirq; not idle, waiting, or taken by a hypervisor."""
HARDWARE = re.compile(r"(en|eth|ib|wl|ww|em|p\d)\w*")
"""Interfaces as kernel and systemd name those of hardware: bonds, bridges and pods' ends would count twice."""
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") >> 10


class MachineReader:
    """disks: paths whose disks matter. with_agent: tell what this process itself uses."""

    def __init__(self, disks: Iterable[Path], *, with_agent: bool = False, proc: Path = Path("/proc")):
        self._disks, self._with_agent, self._proc = list(disks), with_agent, proc

    def read(self) -> dict[str, Any]:
        """Return a machine's part of a tick."""
        own = read_own_use(self._proc) if self._with_agent else {}
        found = {**read_cpu(self._proc), **read_memory(self._proc), **self._read_network(), **own}
        disks = read_disks(self._disks, self._proc)
        return found | ({"disks": disks} if disks else {})

    def _read_network(self) -> dict[str, int]:
        """The first process has the machine's network; if that is us, we see a container's own only."""
        if os.getpid() == 1:
            return {}
        traffic = read_traffic(self._proc / "1/net/dev")
        return sum_traffic({name: counted for name, counted in traffic.items() if HARDWARE.fullmatch(name)})


def read_cpu(proc: Path) -> dict[str, int]:
    """Return cpu_ms, cores and load_centi. Source: proc_stat(5), proc_loadavg(5)."""
    lines = [line.split() for line in _read(proc / "stat").splitlines() if line.startswith("cpu")]
    found: dict[str, int] = {}
    if lines and lines[0][0] == "cpu":
        ticks = [int(column) for column in lines[0][1:]]
        found = {"cpu_ms": round(sum(ticks[column] for column in WORKING) * TICK_MS), "cores": len(lines) - 1}
    load = _read(proc / "loadavg").split()
    return found | ({"load_centi": round(100 * float(load[0]))} if load else {})


def read_memory(proc: Path) -> dict[str, int]:
    """Return memory without what the kernel can drop, and swap. Source: proc_meminfo(5)."""
    lines = (line.split() for line in _read(proc / "meminfo").splitlines())
    kib = {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1}
    found: dict[str, int] = {}
    for name, all_of, free in (("memory", "MemTotal", "MemAvailable"), ("swap", "SwapTotal", "SwapFree")):
        if all_of in kib and free in kib:
            found |= {f"{name}_mib": (kib[all_of] - kib[free]) >> 10, f"{name}_all_mib": kib[all_of] >> 10}
    return found


def read_own_use(proc: Path) -> dict[str, int]:
    """Return agent_cpu_ms, with that of programs it ran, and agent_mib."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    pages = _read(proc / "self/statm").split()
    found = {"agent_cpu_ms": round(1000 * (time.process_time() + ended.ru_utime + ended.ru_stime))}
    return found | ({"agent_mib": int(pages[1]) * PAGE_KIB >> 10} if pages else {})


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
