"""What a rule would have done in the last days, from the series that are kept. Pure but for the reading of them.

Kernels are not kept, and whether a notice would have been seen is not known: a preview acts a little more often than
the rule itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.db.models import Q, QuerySet

from jobs.models import Job, Task
from monitoring.idle.evidence import Limits, TaskWindow, Values, Window
from monitoring.idle.ladder import Ladder
from monitoring.idle.loading import HeldJob, cut_window, list_gpus
from monitoring.idle.rules import build_ladder, check_rule
from monitoring.idle.rungs import Rung
from monitoring.models import IdleRule, IdleTouch
from monitoring.series.frames import load_frame

DAYS = 7
MOST_JOBS = 400
STEP_S = 60
YOUNG_MIN = 20
LONGEST_RETURN_H = 8
REGRET_MIN = 15


@dataclass(frozen=True)
class Replayed:
    """told, acted: minutes after the beginning; None: never. busy_again: it worked soon after the act."""

    told: int | None
    acted: int | None
    busy_again: bool = False


@dataclass(frozen=True)
class Preview:
    """told, acts: of the jobs that were looked at. people: who would have been acted on. busy_again: of the acts."""

    looked_at: int
    told: int
    acts: int
    gpu_hours: float
    people: int
    busy_again: int
    since: datetime
    complete: bool


def preview_rule(rule: IdleRule, *, days: int, now: datetime) -> Preview:
    """Replay the newest jobs of the last days by a rule, saved or not. Raises InvalidInput, as to save it would."""
    check_rule(rule)
    ladder, since = build_ladder(rule), now - timedelta(days=days)
    jobs = list(filter_jobs(rule, since).order_by("-started_at").select_related("user")[: MOST_JOBS + 1])
    told = acts = again = looked_at = 0
    hours = 0.0
    people: set[int] = set()
    for job in jobs[:MOST_JOBS]:
        begin, end = max(job.started_at or since, since), min(job.ended_at or now, now)
        held = _load_held(job)
        if held is None or end - begin < timedelta(minutes=ladder.window_s // 60):
            continue
        looked_at += 1
        found = replay(_load_window(held, begin, end), _load_touches(job, begin), ladder)
        told += found.told is not None
        if found.acted is not None:
            acts, again, people = acts + 1, again + found.busy_again, people | {job.user_id}
            hours += _count_hours(held, end - begin - timedelta(minutes=found.acted))
    return Preview(looked_at, told, acts, round(hours, 1), len(people), again, since, len(jobs) <= MOST_JOBS)


def replay(window: Window, touched: Sequence[int], ladder: Ladder, limits: Limits | None = None) -> Replayed:
    """Climb the ladder through a job's minutes. touched: those in which somebody was at work in it."""
    limits = limits or Limits()
    works, known = find_minutes(window, limits)
    works[[minute for minute in touched if 0 <= minute < len(works)]] = True
    note, act = ladder.after_s[min(ladder.after_s)] // 60, ladder.after_s.get(Rung.ACTED, 0) // 60
    told, idle = None, 0
    for minute in range(len(works)):
        idle = 0 if works[minute] else idle + int(known[minute])
        seen = known[max(0, minute + 1 - note) : minute + 1].mean() >= limits.coverage
        if not seen or minute < YOUNG_MIN:
            continue
        if idle >= note and told is None:
            told = minute
        if act and idle >= act:
            return Replayed(told, minute, bool(works[minute + 1 : minute + 1 + REGRET_MIN].any()))
    return Replayed(told, None)


def find_minutes(window: Window, limits: Limits) -> tuple[np.ndarray, np.ndarray]:
    """Return in which minutes any task works, and in which all are seen."""
    works, known = np.zeros(window.slots, dtype=bool), np.ones(window.slots, dtype=bool)
    for task in window.tasks:
        floor = max(limits.cpu_minute_percent * task.cpu_asked / 100, limits.cpu_floor_milli)
        works |= _above(task.cpu_milli, floor)
        for moved, least in _list_moved(task, limits):
            works |= _above(moved, least)
        works |= _above(np.abs(np.diff(task.processes, prepend=task.processes[:1])), 0.5)
        known &= ~np.isnan(task.cpu_milli)
        for share in task.shares:
            works |= _above(share.busy, limits.gpu_minute_percent)
            works |= _above(np.diff(share.used_mib, prepend=share.used_mib[:1]), limits.gpu_growth_mib)
            known &= ~np.isnan(share.busy)
    return works, known


def _list_moved(task: TaskWindow, limits: Limits) -> list[tuple[Values, float]]:
    disk = [(values, limits.disk_kib_s) for values in (task.read_kib_s, task.write_kib_s)]
    return disk + [(values, limits.net_kib_s) for values in (task.net_rx_kib_s, task.net_tx_kib_s)]


def _above(values: Values, least: float) -> np.ndarray:
    return np.nan_to_num(values, nan=0.0) >= least


def filter_jobs(rule: IdleRule, since: datetime) -> QuerySet[Job]:
    """Return those that held something since then, and that the rule is for."""
    held = Job.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=since), started_at__isnull=False)
    there = held.filter(kind=rule.kind)
    if rule.pool_id is not None:
        return there.filter(pool=rule.pool_id)
    return there.exclude(pool__in=IdleRule.objects.filter(kind=rule.kind, pool__isnull=False).values("pool"))


def _load_held(job: Job) -> HeldJob | None:
    """Return the tasks of a job's newest attempt with their cards; None if it held none."""
    tasks = list(Task.objects.filter(job=job, attempt=job.attempt, started_at__isnull=False))
    if not any(task.cards for task in tasks):
        return None
    gpus = list_gpus({card["uuid"] for task in tasks for card in task.cards})
    return HeldJob(job, tasks, gpus)


def _load_window(held: HeldJob, begin: datetime, end: datetime) -> Window:
    return cut_window(held, load_frame(held.list_keys(), begin, end, STEP_S), None, None)


def _load_touches(job: Job, begin: datetime) -> list[int]:
    at = IdleTouch.objects.filter(job=job, at__gte=begin).values_list("at", flat=True)
    return [int((moment - begin).total_seconds() // 60) for moment in at]


def _count_hours(held: HeldJob, left: timedelta) -> float:
    milli = sum(card.get("milli", 0) for task in held.tasks for card in task.cards)
    return milli / 1000 * min(max(left.total_seconds() / 3600, 0), LONGEST_RETURN_H)
