"""Ticks of this machine's cards for the platform: totals since the meter began, and what NVML tells now."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from agent.gpu.busy_total import MEASURED, BusyTotal, add_samples
from agent.gpu.counters.gpm import IN_KIB, IN_MS, GpmReader, add_means
from agent.gpu.samples import Sample, take_samples

SIMULATED = "simulated"
TOLD = ("used_mib", "temperature_c", "power_w", "clock_mhz", "energy_mj")
"""As NVML tells them. Energy is a total since the driver was loaded."""
WORKED = {"sm": "sm_ms", "tensor": "tensor_ms", "dram": "dram_ms"}
"""{what GPM tells: our total of it}."""
CARRIED = {
    "pcie_rx": "pcie_rx_kib",
    "pcie_tx": "pcie_tx_kib",
    "nvlink_rx": "nvlink_rx_kib",
    "nvlink_tx": "nvlink_tx_kib",
}
"""The same of traffic, where the driver itself counts none."""
OF_INSTANCES = {"graphics": "busy_ms"}
"""The driver keeps no samples of how busy an instance of MIG was; that any engine of it was active is the same."""


class Meter:
    """One run of ticks. simulated: what NVML tells here are no real cards. list_tasks: what tasks take of them.

    look: None looks at this machine's cards, with what only GPM tells of them. A total is the driver's or ours for all
    of the run, as the two began at different times.
    """

    def __init__(
        self,
        boot_id: str,
        *,
        simulated: bool = False,
        clock: Callable[[], float] = time.monotonic,
        look: Callable[[], list[Sample]] | None = None,
        list_tasks: Callable[[], list[dict[str, Any]]] = list,
    ):
        self.run = f"{boot_id}/{uuid4().hex[:8]}"
        self._simulated, self._clock, self._list_tasks = simulated, clock, list_tasks
        self._look = look or partial(take_samples, GpmReader())
        self._began, self._seq = clock(), 0
        self._totals: dict[str, BusyTotal] = {}
        self._worked: dict[str, dict[str, float]] = {}
        self._uncounted: dict[str, frozenset[str]] = {}

    def take(self) -> tuple[float, dict[str, Any]]:
        """Return (when, by the clock; the tick without its age)."""
        at, self._seq = self._clock(), self._seq + 1
        cards = [self._build_card(sample) for sample in self._look()]
        return at, {
            "seq": self._seq,
            "up_ms": round(1000 * (at - self._began)),
            "cards": cards,
            "tasks": self._list_tasks(),
        }

    def _build_card(self, sample: Sample) -> dict[str, Any]:
        uuid = str(sample["uuid"])
        card, total = build_card(sample, self._totals.get(uuid))
        if total is not None:
            self._totals[uuid] = total
        ours = self._uncounted.setdefault(uuid, frozenset(CARRIED.values()) - card.keys())
        card = {name: value for name, value in card.items() if name not in ours}
        if (means := sample.get("means")) is not None:
            worked = self._worked[uuid] = add_means(self._worked.get(uuid, {}), means, IN_MS | IN_KIB)
            card |= tell_worked(sample, worked, means.values)
            carried = {} if sample.get("is_instance") else CARRIED
            told = ((carried[name], int(worked[name])) for name in means.values if name in carried)
            card |= {name: value for name, value in told if name in ours}
        return card | {"source": SIMULATED} if self._simulated else card


def tell_worked(sample: Sample, totals: Mapping[str, float], known: Iterable[str]) -> dict[str, int]:
    """Return a card's totals of what GPM tells, by our names. known: those that it told this time."""
    names = WORKED | (OF_INSTANCES if sample.get("is_instance") else {})
    return {names[name]: int(totals[name]) for name in known if name in names}


def build_card(sample: Sample, before: BusyTotal | None) -> tuple[dict[str, Any], BusyTotal | None]:
    """Return a card of a tick, and its new total. What is not known is absent."""
    total = add_samples(before, sample["utilization"], time.clock_gettime(time.CLOCK_BOOTTIME))
    told = {name: value for name in TOLD if (value := sample.get(name)) is not None}
    busy = {} if total is None else {"busy_ms": int(total.busy_ms)}
    counted = sample.get("counters", {})
    return {"uuid": sample["uuid"], **busy, **told, **counted, "source": total.source if total else MEASURED}, total
