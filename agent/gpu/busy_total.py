"""How long a card was busy, as a total: the driver keeps samples of some seconds, so that none between looks is lost.

Source: nvmlDeviceGetSamples in NVIDIA's NVML API reference. A sample is the utilization since the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

Samples = Sequence[tuple[int, int]]
"""(microseconds since 1970 at the sample's end, percent)."""

LONGEST_US = 1_500_000
"""Longest time between two samples; beyond it some were lost."""
STEP_US = 60_000_000
"""Samples are stamped by the machine's clock: where it differs more from the time that passed, it was set."""
MEASURED, ESTIMATED = "measured", "estimated"


@dataclass(frozen=True)
class BusyTotal:
    """busy_ms: since the first look. until_us: end of the newest sample. source: of the newest stretch.

    seen_s: when the newest sample was seen, by a clock that nobody sets.
    """

    busy_ms: float = 0.0
    until_us: int = 0
    source: str = MEASURED
    seen_s: float | None = field(default=None, compare=False)


def add_samples(before: BusyTotal | None, samples: Samples, now_s: float | None = None) -> BusyTotal | None:
    """Return the total moved on to the newest sample; None while there are no new ones, when nothing is known.

    What was lost between two looks is taken to be as the first sample after it, and told as estimated. now_s: of this
    look, by a clock that nobody sets.
    """
    ordered = sorted(samples)
    if ordered and before is not None:
        before = _follow_clock(before, ordered[-1][0], now_s)
    if not ordered or (before is not None and ordered[-1][0] <= before.until_us):
        return None
    if before is None:
        return BusyTotal(0.0, ordered[-1][0], seen_s=now_s)
    busy_us, last_us, source = 0.0, before.until_us, MEASURED
    for ends_us, percent in ordered:
        if ends_us > last_us:
            if ends_us - last_us > LONGEST_US:
                source = ESTIMATED
            busy_us += (ends_us - last_us) * min(max(percent, 0), 100) / 100
            last_us = ends_us
    return BusyTotal(before.busy_ms + busy_us / 1000, last_us, source, now_s)


def _follow_clock(before: BusyTotal, newest_us: int, now_s: float | None) -> BusyTotal:
    """Move the end of what is counted along with a clock that was set forward or back."""
    if now_s is None or before.seen_s is None:
        return before
    ahead_us = newest_us - before.until_us - round(1e6 * (now_s - before.seen_s))
    was_set_back = ahead_us < -STEP_US and newest_us < before.until_us  # else the driver only has nothing new
    if ahead_us > STEP_US or was_set_back:
        return replace(before, until_us=before.until_us + ahead_us)
    return before
