"""How much of a card each process holds, as the driver tells it."""

from typing import Any

import pynvml

LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses")


def sample(handle: Any) -> dict[int, int]:
    """MiB by pid, of one card. A process whose use the driver does not tell counts 0."""
    used: dict[int, int] = {}
    for name in LISTS:
        try:
            processes = getattr(pynvml, name)(handle)
        except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
            continue  # this driver has no MPS, is too old, or the card fell off: the node page says so, not we
        for process in processes:
            used[process.pid] = max(used.get(process.pid, 0), (process.usedGpuMemory or 0) >> 20)
    return used
