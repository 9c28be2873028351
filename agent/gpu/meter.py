"""Ticks of this machine's cards for the platform: totals since the meter began, and what NVML tells now."""

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from agent.gpu.busy_total import MEASURED, BusyTotal, add_samples
from agent.gpu.samples import Sample, take_samples

SIMULATED = "simulated"
TOLD = ("used_mib", "temperature_c", "power_w", "clock_mhz", "energy_mj")
"""As NVML tells them. Energy is a total since the driver was loaded."""


class Meter:
    """One run of ticks. simulated: what NVML tells here are no real cards. list_tasks: what tasks take of them."""

    def __init__(
        self,
        boot_id: str,
        *,
        simulated: bool = False,
        clock: Callable[[], float] = time.monotonic,
        look: Callable[[], list[Sample]] = take_samples,
        list_tasks: Callable[[], list[dict[str, Any]]] = list,
    ):
        self.run = f"{boot_id}/{uuid4().hex[:8]}"
        self._simulated, self._clock, self._look, self._list_tasks = simulated, clock, look, list_tasks
        self._began, self._seq = clock(), 0
        self._totals: dict[str, BusyTotal] = {}

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
        return card | {"source": SIMULATED} if self._simulated else card


def build_card(sample: Sample, before: BusyTotal | None) -> tuple[dict[str, Any], BusyTotal | None]:
    """Return a card of a tick, and its new total. What is not known is absent."""
    total = add_samples(before, sample["utilization"], time.clock_gettime(time.CLOCK_BOOTTIME))
    told = {name: value for name in TOLD if (value := sample.get(name)) is not None}
    busy = {} if total is None else {"busy_ms": int(total.busy_ms)}
    return {"uuid": sample["uuid"], **busy, **told, "source": total.source if total else MEASURED}, total
