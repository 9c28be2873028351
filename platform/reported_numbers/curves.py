"""The numbers of jobs as curves: one for each name and task, over all attempts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from jobs.models import Job
from reported_numbers.growing import read_points
from reported_numbers.models import Report, Series
from reported_numbers.thinning import INDEX, MOST_POINTS, STEP, Points, thin


@dataclass(frozen=True)
class Value:
    """A number and its step."""

    value: float
    step: float


@dataclass(frozen=True)
class Curve:
    """What one task of a job reported by one name. task: such as worker.1. count: of all attempts. points: or None."""

    job: str
    task: str
    name: str
    count: int
    last: Value
    last_at: datetime
    smallest: Value
    largest: Value
    points: Points | None = None


@dataclass(frozen=True)
class Untaken:
    """What of a task's file was not taken. refused: lines and numbers, of which why and what tell the first."""

    task: str
    refused: int
    why: str
    what: str
    skipped: int


def load_curves(jobs: Iterable[Job], names: Collection[str] | None = None, *, most: int = 0) -> list[Curve]:
    """Return the curves of jobs, by name, then in the order of the jobs, then by task.

    names: None for all. most: points of each, 0 for none.
    """
    places = {job.pk: place for place, job in enumerate(jobs)}
    wanted = Series.objects.filter(task__job__in=places).select_related("task__job")
    if names is not None:
        wanted = wanted.filter(name__in=names)
    if not most:
        wanted = wanted.defer("points", "tail")
    attempts: defaultdict[tuple, list[Series]] = defaultdict(list)
    for series in wanted.order_by("name", "task__role", "task__rank", "task__attempt"):
        task = series.task
        attempts[series.name, places[task.job_id], task.role, task.rank].append(series)
    return [_build_curve(attempts[key], most) for key in sorted(attempts)]


def load_untaken(job: Job) -> list[Untaken]:
    """Return what was not taken of the job's newest attempt, by task."""
    reports = Report.objects.filter(task__job=job, task__attempt=job.attempt).exclude(refused=0, skipped=0)
    return [
        Untaken(report.task.name, report.refused, report.first_why, report.first_what, report.skipped)
        for report in reports.select_related("task").order_by("task__role", "task__rank")
    ]


def _build_curve(attempts: Sequence[Series], most: int) -> Curve:
    """Return the curve of a task. attempts: the oldest first."""
    newest = attempts[-1]
    low = min(attempts, key=lambda series: series.smallest)
    high = max(attempts, key=lambda series: series.largest)
    return Curve(
        newest.task.job.public_id,
        newest.task.name,
        newest.name,
        sum(series.count for series in attempts),
        Value(newest.last, newest.last_step),
        newest.last_at,
        Value(low.smallest, low.smallest_step),
        Value(high.largest, high.largest_step),
        _join([read_points(series) for series in attempts], most) if most else None,
    )


def _join(attempts: Sequence[Points], most: int) -> Points:
    """Return the points of several attempts as one curve: a later one replaces what was reported from its begin on."""
    joined = attempts[0]
    for points in attempts[1:]:
        joined = np.concatenate((joined[joined[:, STEP] < points[:, STEP].min()], points))
    joined = joined[np.argsort(joined[:, STEP], kind="stable")]
    joined[:, INDEX] = np.arange(len(joined))
    return thin(joined, 1, min(most, MOST_POINTS))[0]
