"""How busy jobs kept their shares of cards in the last hour, for lists."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import numpy as np
from django.db import DatabaseError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.models import Task
from jobs.states import TaskState
from monitoring.series.grid import Array
from monitoring.series.share_activity import load_share_activity

HOUR = timedelta(hours=1)
STEP_S = 60
FRESH_SLOTS = 3
"""An older value says nothing of now."""
MOST_SHARES = 400
"""Of all jobs of a list; what is beyond has no curve there."""


@dataclass(frozen=True)
class Activity:
    """values: percent of its share for each minute, None where that is not known."""

    values: tuple[float | None, ...]

    @property
    def now(self) -> float | None:
        return next((value for value in reversed(self.values[-FRESH_SLOTS:]) if value is not None), None)

    @property
    def percent(self) -> str:
        return "?" if self.now is None else _("%(percent)s %%") % {"percent": round(self.now)}

    @property
    def words(self) -> str:
        known = [value for value in self.values if value is not None]
        words = _("GPU activity in the last hour: mean %(mean)s %%, now %(now)s")
        return words % {"mean": round(sum(known) / len(known)), "now": self.percent}


class Activities:
    """The activity of the running ones of some tasks, by job; read together when first asked for."""

    def __init__(self, tasks: Iterable[Task]):
        self._tasks = tasks

    def of(self, job_id: int) -> Activity | None:
        return self._found.get(job_id)

    @cached_property
    def _found(self) -> dict[int, Activity]:
        running = [task for task in self._tasks if task.state == TaskState.RUNNING and task.cards]
        if not running:
            return {}
        try:
            with transaction.atomic():
                return load_activities(running)
        except DatabaseError:  # no list may fail for want of samples
            return {}


def load_activities(tasks: Iterable[Task]) -> dict[int, Activity]:
    """Return the last hour of each job of which something is known, as the mean of its tasks' shares."""
    now = timezone.now()
    rows = load_share_activity(tasks, now - HOUR, now, STEP_S, MOST_SHARES).rows
    return join_shares((task.job_id, part) for task, parts in rows.items() for part in parts)


def join_shares(rows: Iterable[tuple[int, Array]]) -> dict[int, Activity]:
    """Return the mean of the shares of each job. rows: (job id, percent in each slot) of each share."""
    shares = defaultdict(list)
    for job_id, part in rows:
        shares[job_id].append(part)
    return {job_id: Activity(_mean(np.vstack(parts))) for job_id, parts in shares.items() if _is_known(parts)}


def _is_known(parts: list[np.ndarray]) -> bool:
    return any(not np.isnan(part).all() for part in parts)


def _mean(rows: np.ndarray) -> tuple[float | None, ...]:
    known = np.count_nonzero(~np.isnan(rows), axis=0)
    sums = np.nansum(rows, axis=0)
    return tuple(float(total / count) if count else None for total, count in zip(sums, known, strict=True))
