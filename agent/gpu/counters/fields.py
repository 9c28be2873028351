"""What a card has counted since its driver was loaded: traffic, and for how long its clocks were held down.

Source: field values in NVIDIA's NVML API reference (nvmlDeviceGetFieldValues). Only totals are read: what NVML tells as
a rate of the last milliseconds (nvmlDeviceGetPcieThroughput) says nothing of the time between two looks. Not run on
hardware yet.

    pcie_rx_kib, pcie_tx_kib      over PCIe; of drivers and cards that count it
    nvlink_rx_kib, nvlink_tx_kib  data over all NVLinks
    throttle_power_ms             clocks held down to stay within the power limit, as under full load
    throttle_heat_ms              ... by heat
    throttle_brake_ms             ... by the machine's power brake
"""

from collections.abc import Mapping
from typing import Any

import pynvml

ALL_LINKS = 2**32 - 1
MOST = 2**53
"""Larger values are none: what survives JSON everywhere."""
NS_PER_MS = 1_000_000
SW_HEAT, HW_HEAT, HEAT = (
    pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
    pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
    pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL,
)
"""By software and by hardware, of newer drivers; by both, of older ones."""
FIELDS: dict[int, tuple[str, int]] = {
    pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: ("pcie_rx_kib", 1024),
    pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: ("pcie_tx_kib", 1024),
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX: ("nvlink_rx_kib", 1),
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: ("nvlink_tx_kib", 1),
    pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP: ("throttle_power_ms", NS_PER_MS),
    pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN: ("throttle_brake_ms", NS_PER_MS),
}
"""{field: (our name, how many of its units are one of ours)}."""
LINKED = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX)
ASKED = [(field, ALL_LINKS if field in LINKED else 0) for field in (*FIELDS, SW_HEAT, HW_HEAT, HEAT)]
BY_TYPE = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
}


def read_counters(handle: Any) -> dict[str, int]:
    """Return the totals that a card tells, by name; what it does not tell is absent."""
    try:
        found = pynvml.nvmlDeviceGetFieldValues(handle, ASKED)
    except pynvml.NVMLError:
        return {}
    told = {int(one.fieldId): value for one in found if (value := _read_value(one)) is not None}
    counters = {name: int(told[field]) // unit for field, (name, unit) in FIELDS.items() if field in told}
    heat_ns = _read_heat(told)
    return counters if heat_ns is None else counters | {"throttle_heat_ms": int(heat_ns) // NS_PER_MS}


def _read_heat(told: Mapping[int, float]) -> float | None:
    known = [told[field] for field in (SW_HEAT, HW_HEAT) if field in told]
    return sum(known) if known else told.get(HEAT)


def _read_value(one: Any) -> float | None:
    name = BY_TYPE.get(int(one.valueType))
    if one.nvmlReturn != pynvml.NVML_SUCCESS or name is None:
        return None
    value = getattr(one.value, name)
    return value if 0 <= value < MOST else None
