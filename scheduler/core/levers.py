"""What would let one waiting job start sooner: the forecast again, with one thing of the job changed.

Both are played into the same futures (common random numbers): what runs ends when it ended before, and each job that
starts runs just as long, so a few futures are enough to compare two queues.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from scheduler.core.context import Memory
from scheduler.core.forecast import Drawn, Range, RunTimes, build_range, draw_ends, starts_in
from scheduler.core.maintenance import is_maintenance_to_come
from scheduler.core.play import Play
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Plan, Policy, Waiting, Window

FUTURES = 7
LEAST = 3
"""Of fewer futures nothing is told."""
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
    """start: of the job as it is, None where the budget was spent before. whole: every change was tried."""

    start: Range | None
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
    left: Callable[[], float] = lambda: 1.0,
    futures: int = FUTURES,
) -> Levers[Change]:
    """When the job starts, and which changes of it help. The job need not be among those that wait.

    families: (a change, the job with it); those of a family change the same, the mildest first. Of a family each is
    kept that helps over the one that was kept before, until one starts now. left: what is left of the caller's budget,
    from 1 to 0. First it is asked what starts now, for that costs one look each; then futures are played.
    """
    play = _Futures(snapshot, policy, now, run_times, left)
    if play.starts_now(job):
        return Levers(Range(now, now, now))
    found: list[Lever[Change]] = []
    later: list[list[tuple[Change, Waiting]]] = []
    for family in families:
        later.append([])
        for change, changed in family:
            if left() <= 0:
                return Levers(None, tuple(found), whole=False)
            if play.starts_now(changed):
                found.append(Lever(change, Range(now, now, now)))
                break
            later[-1].append((change, changed))
    changes = sum(len(family) for family in later)
    times = play.starts_of(job, futures, until=changes / (1 + changes))  # the job as it is has its part of the budget
    if len(times) < LEAST:
        return Levers(None, tuple(found), whole=False)
    start = build_range(times)
    for family in later:
        best = start
        for change, changed in family:
            others = play.starts_sooner(changed, times)
            if others is None:
                return Levers(start, tuple(found), whole=False)
            if others and helps(best, other := build_range(others), now):
                found.append(Lever(change, other))
                best = other
    return Levers(start, tuple(found))


class _Futures:
    """The same futures for each job that is put in the place of the one with its number."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: float, run_times: RunTimes, left: Callable[[], float]):
        self._snapshot = snapshot
        self._policy = policy
        self._now = now
        self._run_times = run_times
        self._left = left
        self._memory = Memory(explains=False)
        self._drawn: dict[int, Drawn] = {}

    def starts_now(self, job: Waiting) -> bool:
        """Nothing is drawn for the present: it is the same in every future."""
        play = Play(self._with(job), self._policy, self._now, lambda other: inf, memory=self._memory)
        return any(start.job == job.job for start in next(play.moments()).plan.starts)

    def starts_of(self, job: Waiting, futures: int, begun: Iterable[float] = (), until: float = 0.0) -> list[float]:
        """When the job starts in each future; of fewer where the budget is spent.

        begun: in the first of them. until: after LEAST of them, leave so much of the budget.
        """
        times = list(begun)
        while len(times) < futures and (len(times) < LEAST or self._left() > until):
            at = self._start_in(job, len(times))
            if at is None:
                break
            times.append(at)
        return times

    def starts_sooner(self, job: Waiting, times: list[float]) -> list[float] | None:
        """When the job starts in the futures of `times`; nothing where it starts no sooner in the first of them, for it
        is not worth more. None where the budget is spent.
        """
        first = self._start_in(job, 0, before=times[0])
        if first is None or first >= times[0]:
            return None if first is None else []
        others = self.starts_of(job, len(times), [first])
        return others if len(others) == len(times) else None

    def _start_in(self, job: Waiting, number: int, before: float = inf) -> float | None:
        if number not in self._drawn:
            self._drawn[number] = draw_ends(self._snapshot, self._now, self._run_times, number)
        world, drawn = self._with(job), self._drawn[number]
        starts = starts_in(world, self._policy, self._now, self._run_times, number, self._memory, drawn)
        for started, at in starts:
            if started == job.job or at >= before:
                return at
            if self._left() <= 0:
                return None
        return inf

    def _with(self, job: Waiting) -> Snapshot:
        others = (other for other in self._snapshot.waiting if other.job != job.job)
        return replace_waiting(self._snapshot, (*others, job))


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


def times_before(plan: Plan, job: Waiting, now: float, lent: Iterable[Window] = ()) -> list[float]:
    """How long the job might say that it takes, in whole minutes, to end before what is reserved or closed begins, or
    within one of the windows in which its pool is lent cards.
    """
    begins = [at for number, at in plan.reserved_at.items() if number != job.job]
    begins += [why.params["at"] for why in plan.refusals.get(job.job, []) if is_maintenance_to_come(why)]
    begins += [window.ends_at - max(window.begins_at - now, 0.0) for window in lent]
    gaps = {(at - now - LEAST_TIME_S) // 60 * 60 for at in begins}
    return sorted((gap for gap in gaps if LEAST_TIME_S <= gap < job.time_s), reverse=True)[:MOST_TIMES]


def replace_waiting(snapshot: Snapshot, waiting: tuple[Waiting, ...]) -> Snapshot:
    world = snapshot.copy()
    world.waiting = waiting
    return world
