"""What cards count besides how busy they are: totals, and what those say of the time between two samples. Pure.

A total may be of the run or of the card's driver; one that is not told, or that fell, says nothing of that time.
"""

from collections.abc import Mapping

from monitoring.samples.growth import mean_per_s, mean_percent

PERCENTS = {
    "sm_centi": "sm_ms",
    "tensor_centi": "tensor_ms",
    "dram_centi": "dram_ms",
    "throttle_power_centi": "throttle_power_ms",
    "throttle_heat_centi": "throttle_heat_ms",
    "throttle_brake_centi": "throttle_brake_ms",
}
"""{column: the total of milliseconds that it is a mean of}, in hundredths of a percent."""
RATES = {
    "pcie_rx_kib_s": "pcie_rx_kib",
    "pcie_tx_kib_s": "pcie_tx_kib",
    "nvlink_rx_kib_s": "nvlink_rx_kib",
    "nvlink_tx_kib_s": "nvlink_tx_kib",
}
COUNTERS = (*PERCENTS.values(), *RATES.values())
Counted = dict[str, int]


def build_counted(before: Mapping[str, int] | None, told: Mapping[str, int], span_ms: int) -> Counted:
    """Return the totals that were told, and means since the sample before. before: None at the beginning of a run."""
    totals = {name: told[name] for name in COUNTERS if name in told}
    if before is None:
        return totals
    means: dict[str, int | None] = {}
    for column, name in PERCENTS.items():
        percent = mean_percent(before.get(name), totals.get(name), span_ms)
        means[column] = None if percent is None else round(100 * percent)
    for column, name in RATES.items():
        means[column] = mean_per_s(before.get(name), totals.get(name), span_ms)
    return totals | {column: value for column, value in means.items() if value is not None}
