"""What a job of a history did, as the simulator plays it: stints, each a wait and a run until its own end. Pure.

A job that was stopped from outside (for others, for maintenance, by its machine's failure) and queued again goes on in
the same stint: where it is played, it need not be stopped. One that ended by itself and was tried again has another
stint, which comes as long after the end of the first as it did in truth.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from jobs.lifecycle import MADE_ROOM
from monitoring.history.file_format import Attempt, History, JobLine

SAVED_COST_S = 120.0
"""What a stop costs a job that saves checkpoints, where none of its stops shows it."""
SAME_FAILURE_S = 120.0
"""Jobs that a machine loses within so long were lost together."""

Crash = tuple[float, str]
"""(when, machine) of a machine's failure."""


@dataclass(frozen=True)
class Stint:
    """queued_at: when it came in truth. run_s: how long it holds its cards until its own end. leaves_at: when it is
    called off, started or not. after_s: how long after the stint before it, None for the first.
    resume_s: what a stop costs it, None: all that it had done. running: the attempt that ran at the beginning, and
    runs_until: when it would have ended unstopped. attempts: those that it had in truth.
    """

    job: JobLine
    queued_at: float
    run_s: float
    leaves_at: float = inf
    after_s: float | None = None
    resume_s: float | None = None
    running: Attempt | None = None
    runs_until: float = inf
    attempts: tuple[Attempt, ...] = ()


def list_crashes(history: History) -> list[Crash]:
    """Return when which machine failed: where it lost all that ran on it."""
    lost: dict[str, list[float]] = {}
    spans: dict[str, list[tuple[float, float, bool]]] = {}
    for attempt in (attempt for job in history.jobs for attempt in job.attempts if attempt.assigned_at is not None):
        for machine in {seat.machine for seat in attempt.seats}:
            failed = machine in attempt.lost
            spans.setdefault(machine, []).append((attempt.assigned_at or 0.0, attempt.freed_at or inf, failed))
            if failed and attempt.freed_at is not None:
                lost.setdefault(machine, []).append(attempt.freed_at)
    return sorted((at, machine) for machine, times in lost.items() for at in _find_failures(times, spans[machine]))


def _find_failures(times: list[float], spans: list[tuple[float, float, bool]]) -> Iterable[float]:
    reached = -inf
    for at in sorted(times):
        if at <= reached + SAME_FAILURE_S:
            continue
        reached = at
        if all(failed for begins, ends, failed in spans if begins < at < ends):
            yield at


def build_stints(job: JobLine, history: History, crashes: Sequence[Crash]) -> list[Stint]:
    """Return the stints that were not over when the history begins."""
    begins, ends = history.header.begins, history.header.ends
    failures = {(machine, round(at)) for at, machine in crashes}
    groups: list[list[Attempt]] = [[]]
    for attempt in job.attempts:
        groups[-1].append(attempt)
        if not _is_stopped_from_outside(attempt, failures):
            groups.append([])
    stints: list[Stint] = []
    over_at: float | None = None
    for group in (group for group in groups if group):
        stint = _build_stint(job, group, begins, ends)
        after_s = None if over_at is None else max(stint.queued_at - over_at, 0.0)
        over_at = group[-1].freed_at or ends
        if over_at > begins:
            stints.append(replace(stint, after_s=after_s if stints else None))
    return stints


def _is_stopped_from_outside(attempt: Attempt, failures: set[tuple[str, int]]) -> bool:
    if attempt.reason in MADE_ROOM or attempt.reason == "refused_by_node":
        return True
    near = {(machine, round(attempt.freed_at or 0) + s) for machine in attempt.lost for s in (-1, 0, 1)}
    return bool(near & failures) or (bool(attempt.lost) and attempt.reason == "gang_broken")


def _build_stint(job: JobLine, group: list[Attempt], begins: float, ends: float) -> Stint:
    last, done_s, costs = group[-1], 0.0, []
    for stopped in group[:-1]:
        if stopped.saved_at is not None and stopped.assigned_at is not None and stopped.freed_at is not None:
            done_s += max(stopped.saved_at - stopped.assigned_at, 0.0)
            costs.append(max(stopped.freed_at - stopped.saved_at, 0.0))
    resume_s = (sum(costs) / len(costs) if costs else SAVED_COST_S) if job.saves else None
    leaves_at = job.ended_at if last.assigned_at is None and job.ended_at is not None else inf
    running = next((one for one in group if (one.assigned_at or inf) < begins < (one.freed_at or inf)), None)
    run_s = done_s + _last_run_s(job, last, ends)
    until = inf
    if running is not None and running.assigned_at is not None:
        until = running.freed_at if running is last and running.freed_at else running.assigned_at + run_s
    return Stint(job, group[0].queued_at, run_s, leaves_at, None, resume_s, running, until, tuple(group))


def _last_run_s(job: JobLine, last: Attempt, ends: float) -> float:
    """Return how long the last attempt held its cards; if that is not known, as long as was said, or to the end."""
    if last.assigned_at is not None and last.freed_at is not None:
        return last.freed_at - last.assigned_at
    said_s = float(job.time_s or inf)
    if last.assigned_at is not None and said_s <= ends - last.assigned_at:
        return inf
    return said_s


def held_s(holds: Iterable[Sequence[float | None]], begins: float, ends: float) -> float:
    """Return for how much of a wait somebody held the job."""
    spans = ((max(since or begins, begins), min(inf if until is None else until, ends)) for since, until in holds)
    return sum(max(until - since, 0.0) for since, until in spans)
