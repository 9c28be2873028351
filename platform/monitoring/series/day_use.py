"""How many cards of each pool were held and active over one day, in equal slots: made of the series of pools."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

from monitoring.models import Source
from monitoring.series.frames import load_frame
from monitoring.series.grid import Array
from monitoring.series.keys import AMOUNTS, Key, Kind

STEPS_S = (1800, 300)
DAY = timedelta(days=1)
FIRST, LAST = date(2000, 1, 1), date(2999, 12, 31)
"""Days that can be asked for."""
COLUMNS = tuple(name.removesuffix("_milli") for name in AMOUNTS)
"""capacity, held, active, idle, unknown: held = active + idle + unknown."""


@dataclass(frozen=True)
class Slot:
    """Mean numbers of cards from `begins` on; None is not known."""

    begins: datetime
    capacity: float | None
    held: float | None
    active: float | None
    idle: float | None
    unknown: float | None

    @property
    def is_known(self) -> bool:
        return self.held is not None


@dataclass(frozen=True)
class DayUse:
    """slots: of the whole day, those to come included. begun: how many are not. simulated: whether cards are."""

    day: date
    step_s: int
    slots: list[Slot]
    begun: int
    simulated: bool

    @property
    def known(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.is_known]

    @property
    def busiest(self) -> Slot | None:
        """The slot in which most was active, of alike ones the first."""
        return max(self.known, key=lambda slot: (slot.active or 0, slot.held or 0), default=None)

    @property
    def known_percent(self) -> float:
        """Of the slots that have begun."""
        return 100 * len(self.known) / self.begun if self.begun else 0.0

    def percent(self, name: str) -> float | None:
        """Return how much of the cards' time in the known slots was "held" or "active"."""
        room = sum(slot.capacity or 0 for slot in self.known)
        return 100 * sum(getattr(slot, name) or 0 for slot in self.known) / room if room else None


def load_day_use(pools: Iterable[int], day: date, step_s: int, now: datetime) -> DayUse:
    """Return the use of a day (UTC) of pools together. pools: their ids. step_s: of STEPS_S; comes out larger where
    only that is kept.
    """
    begins = datetime.combine(day, time(), UTC)
    frame = load_frame([Key(Kind.POOL, pool) for pool in pools], begins, begins + DAY, step_s)
    step = timedelta(seconds=frame.step_s)
    begun = min(max(-((begins - now) // step), 0), frame.slots)
    simulated = Source.SIMULATED in frame.sources.values()
    return DayUse(day, frame.step_s, build_slots(frame.values, begins, step, frame.slots), begun, simulated)


def build_slots(values: Mapping[Key, Array], begins: datetime, step: timedelta, slots: int) -> list[Slot]:
    """Add pools up. Of a slot in which nothing is known of any pool nothing is. Pure.

    values: thousandths of cards, (columns, slots) of each pool.
    """
    if not values:
        return [Slot(begins + i * step, *[None] * len(COLUMNS)) for i in range(slots)]
    stacked = np.stack(list(values.values()))
    total = np.where(np.isnan(stacked).all(axis=0), np.nan, np.nansum(stacked, axis=0)) / 1000
    cells = [[None if np.isnan(cell) else round(float(cell), 3) for cell in row] for row in total.T]
    return [Slot(begins + i * step, *row) for i, row in enumerate(cells)]
