"""Reads what the checks judge: cards by NVML, disks, the kernel's counts."""

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from agent.gpu.cards import decode_text
from agent.gpu.memory_by_process import LISTS
from agent.health.checks import CardLook, Disk

UNCORRECTED, SINCE_BOOT = 1, 0
"""Kinds of memory errors, and of their counters, of NVML."""
THERMAL = 0x20 | 0x40
"""Clocks are held down by heat: by software, by hardware."""
OOM_KILL = "oom_kill "
Found = TypeVar("Found")


class DriverLook:
    """mismatch: the driver's files are not those that run. cards: that answer."""

    def __init__(self) -> None:
        self.driver, self.mismatch = "", False
        self.cards: list[CardLook] | None = None


def look_at_driver() -> DriverLook:
    found = DriverLook()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        found.mismatch = error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
        no_driver = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
        found.cards = [] if error.value in no_driver else None
        return found
    try:
        found.driver = decode_text(pynvml.nvmlSystemGetDriverVersion())
        looks = [_look_at_card(index) for index in range(pynvml.nvmlDeviceGetCount())]
        found.cards = [look for look in looks if look is not None]
    except pynvml.NVMLError:
        found.cards = None
    finally:
        pynvml.nvmlShutdown()
    return found


def look_at_disks(written: Path, others: Iterable[Path]) -> list[Disk]:
    """Return each disk once, by the first path on it. Others than `written` may be mounted to be read only."""
    found: dict[int, Disk] = {}
    for path in (written, *others):
        try:
            told, device = os.statvfs(path), path.stat().st_dev
        except OSError:
            continue
        full = 100 - 100 * told.f_bavail // max(told.f_blocks - told.f_bfree + told.f_bavail, 1)
        inodes = 100 - 100 * told.f_favail // told.f_files if told.f_files else 0
        found.setdefault(
            device, Disk(str(path), int(full), int(inodes), path == written and bool(told.f_flag & os.ST_RDONLY))
        )
    return list(found.values())


def read_oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """Return how many processes the kernel ended for want of memory since boot."""
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(OOM_KILL)), None)


def _look_at_card(index: int) -> CardLook | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = decode_text(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError:
        return None
    return CardLook(
        uuid,
        _known(lambda: int(pynvml.nvmlDeviceGetTotalEccErrors(handle, UNCORRECTED, SINCE_BOOT))),
        _known(lambda: tuple(pynvml.nvmlDeviceGetRemappedRows(handle)[2:4])),
        _known(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        _known(lambda: bool(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle) & THERMAL)),
        _known(lambda: _read_lanes(handle)),
        _known(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used >> 20),
        _read_processes(handle),
    )


def _read_lanes(handle: Any) -> tuple[int, int]:
    return pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle), pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)


def _read_processes(handle: Any) -> dict[int, int] | None:
    """Return {pid: MiB}; None if no list of them is told."""
    told = (_known(partial(getattr(pynvml, name), handle)) for name in LISTS)
    lists = [found for found in told if found is not None]
    return {each.pid: (each.usedGpuMemory or 0) >> 20 for found in lists for each in found} if lists else None


def _known(ask: Callable[[], Found]) -> Found | None:
    try:
        return ask()
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        return None
