"""How long a card was busy, as a total: the driver keeps samples of some seconds, so that none between looks is lost.

Source: nvmlDeviceGetSamples in NVIDIA's NVML API reference. A sample is the utilization since the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Samples = Sequence[tuple[int, int]]
"""(microseconds since 1970 at the sample's end, percent)."""

LONGEST_US = 1_500_000
"""Longest time between two samples; beyond it some were lost."""
MEASURED, ESTIMATED = "measured", "estimated"


@dataclass(frozen=True)
class BusyTotal:
    """busy_ms: since the first look. until_us: end of the newest sample. source: of the newest stretch."""

    busy_ms: float = 0.0
    until_us: int = 0
    source: str = MEASURED


def add_samples(before: BusyTotal | None, samples: Samples) -> BusyTotal | None:
    """Return the total moved on to the newest sample; None while there are no new ones, when nothing is known.

    What was lost between two looks is taken to be as the first sample after it, and told as estimated.
    """
    ordered = sorted(samples)
    if not ordered or (before is not None and ordered[-1][0] <= before.until_us):
        return None
    if before is None:
        return BusyTotal(0.0, ordered[-1][0])
    busy_us, last_us, source = 0.0, before.until_us, MEASURED
    for ends_us, percent in ordered:
        if ends_us > last_us:
            if ends_us - last_us > LONGEST_US:
                source = ESTIMATED
            busy_us += (ends_us - last_us) * min(max(percent, 0), 100) / 100
            last_us = ends_us
    return BusyTotal(before.busy_ms + busy_us / 1000, last_us, source)
