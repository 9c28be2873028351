"""How much of a card's time each process took, by the samples that the driver keeps of processes.

Source: nvmlDeviceGetProcessUtilization in NVIDIA's NVML API reference: a sample for each process that computed in the
last period of the driver. Looked at each second, they make a total. Not run on hardware yet.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pynvml

from agent.gpu.busy_total import ESTIMATED, LONGEST_US, MEASURED

MOST_US = 600_000_000
"""Longest time between two looks."""
NOBODY = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS)
"""No process computed since then."""


class ProcessSample(NamedTuple):
    pid: int
    until_us: int
    percent: int


@dataclass
class CardShares:
    """Totals of one card since the first look: busy_ms by owner. until_us: the end of what is counted."""

    until_us: int
    source: str = MEASURED
    busy_ms: dict[str, float] = field(default_factory=dict)


def add_shares(card: CardShares, samples: Iterable[ProcessSample], owners: Mapping[int, str], now_us: int) -> None:
    """Move a card's totals on to now. A process without a sample did nothing; one without an owner is nobody's.

    Of several samples of a process the mean counts. All processes of an owner take the whole time at most.
    """
    span_us = now_us - card.until_us
    if not 0 < span_us <= MOST_US:  # the clock was set: nothing is known of the time in between
        card.until_us = now_us
        return
    percents: dict[int, list[int]] = defaultdict(list)
    for sample in samples:
        if sample.until_us > card.until_us:
            percents[sample.pid].append(min(max(sample.percent, 0), 100))
    taken: dict[str, float] = defaultdict(float)
    for pid, found in percents.items():
        if owner := owners.get(pid, ""):
            taken[owner] += sum(found) / len(found)
    for owner in set(owners.values()) - {""}:
        card.busy_ms[owner] = card.busy_ms.get(owner, 0.0) + span_us / 1000 * min(taken[owner], 100) / 100
    card.until_us, card.source = now_us, MEASURED if span_us <= 2 * LONGEST_US else ESTIMATED


def read_process_samples(handle: Any, after_us: int) -> list[ProcessSample] | None:
    """Return the samples of a card's processes since then; None where the driver tells none."""
    try:
        found = pynvml.nvmlDeviceGetProcessUtilization(handle, after_us)
    except pynvml.NVMLError as error:
        return [] if error.value in NOBODY else None
    return [ProcessSample(int(one.pid), int(one.timeStamp), int(one.smUtil)) for one in found]
