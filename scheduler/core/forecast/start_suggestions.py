"""Changes to a waiting job that let it start sooner, compared in the same simulated futures."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.run_times import RunTimeHistory
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.forecast.start_forecast import DrawnEnds, build_range, draw_ends, iterate_starts
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import LendingWindow, Plan, Policy, StartRange, WaitingJob
from scheduler.core.queueing.cycle_context import CycleMemo
from scheduler.core.queueing.maintenance import is_upcoming_maintenance

FUTURES = 7
MIN_FUTURES = 3
"""Minimum of futures for a result."""
MIN_GAIN_S = 600.0
MIN_GAIN_SHARE = 0.2
"""A change helps if the job starts ten minutes or a fifth of its wait sooner."""
MIN_TIME_S = 60.0
MAX_TIMES = 3
"""Gaps before reservations to try, longest first."""


Change = TypeVar("Change")
Records = tuple[WaitingJob, ...]
"""A job: its record in each pool where it waits."""


@dataclass(frozen=True)
class HelpfulChange(Generic[Change]):
    """A change that helps, and the start it gives. next_cycle: it starts then, and no room is made for it first."""

    change: Change
    start: StartRange
    next_cycle: bool = False


@dataclass(frozen=True)
class HelpfulChanges(Generic[Change]):
    """start: of the unchanged job, None if the budget ran out."""

    start: StartRange | None
    found: tuple[HelpfulChange[Change], ...] = ()
    complete: bool = True


def find_helpful_changes(
    snapshot: Snapshot,
    policy: Policy,
    now: float,
    run_times: RunTimeHistory,
    job: Records,
    families: Iterable[Iterable[tuple[Change, Records]]],
    *,
    budget_left: Callable[[], float] = lambda: 1.0,
    futures: int = FUTURES,
) -> HelpfulChanges[Change]:
    """Forecast the job's start, and find changes that make it sooner.

    families: alternatives of one change, mildest first; each kept one beats the last. left: share of the budget, 1 to
    0.
    """
    play = _SharedFutures(snapshot, policy, now, run_times, budget_left)
    if play.starts_now(job):
        return HelpfulChanges(StartRange(now, now, now))
    found: list[HelpfulChange[Change]] = []
    later: list[list[tuple[Change, Records]]] = []
    for family in families:
        later.append([])
        for change, changed in family:
            if budget_left() <= 0:
                return HelpfulChanges(None, tuple(found), complete=False)
            if play.starts_now(changed):
                found.append(HelpfulChange(change, StartRange(now, now, now), play.starts_in_next_cycle(changed)))
                break
            later[-1].append((change, changed))
    changes = sum(len(family) for family in later)
    times = play.start_times(job, futures, until=changes / (1 + changes))  # the unchanged job has its share
    if len(times) < MIN_FUTURES:
        return HelpfulChanges(None, tuple(found), complete=False)
    start = build_range(times)
    for family in later:
        best = start
        for change, changed in family:
            others = play.sooner_start_times(changed, times)
            if others is None:
                return HelpfulChanges(start, tuple(found), complete=False)
            if others and is_worthwhile(best, other := build_range(others), now):
                found.append(HelpfulChange(change, other))
                best = other
    return HelpfulChanges(start, tuple(found))


class _SharedFutures:
    """Futures shared by all variants of one job."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, now: float, run_times: RunTimeHistory, left: Callable[[], float]
    ):
        self._snapshot = snapshot
        self._policy = policy
        self._now = now
        self._run_times = run_times
        self._budget_left = left
        self._cycle_memo = CycleMemo(explains=False)
        self._drawn: dict[int, DrawnEnds] = {}

    def starts_now(self, job: Records) -> bool:
        """Check whether the job starts at once, or as soon as who makes room for it is gone."""
        play = Simulation(
            self._snapshot_with(job), self._policy, self._now, lambda other: inf, cycle_memo=self._cycle_memo
        )
        return any(start.job == job[0].job for start in next(play.run_steps()).plan.starts)

    def starts_in_next_cycle(self, job: Records) -> bool:
        plan = run_cycle(self._snapshot_with(job), self._policy, self._now, self._cycle_memo)
        return any(start.job == job[0].job for start in plan.starts)

    def start_times(self, job: Records, futures: int, begun: Iterable[float] = (), until: float = 0.0) -> list[float]:
        """Return the job's start in each future, fewer if the budget runs out."""
        times = list(begun)
        while len(times) < futures and (len(times) < MIN_FUTURES or self._budget_left() > until):
            at = self._start_time_in(job, len(times))
            if at is None:
                break
            times.append(at)
        return times

    def sooner_start_times(self, job: Records, times: list[float]) -> list[float] | None:
        """Return the job's starts in the futures of `times`; [] if not sooner in the first, None without budget."""
        first = self._start_time_in(job, 0, before=times[0])
        if first is None or first >= times[0]:
            return None if first is None else []
        others = self.start_times(job, len(times), [first])
        return others if len(others) == len(times) else None

    def _start_time_in(self, job: Records, number: int, before: float = inf) -> float | None:
        if number not in self._drawn:
            self._drawn[number] = draw_ends(self._snapshot, self._now, self._run_times, number)
        world, drawn = self._snapshot_with(job), self._drawn[number]
        starts = iterate_starts(world, self._policy, self._now, self._run_times, number, self._cycle_memo, drawn)
        for started, at in starts:
            if started == job[0].job or at >= before:
                return at
            if self._budget_left() <= 0:
                return None
        return inf

    def _snapshot_with(self, job: Records) -> Snapshot:
        others = (other for other in self._snapshot.waiting if other.job != job[0].job)
        return replace_waiting(self._snapshot, (*others, *job))


def is_worthwhile(start: StartRange, other: StartRange, now: float) -> bool:
    """Check whether the other start is worth a change: now, or a median sooner by enough."""
    if other.p90 <= now:
        return start.p90 > now
    sooner = start.p50 - other.p50 if other.p50 < inf else 0.0
    return sooner > 0 and sooner >= min(MIN_GAIN_S, MIN_GAIN_SHARE * (start.p50 - now))


def keep_first_in_line(snapshot: Snapshot, plan: Plan, most: int) -> Snapshot:
    """Return the snapshot with only the first `most` of each pool's queue."""
    far = {job for job, (place, _of) in plan.positions.items() if place > most}
    return replace_waiting(snapshot, tuple(job for job in snapshot.waiting if job.job not in far))


def suggest_run_times(plan: Plan, job: WaitingJob, now: float, lent: Iterable[LendingWindow] = ()) -> list[float]:
    """Suggest shorter estimates that end before a reservation, maintenance or window does."""
    begins = [at for number, at in plan.reserved_at.items() if number != job.job]
    begins += [why.params["at"] for why in plan.refusals.get(job.job, []) if is_upcoming_maintenance(why)]
    begins += [window.ends_at - max(window.begins_at - now, 0.0) for window in lent]
    gaps = {(at - now - MIN_TIME_S) // 60 * 60 for at in begins}
    return sorted((gap for gap in gaps if MIN_TIME_S <= gap < job.time_s), reverse=True)[:MAX_TIMES]


def replace_waiting(snapshot: Snapshot, waiting: tuple[WaitingJob, ...]) -> Snapshot:
    world = snapshot.copy()
    world.waiting = waiting
    return world
