"""Figures of a play, of all and by team: waits, GPU hours, stops and fairness."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from scheduler.simulation.history import PREEMPTED, JobRun, quantiles
from scheduler.whatif.replay import Play
from scheduler.whatif.stints import held_s

ALL = "all"
SHORTEST_S = 10.0
"""Runs that are shorter count as this long, as in Feitelson and Rudolph's bounded slowdown (1998)."""


@dataclass(frozen=True)
class Measures:
    """Of the jobs that came in the period, and GPU hours and stops for others of all that ran in it.

    Waits are in seconds, without held time. slowdown: mean of (wait + run) / run; who did not run counts with the
    length that is known of them, or not at all. reasons: {reason: share of all waiting time}.
    """

    jobs: int
    started: int
    mean_wait_s: float
    p50_wait_s: float
    p95_wait_s: float
    slowdown: float
    gpu_hours: float
    stops: int
    reasons: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Figures:
    """of: {ALL or team: Measures}. fairness: Jain's index of the teams' slowdowns, 1 where all are alike."""

    of: Mapping[str, Measures]
    fairness: float


def measure(play: Play) -> Figures:
    """Teams without a job in the period are left out."""
    begins, ends = play.history.header.begins, play.history.header.ends
    runs: dict[int, list[JobRun]] = {}
    for run in play.happened.runs:
        runs.setdefault(run.job, []).append(run)
    came: dict[str, list[int]] = {}
    worked: dict[str, list[JobRun]] = {}
    for number, stint in play.stints.items():
        worked.setdefault(stint.job.team, []).extend(runs.get(number, ()))
        if stint.after_s is None and begins <= stint.job.submitted_at < ends:
            came.setdefault(stint.job.team, []).append(number)
    found = {}
    for team in (ALL, *(team.name for team in play.history.teams)):
        own = [n for some in came.values() for n in some] if team == ALL else came.get(team, [])
        work = [run for some in worked.values() for run in some] if team == ALL else worked.get(team, [])
        if own or team == ALL:
            waited = _add_up(play.waited_for.values()) if team == ALL else play.waited_for.get(team, {})
            found[team] = _measure(play, own, work, runs, waited)
    return Figures(found, jain_index([one.slowdown for team, one in found.items() if team != ALL]))


def wait_s(play: Play, number: int) -> float:
    """Return how long a job waited for its first start, until it gave up, or so far; without what it was held."""
    happened, job = play.happened, play.stints[number].job
    until = happened.first_start.get(number, happened.gave_up.get(number, happened.ended_at))
    return max(until - job.submitted_at - held_s(job.holds, job.submitted_at, until), 0.0)


def jain_index(values: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2), Jain, Chiu and Hawe (1984)."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _add_up(waited: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for why, seconds in (one for of_team in waited for one in of_team.items()):
        total[why] = total.get(why, 0.0) + seconds
    return total


def _measure(
    play: Play,
    own: Sequence[int],
    work: Iterable[JobRun],
    runs: Mapping[int, list[JobRun]],
    waited: Mapping[str, float],
) -> Measures:
    begins, ends = play.history.header.begins, play.history.header.ends
    waits = [wait_s(play, number) for number in own]
    p50, p95 = quantiles(waits, 0.5, 0.95)
    slowdowns = []
    for number, wait in zip(own, waits, strict=True):
        ran_s = sum(run.ended_at - run.began_at for run in runs.get(number, ())) or play.stints[number].run_s
        if ran_s < inf:
            slowdowns.append((wait + ran_s) / max(ran_s, SHORTEST_S))
    spans = [(max(run.began_at, begins), min(run.ended_at, ends), run) for run in work]
    gpu_s = sum(max(to - since, 0.0) * run.milli / 1000 for since, to, run in spans)
    stops = sum(run.outcome == PREEMPTED and begins <= run.ended_at <= ends for run in work)
    total = sum(waited.values())
    shares = {why: seconds / total for why, seconds in waited.items()} if total else {}
    return Measures(
        len(own),
        sum(number in play.happened.first_start for number in own),
        float(np.mean(waits)) if waits else 0.0,
        p50,
        p95,
        float(np.mean([max(one, 1.0) for one in slowdowns])) if slowdowns else 1.0,
        gpu_s / 3600,
        stops,
        shares,
    )
