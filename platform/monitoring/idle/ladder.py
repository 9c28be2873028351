"""Which rung comes next, and when. Pure.

A rung is taken only after the one before it was told and delivered, and never sooner after it than the rule says: the
clock of the ladder runs from a committed notice. Where nothing is known, nothing is taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from monitoring.idle.clock import Clock
from monitoring.idle.evidence import Finding, Idle
from monitoring.idle.rungs import Rung, Then

YOUNG = timedelta(minutes=20)
"""A job's first minutes, in which it may load what it needs."""
ENDING = timedelta(minutes=15)
"""Before its own end nobody is bothered."""


class Hold(StrEnum):
    """Why no rung is taken."""

    WORKS = "works"
    UNKNOWN = "unknown"
    NOT_DUE = "not_due"
    YOUNG = "young"
    ENDING = "ending"
    STOPPING = "stopping"
    SNOOZED = "snoozed"
    EXEMPT = "exempt"
    UNDELIVERED = "undelivered"
    AT_TOP = "at_top"


@dataclass(frozen=True)
class Ladder:
    """after_s: after how much idleness each rung comes, in order. then: what ACTED does."""

    after_s: Mapping[Rung, int]
    then: Then = Then.TELL

    @property
    def window_s(self) -> int:
        """How much must be seen to be idle before anything is said."""
        return min(self.after_s.values())


@dataclass(frozen=True)
class Standing:
    """How far a job is. reached: its last rung's notice was delivered. instead: a lead was told in place of the owner.

    ends_at: its own end.
    """

    clock: Clock
    rung: Rung = Rung.NONE
    rung_at: datetime | None = None
    reached: bool = True
    instead: bool = False
    started_at: datetime | None = None
    ends_at: datetime | None = None
    stopping: bool = False
    snoozed_until: datetime | None = None
    exempt_until: datetime | None = None


@dataclass(frozen=True)
class Climb:
    """Take this rung."""

    rung: Rung


@dataclass(frozen=True)
class TellLead:
    """Tell a lead in place of the owner, whom the last rung did not reach."""


@dataclass(frozen=True)
class Stay:
    why: Hold


def compare(ladder: Ladder, standing: Standing, finding: Finding, now: datetime) -> Climb | TellLead | Stay:
    """Decide what is done at this look."""
    if not isinstance(finding, Idle) or standing.clock.since is None:
        return Stay(Hold.WORKS if standing.clock.since is None else Hold.UNKNOWN)
    if (held := _find_hold(standing, now)) is not None:
        return Stay(held)
    rung = find_next(ladder, standing.rung)
    if rung is None:
        return Stay(Hold.AT_TOP)
    if not standing.reached:
        return _wait_for_delivery(ladder, standing, rung, now)
    if plan_times(ladder, standing)[rung] <= now:
        return Climb(rung)
    snoozed = standing.snoozed_until is not None and now < standing.snoozed_until
    return Stay(Hold.SNOOZED if snoozed else Hold.NOT_DUE)


def find_next(ladder: Ladder, rung: Rung) -> Rung | None:
    """Return the rung after one."""
    return next((step for step in sorted(ladder.after_s) if step > rung), None)


def plan_times(ladder: Ladder, standing: Standing) -> dict[Rung, datetime]:
    """Return when each rung that is left would be taken, if nothing changes."""
    times: dict[Rung, datetime] = {}
    before, before_at = standing.rung, standing.rung_at
    for rung in sorted(step for step in ladder.after_s if step > standing.rung):
        at = standing.clock.find_time(ladder.after_s[rung])
        if at is None:
            return {}
        if standing.started_at is not None:
            at = max(at, standing.started_at + YOUNG)
        if before_at is not None and before in ladder.after_s:
            at = max(at, before_at + _gap(ladder, before, rung))
        if standing.snoozed_until is not None:
            at = max(at, standing.snoozed_until - _lead_time(ladder, rung))
        times[rung] = at
        before, before_at = rung, at
    return times


def _find_hold(standing: Standing, now: datetime) -> Hold | None:
    if standing.stopping:
        return Hold.STOPPING
    if standing.started_at is None or now - standing.started_at < YOUNG:
        return Hold.YOUNG
    if standing.ends_at is not None and standing.ends_at - now < ENDING:
        return Hold.ENDING
    if standing.exempt_until is not None and now < standing.exempt_until:
        return Hold.EXEMPT
    return None


def _wait_for_delivery(ladder: Ladder, standing: Standing, rung: Rung, now: datetime) -> TellLead | Stay:
    """After twice the time to the next rung, a lead is told instead."""
    told_at = standing.rung_at or now
    if not standing.instead and now >= told_at + 2 * _gap(ladder, standing.rung, rung):
        return TellLead()
    return Stay(Hold.UNDELIVERED)


def _gap(ladder: Ladder, before: Rung, after: Rung) -> timedelta:
    return timedelta(seconds=ladder.after_s[after] - ladder.after_s.get(before, 0))


def _lead_time(ladder: Ladder, rung: Rung) -> timedelta:
    """Return how long before the end of a snooze a rung is taken: a warning as long as before the act."""
    if rung != Rung.WARNED or Rung.ACTED not in ladder.after_s:
        return timedelta(0)
    return _gap(ladder, Rung.WARNED, Rung.ACTED)
