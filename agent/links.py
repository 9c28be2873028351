"""How the cards of a machine reach each other: by NVLink, or by which part of the PCIe tree."""

from collections.abc import Sequence
from typing import Any

import pynvml

Matrix = tuple[tuple[str, ...], ...]
DISTANCES = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
NVLINKS = 36  # no card has more; asking further is answered with an error


def read_links(handles: Sequence[Any]) -> Matrix:
    """X, NV12, PIX, PXB, PHB, NODE or SYS of each pair, as `nvidia-smi topo -m` shows it."""
    buses = [bus_of(handle) for handle in handles]
    nvlinks = [_nvlinks(handle) for handle in handles]
    return tuple(
        tuple(
            "X" if i == j else _nv(i, j, nvlinks, buses) or _distance(handles[i], handles[j])
            for j in range(len(handles))
        )
        for i in range(len(handles))
    )


def read_pcie(handles: Sequence[Any]) -> Matrix:
    """The PCIe path of each pair, also where NVLink hides it in `read_links`."""
    return tuple(tuple("X" if one is two else _distance(one, two) for two in handles) for one in handles)


def apart(rows: Matrix, count: int) -> Matrix:
    """The same with so many more that reach nobody: instances of cards have no way to each other."""
    size = len(rows) + count

    def word(i: int, j: int) -> str:
        return rows[i][j] if max(i, j) < len(rows) else "X" if i == j else "SYS"

    return tuple(tuple(word(i, j) for j in range(size)) for i in range(size))


def bus_of(handle: Any) -> str:
    """`0000:1b:00.0`, as in /sys."""
    return _short_bus(pynvml.nvmlDeviceGetPciInfo(handle).busId)


def _nv(i: int, j: int, nvlinks: list[list[str]], buses: list[str]) -> str:
    """NV and how many: straight to the other card, or both through the switch."""
    count = nvlinks[i].count(buses[j]) or min(nvlinks[i].count("switch"), nvlinks[j].count("switch"))
    return f"NV{count}" if count else ""


def _nvlinks(handle: Any) -> list[str]:
    """The far end of each active link: a card's bus id, or "switch"."""
    ends = []
    for link in range(NVLINKS):
        try:
            if pynvml.nvmlDeviceGetNvLinkState(handle, link) != pynvml.NVML_FEATURE_ENABLED:
                continue
            ends.append("switch" if _is_switch(handle, link) else _remote_bus(handle, link))
        except pynvml.NVMLError as error:
            if error.value in (pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED) and not ends:
                break  # it has no links, or no more
    return ends


def _is_switch(handle: Any, link: int) -> bool:
    try:
        kind = pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
    except pynvml.NVMLError:
        return False  # older drivers: the bus id decides
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
