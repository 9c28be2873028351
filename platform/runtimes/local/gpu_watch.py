"""Says every few seconds who holds how much memory of which card: one JSON object per line, {uuid: {pid: MiB}}.

A process of its own beside the shim, only where a slice of a real card is watched: NVML and its wrapper are big.
"""

import json
import time

import pynvml

from runtimes.local.isolation import die_with_parent

LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses")


def main(uuids: str, every_s: str) -> None:
    """uuids: with commas between them. Ends with the shim."""
    die_with_parent()
    pynvml.nvmlInit()
    cards = {uuid: pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids.split(",")}
    while True:
        print(json.dumps({uuid: sample(handle) for uuid, handle in cards.items()}), flush=True)
        time.sleep(float(every_s))


def sample(handle) -> dict[int, int]:
    """MiB by pid. A process whose use the driver does not tell counts 0."""
    used: dict[int, int] = {}
    for name in LISTS:
        try:
            processes = getattr(pynvml, name)(handle)
        except pynvml.NVMLError:
            continue  # this driver has no MPS, or the card fell off: the node page says so, not we
        for process in processes:
            used[process.pid] = max(used.get(process.pid, 0), (process.usedGpuMemory or 0) >> 20)
    return used
