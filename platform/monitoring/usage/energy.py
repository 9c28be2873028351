"""Share what a card drew among those who hold it. Pure.

Whoever kept the card busy has its energy, in proportion; where that is not known of each, or nobody did, each in
proportion of what it holds. So the parts add up to what the card drew while it was held.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from monitoring.usage.counting import Count


@dataclass(frozen=True)
class Holder:
    """before: at the tick before, None if it had none. count: now. read: whether this tick told how busy it kept the
    card.
    """

    milli: int
    before: Count | None
    count: Count
    read: bool

    @property
    def worked_ms(self) -> int | None:
        if not self.read or self.count.busy_ms is None:
            return None
        return self.count.busy_ms - ((self.before.busy_ms if self.before else None) or 0)


def share_energy(holders: Sequence[Holder], energy_mj: int) -> list[Count]:
    """Return the counts of a card's holders with their parts of what it drew. energy_mj: its counter now.

    Each has its part since the counter was last read while it held; a counter that fell began anew, and of that span
    nothing is known.
    """
    weights = _weigh(holders)
    return [
        _add_energy(holder.count, energy_mj, weight, sum(weights))
        for holder, weight in zip(holders, weights, strict=True)
    ]


def _weigh(holders: Sequence[Holder]) -> list[int]:
    worked = [holder.worked_ms for holder in holders]
    known = [ms for ms in worked if ms is not None]
    return known if len(known) == len(worked) and sum(known) > 0 else [holder.milli for holder in holders]


def _add_energy(count: Count, energy_mj: int, weight: int, of: int) -> Count:
    if count.energy_at is None or energy_mj < count.energy_at or not of:
        return replace(count, energy_at=energy_mj)
    grown = (energy_mj - count.energy_at) * weight // of
    return replace(count, energy_at=energy_mj, energy_mj=(count.energy_mj or 0) + grown)
