"""GPU memory held by each process, according to the driver."""

from typing import Any

import pynvml

LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses")


def read_memory_by_process(handle: Any) -> dict[int, int]:
    """Return {pid: MiB} of one card; 0 where the driver does not know."""
    used: dict[int, int] = {}
    for name in LISTS:
        try:
            processes = getattr(pynvml, name)(handle)
        except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
            continue  # no MPS, an old driver or a lost card, which the report shows
        for process in processes:
            used[process.pid] = max(used.get(process.pid, 0), (process.usedGpuMemory or 0) >> 20)
    return used
