"""What would let one waiting job start sooner: the forecast again, with one thing of the job changed.

Both are played into the same futures (common random numbers): what runs ends when it ended before, and each job that
starts runs just as long, so a few futures are enough to compare two queues.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from scheduler.core.forecast import Range, RunTimes, build_range, starts_in
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Plan, Policy, Waiting

FUTURES = 7
LEAST = 3
"""So many futures are played for the job as it is, whatever the budget."""
SOONER_S = 600.0
SOONER_PART = 0.2
"""A change helps that lets the job start ten minutes sooner, or after four fifths of its wait."""
LEAST_TIME_S = 60.0
MOST_TIMES = 3
"""So many of the gaps before reservations are tried, the longest first."""


Change = TypeVar("Change")


@dataclass(frozen=True)
class Lever(Generic[Change]):
    """A change that helps, in the caller's own terms, and when the changed job starts."""

    change: Change
    start: Range


@dataclass(frozen=True)
class Levers(Generic[Change]):
    """start: of the job as it is. whole: every change was tried; else the budget was spent before."""

    start: Range
    found: tuple[Lever[Change], ...] = ()
    whole: bool = True


def find_levers(
    snapshot: Snapshot,
    policy: Policy,
    now: float,
    run_times: RunTimes,
    job: Waiting,
    families: Iterable[Iterable[tuple[Change, Waiting]]],
    *,
    spent: Callable[[], bool] = lambda: False,
    futures: int = FUTURES,
) -> Levers[Change]:
    """When the job starts, and which changes of it help. The job need not be among those that wait.

    families: (a change, the job with it); those of a family change the same, the mildest first. Of a family each is
    kept that helps over the one that was kept before, until one starts now. spent: is the caller's budget used up?
    It is asked between changes; the first answer is always given.
    """
    times = starts_of(snapshot, policy, now, run_times, job, futures, lambda done: done >= LEAST and spent())
    start = build_range(times)
    found: list[Lever[Change]] = []
    for family in families:
        best = start
        for change, changed in family:
            if best.p90 <= now:
                break
            if spent():
                return Levers(start, tuple(found), whole=False)
            other = build_range(starts_of(snapshot, policy, now, run_times, changed, len(times)))
            if helps(best, other, now):
                found.append(Lever(change, other))
                best = other
    return Levers(start, tuple(found))


def starts_of(
    snapshot: Snapshot,
    policy: Policy,
    now: float,
    run_times: RunTimes,
    job: Waiting,
    futures: int,
    enough: Callable[[int], bool] = lambda done: False,
) -> list[float]:
    """When this job starts in each future, if it waits in the place of the one with its number.

    enough: may it end after so many? One that starts now does in every future, for nothing is drawn for the present.
    """
    world = replace_waiting(snapshot, (*(other for other in snapshot.waiting if other.job != job.job), job))
    times: list[float] = []
    while len(times) < futures and times != [now] and not enough(len(times)):
        starts = starts_in(world, policy, now, run_times, len(times))
        times.append(next((at for started, at in starts if started == job.job), inf))
    return times


def helps(start: Range, other: Range, now: float) -> bool:
    """Is the other start worth a change? One that is now is; else its middle has to be sooner by enough."""
    if other.p90 <= now:
        return start.p90 > now
    sooner = start.p50 - other.p50 if other.p50 < inf else 0.0
    return sooner > 0 and sooner >= min(SOONER_S, SOONER_PART * (start.p50 - now))


def first_in_line(snapshot: Snapshot, plan: Plan, most: int) -> Snapshot:
    """The cluster with the first `most` of each pool's line and those that start at once: who decides when others do.

    plan: the cycle of this snapshot.
    """
    far = {job for job, (place, _of) in plan.positions.items() if place > most}
    return replace_waiting(snapshot, tuple(job for job in snapshot.waiting if job.job not in far))


def times_before(plan: Plan, job: Waiting, now: float) -> list[float]:
    """How long the job might say that it takes, in whole minutes, to end before what is reserved begins."""
    gaps = {(at - now - LEAST_TIME_S) // 60 * 60 for number, at in plan.reserved_at.items() if number != job.job}
    return sorted((gap for gap in gaps if LEAST_TIME_S <= gap < job.time_s), reverse=True)[:MOST_TIMES]


def replace_waiting(snapshot: Snapshot, waiting: tuple[Waiting, ...]) -> Snapshot:
    world = snapshot.copy()
    world.waiting = waiting
    return world
