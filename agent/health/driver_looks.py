"""Reads what the checks of cards judge, by NVML."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pynvml

from agent.gpu.cards import decode_text
from agent.gpu.links import NVLINKS
from agent.gpu.memory_by_process import LISTS
from agent.health.card_checks import CardLook

UNCORRECTED, SINCE_BOOT = 1, 0
"""Kinds of memory errors, and of their counters, of NVML."""
REPLAY, RECOVERY = pynvml.NVML_NVLINK_ERROR_DL_REPLAY, pynvml.NVML_NVLINK_ERROR_DL_RECOVERY
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
        _known(lambda: int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))),
        _known(lambda: _read_lanes(handle)),
        _known(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used >> 20),
        _read_processes(handle),
        _read_link_errors(handle),
    )


def _read_lanes(handle: Any) -> tuple[int, int]:
    return pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle), pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)


def _read_processes(handle: Any) -> dict[int, int] | None:
    """Return {pid: MiB}; None if no list of them is told."""
    told = (_known(partial(getattr(pynvml, name), handle)) for name in LISTS)
    lists = [found for found in told if found is not None]
    return {each.pid: (each.usedGpuMemory or 0) >> 20 for found in lists for each in found} if lists else None


def _read_link_errors(handle: Any) -> tuple[int, int] | None:
    """Return (messages sent again, links trained again) of all NVLinks, since the driver was loaded."""
    found: list[tuple[int, int]] = []
    for link in range(NVLINKS):
        try:
            replays, recoveries = (
                pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind) for kind in (REPLAY, RECOVERY)
            )
        except pynvml.NVMLError:
            break  # no further links
        found.append((int(replays), int(recoveries)))
    return (sum(one for one, _ in found), sum(two for _, two in found)) if found else None


def _known(ask: Callable[[], Found]) -> Found | None:
    try:
        return ask()
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        return None
