"""Skip cycles while no row changed.

Time alone is noticed after LOOK_AGAIN_S, or when a start time, window or maintenance is due.
"""

from dataclasses import dataclass
from math import inf

from scheduler.core.model.lending import list_window_edges
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Plan
from scheduler.loading.row_cache import ChangeMark

LOOK_AGAIN_S = 5.0


@dataclass(frozen=True)
class IdlePeriod:
    """Row versions for which cycles are idle, until a time."""

    mark: ChangeMark
    until: float

    def covers(self, mark: ChangeMark, now: float) -> bool:
        return mark == self.mark and now < self.until


def compute_idle_period(mark: ChangeMark, plan: Plan, snapshot: Snapshot, now: float) -> IdlePeriod | None:
    """Return the rest, None if the cycle acted. mark: read before."""
    if plan.starts or plan.evictions:
        return None
    due = {job.not_before for job in snapshot.waiting} | list_window_edges(snapshot)
    return IdlePeriod(mark, min(now + LOOK_AGAIN_S, min((at for at in due if at > now), default=inf)))
