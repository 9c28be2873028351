"""What the loops have stored for pages: the last cycle, and forecasts of starts with how often they came true."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from django.db.models import F

from common.steady_clock import steady_now
from jobs.models import Job
from jobs.states import JOB_ACTIVE, JobState
from scheduler.core.forecast.run_times import LEAST_UNTIMED, RunTimeHistory, learn_run_times
from scheduler.core.prediction.job_traits import SAID, WITNESSES
from scheduler.core.prediction.length_model import PredictedLength
from scheduler.loading.predicted_lengths import load_lengths, predict_jobs
from scheduler.models import Forecast, Lease

MEASURED = timedelta(days=7)
KEPT = timedelta(days=400)
"""For reports."""
SLACK = timedelta(seconds=5)
"""Tolerance for the delay between a decision and its execution by the loops."""
PAST = 500
"""Jobs that tell how long jobs run, of those with a time and of those without."""
UNREVISED = timedelta(minutes=1)
"""A range that passed this long ago is revised no more: its job is far back in line, or the loop stands still."""
UNTOLD = ("", WITNESSES[SAID].basis)
"""Bases of lengths that no past job tells of."""
LEAST_STARTS = 20
"""Starts that a percentage needs."""


@dataclass(frozen=True)
class StoredForecast:
    """Start time quantiles; None: beyond the simulation."""

    p10: datetime | None
    p50: datetime | None
    p90: datetime | None
    told_at: datetime


@dataclass(frozen=True)
class Coverage:
    """Starts of seven days and the percentage within range."""

    starts: int
    percent: int


def load_forecasts(jobs: list[Job]) -> dict[int, StoredForecast]:
    """Return {job id: current forecast}, of none that is held or whose range has passed unrevised."""
    open_jobs = Forecast.objects.filter(job__in=[job.pk for job in jobs], job__held_at__isnull=True)
    told = open_jobs.filter(attempt=F("job__attempt"), p10__isnull=False).exclude(p90__lt=steady_now() - UNREVISED)
    return {row.job_id: StoredForecast(row.p10, row.p50, row.p90, row.told_at) for row in told}


def load_first_promises(jobs: list[Job]) -> dict[int, datetime]:
    """Return {job id: by when its attempt was first expected to have started}, of those of which that is known."""
    told = Forecast.objects.filter(job__in=[job.pk for job in jobs], attempt=F("job__attempt"))
    return {row.job_id: row.first_p90 for row in told if row.first_p90}


def load_told_lengths(jobs: list[Job]) -> dict[int, PredictedLength]:
    """Return {job id: how long it will last}, of open jobs of which past ones tell."""
    found = predict_jobs([job for job in jobs if not job.is_final], steady_now())
    return {pk: length for pk, length in found.items() if length.basis not in UNTOLD}


def lacks_run_times(pool_id: int) -> bool:
    """Return whether jobs of unknown length run in the pool, and too few have ended to tell how long they do."""
    untimed = Job.objects.filter(time_s__isnull=True)
    found = untimed.filter(pool=pool_id, max_time_s__isnull=True, state__in=JOB_ACTIVE)
    if not any(length.expected_s == inf for length in predict_jobs(found[:PAST]).values()):
        return False
    return len(load_run_times().seconds) < LEAST_UNTIMED


def load_run_times() -> RunTimeHistory:
    """Learn run times from the newest jobs that ended by themselves: of those with an estimate and of those without.

    The estimate is what had been predicted, and the person's own where nothing is.
    """
    if tested := load_lengths().model.tested:
        return learn_run_times((one.expected_s if one.expected_s < inf else None, one.seconds) for one in tested)
    ended = Job.objects.filter(state__in=[JobState.SUCCEEDED, JobState.FAILED], started_at__isnull=False)
    newest = ended.order_by("-pk").values_list("time_s", "started_at", "ended_at")
    rows = [*newest.filter(time_s__isnull=False)[:PAST], *newest.filter(time_s__isnull=True)[:PAST]]
    return learn_run_times(
        (said, max((end - start).total_seconds(), 0.0)) for said, start, end in rows if start and end
    )


def last_cycle() -> Lease | None:
    """Return the scheduler's lease: its last cycle's end and duration."""
    return Lease.objects.filter(name="cycle").first()


def measure_coverage() -> Coverage | None:
    """Measure recent forecasts, None below LEAST_STARTS. A job past its range counts as a miss."""
    now = steady_now()
    told = Forecast.objects.filter(first_p90__isnull=False)
    started = told.filter(started_at__gt=now - MEASURED)
    inside = started.filter(started_at__gte=F("first_p10") - SLACK, started_at__lte=F("first_p90") + SLACK)
    starts = started.count() + told.filter(started_at__isnull=True, first_p90__lt=now - SLACK).count()
    return Coverage(starts, round(100 * inside.count() / starts)) if starts >= LEAST_STARTS else None
