"""Links between a machine's cards: NVLink or PCIe paths."""

from collections.abc import Sequence
from typing import Any

import pynvml

Matrix = tuple[tuple[str, ...], ...]
DISTANCES = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
NVLINKS = 36  # the most any card has


def read_links(handles: Sequence[Any]) -> Matrix:
    """Return X, NV12, PIX, PXB, PHB, NODE or SYS per pair, as `nvidia-smi topo -m`."""
    buses = [read_bus_id(handle) for handle in handles]
    nvlinks = [_nvlinks(handle) for handle in handles]
    return tuple(
        tuple(
            "X" if i == j else _nv(i, j, nvlinks, buses) or _distance(handles[i], handles[j])
            for j in range(len(handles))
        )
        for i in range(len(handles))
    )


def read_pcie(handles: Sequence[Any]) -> Matrix:
    """Return each pair's PCIe path, even with NVLink."""
    return tuple(tuple("X" if one is two else _distance(one, two) for two in handles) for one in handles)


def add_unlinked(rows: Matrix, count: int) -> Matrix:
    """Extend the matrix by rows without links: MIG instances have none."""
    size = len(rows) + count

    def word(i: int, j: int) -> str:
        return rows[i][j] if max(i, j) < len(rows) else "X" if i == j else "SYS"

    return tuple(tuple(word(i, j) for j in range(size)) for i in range(size))


def read_bus_id(handle: Any) -> str:
    """`0000:1b:00.0`, as in /sys."""
    return _short_bus(pynvml.nvmlDeviceGetPciInfo(handle).busId)


def _nv(i: int, j: int, nvlinks: list[list[str]], buses: list[str]) -> str:
    count = nvlinks[i].count(buses[j]) or min(nvlinks[i].count("switch"), nvlinks[j].count("switch"))
    return f"NV{count}" if count else ""


def _nvlinks(handle: Any) -> list[str]:
    ends = []
    for link in range(NVLINKS):
        try:
            if pynvml.nvmlDeviceGetNvLinkState(handle, link) != pynvml.NVML_FEATURE_ENABLED:
                continue
            ends.append("switch" if _is_switch(handle, link) else _remote_bus(handle, link))
        except pynvml.NVMLError as error:
            if error.value in (pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED) and not ends:
                break  # no further links
    return ends


def _is_switch(handle: Any, link: int) -> bool:
    try:
        kind = pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
    except pynvml.NVMLError:
        return False  # older drivers
    return kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH


def _remote_bus(handle: Any, link: int) -> str:
    return _short_bus(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)


def _distance(one: Any, other: Any) -> str:
    try:
        return DISTANCES[pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other)]
    except (pynvml.NVMLError, KeyError):
        return "SYS"  # unknown counts as far


def _short_bus(bus: str | bytes) -> str:
    """`00000000:1B:00.0` is `0000:1b:00.0`."""
    return (bus.decode() if isinstance(bus, bytes) else bus).lower()[-12:]
