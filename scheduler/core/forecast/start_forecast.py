"""Start forecasts: the scheduler simulated over possible futures, with run times drawn from past jobs."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, log2
from random import Random

from scheduler.core.forecast.run_times import RunTimeHistory
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Policy, RunningJob, StartRange, WaitingJob
from scheduler.core.queueing.cycle_context import CycleMemo

FUTURES = 20
MAX_STEPS = 200
"""Moments simulated per future; later starts count as `inf`."""


def forecast_starts(
    snapshot: Snapshot, policy: Policy, now: float, run_times: RunTimeHistory, *, futures: int = FUTURES, seed: int = 0
) -> dict[int, StartRange]:
    """Return {waiting job: start range}. Deterministic."""
    numbers, memory = range(seed * futures, (seed + 1) * futures), CycleMemo(explains=False)
    found = [simulate_future(snapshot, policy, now, run_times, number, memory) for number in numbers]
    return build_ranges(snapshot, found)


def simulate_future(
    snapshot: Snapshot,
    policy: Policy,
    now: float,
    run_times: RunTimeHistory,
    number: int,
    cycle_memo: CycleMemo | None = None,
) -> dict[int, float]:
    """Simulate one future and return {job: first start}."""
    seen: dict[int, float] = {}
    for job, at in iterate_starts(snapshot, policy, now, run_times, number, cycle_memo):
        seen.setdefault(job, at)
    return seen


@dataclass(frozen=True)
class DrawnEnds:
    """The drawn ends of running jobs, rounded to `grain_s`."""

    ends: dict[int, float]
    grain_s: float


def draw_ends(snapshot: Snapshot, now: float, run_times: RunTimeHistory, number: int) -> DrawnEnds:
    """Draw when running jobs end in one future, rounded if there are many."""
    dice = Random(number)  # noqa: S311 (a future is no secret)
    drawn = {job.job: _draw_end(job, now, run_times, dice) for job in snapshot.running}
    ends = {job: at for job, at in drawn.items() if isfinite(at)}
    grain_s = 0.0
    if len(ends) > MAX_STEPS:
        half_s = max(sorted(ends.values())[len(ends) // 2] - now, 1.0)
        grain_s = 2.0 ** ceil(log2(half_s / MAX_STEPS))  # powers of two add exactly
    return DrawnEnds({job: now + _round_up(at - now, grain_s) for job, at in ends.items()}, grain_s)


def iterate_starts(
    snapshot: Snapshot,
    policy: Policy,
    now: float,
    run_times: RunTimeHistory,
    number: int,
    cycle_memo: CycleMemo | None = None,
    drawn: DrawnEnds | None = None,
) -> Iterator[tuple[int, float]]:
    """Yield (job, start) in one future, in time order; preempted jobs start again.

    A run time depends only on job and future, so a few futures suffice to compare two queues.
    """
    known = drawn or draw_ends(snapshot, now, run_times, number)

    def run_s(job: WaitingJob) -> float:
        return _round_up(run_times.draw(_random_for_job(job, number), job.time_s), known.grain_s)

    play = Simulation(snapshot, policy, now, run_s, ends=known.ends, cycle_memo=cycle_memo)
    for count, moment in enumerate(play.run_steps()):
        for start in moment.plan.starts:
            yield start.job, moment.at
        if not play.waiting or count == MAX_STEPS:
            break


def build_ranges(snapshot: Snapshot, futures: list[dict[int, float]]) -> dict[int, StartRange]:
    """Return {waiting job: range over these futures}."""
    return {job.job: build_range([seen.get(job.job, inf) for seen in futures]) for job in snapshot.waiting}


def build_range(times: list[float]) -> StartRange:
    """Return the quantiles of drawn starts, without interpolation, since times may be `inf`."""
    draws, count = sorted(times), len(times)
    p10, p90 = max(floor(0.1 * (count + 1)), 1), min(ceil(0.9 * (count + 1)), count)
    return StartRange(*(float(draws[place - 1]) for place in (p10, (count + 1) // 2, p90)))


def _round_up(seconds: float, grain_s: float) -> float:
    return ceil(seconds / grain_s) * grain_s if grain_s and isfinite(seconds) else seconds


def _random_for_job(job: WaitingJob, number: int) -> Random:
    return Random((number << 64) + job.job)  # noqa: S311


def _draw_end(job: RunningJob, now: float, run_times: RunTimeHistory, dice: Random) -> float:
    if job.leaving:
        return job.ends_at
    elapsed_s = max(now - job.started_at, 0.0)
    return job.started_at + min(run_times.draw(dice, job.time_s, elapsed_s), max(job.limit_s, elapsed_s))
