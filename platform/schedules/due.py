"""Which run of a schedule has come due. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from schedules.cron import find_last_tick, iterate_ticks
from schedules.models import Missed, Schedule

ON_TIME = timedelta(minutes=5)
"""A tick that is looked at within this time was not missed: many may be due at once, or the platform restarts."""


@dataclass(frozen=True)
class Due:
    """tick: the newest moment that has come. is_missed: nothing runs for it. missed_since: the first of those before it
    that nobody looked at; None if there are none. next_at: the moment after it, None if there is none.
    """

    tick: datetime
    is_missed: bool
    missed_since: datetime | None
    next_at: datetime | None


def find_due(schedule: Schedule, now: datetime) -> Due | None:
    """Return what is due of a schedule, at most one run however long nobody looked; None before its next moment."""
    first = schedule.next_at
    if first is None or first > now:
        return None
    latest = min(now, schedule.until) if schedule.until else now
    tick = find_last_tick(schedule.cron, schedule.zone, first, latest)
    is_late = now - tick > ON_TIME
    return Due(
        tick=tick,
        is_missed=is_late and schedule.missed == Missed.SKIP,
        missed_since=first if tick > first else None,
        next_at=find_next(schedule, now),
    )


def find_next(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the next moment of a schedule; None where there is none before its end."""
    at = next(iterate_ticks(schedule.cron, schedule.zone, after), None)
    return None if at is None or (schedule.until and at > schedule.until) else at
