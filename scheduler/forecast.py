"""What people are told of when their jobs will start, kept, and measured against when they did."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import isfinite

from django.db.models import F, Min, OuterRef, Q, Subquery
from django.utils import timezone

from jobs.models import Job, Task
from jobs.states import JobState
from scheduler.core.calibration import MOST_PAST, Calibration, Past, calibrate
from scheduler.core.context import Memory
from scheduler.core.forecast import Range, RunTimes, build_ranges, learn_run_times, play_future
from scheduler.models import Forecast
from scheduler.snapshots import load_world

FIRST = 60
"""So many of the first in line of each pool are foretold; who stands behind them waits for those anyway."""
FUTURES = 20
BUDGET_S = 2.0
"""Of this machine's time for one round; on a slow one fewer futures are looked at, but never less than LEAST."""
LEAST = 5
PAST = 500
"""So many of the last jobs tell how long jobs run."""
MEASURED = timedelta(days=7)
SLACK = timedelta(seconds=5)
"""Between the moment that a forecast means and the loops that carry it out."""


@dataclass(frozen=True)
class Told:
    """When a job starts: one future in ten is earlier than p10, one in ten later than p90.

    None: later than what was looked at. told_at: when this was worked out.
    """

    p10: datetime | None
    p50: datetime | None
    p90: datetime | None
    told_at: datetime


@dataclass(frozen=True)
class Coverage:
    """How many starts of the last seven days were foretold, and how many percent lie inside the range."""

    starts: int
    percent: int


def record_forecasts() -> None:
    """Foretell the first in line, and note of those that started when they did."""
    note_starts()
    first = _first_in_line()
    if not first:
        return
    world = load_world()
    snapshot = replace(world.snapshot, waiting=tuple(job for job in world.snapshot.waiting if job.job in first))
    now, run_times, began = time.time(), load_run_times(), time.monotonic()
    calibration = load_calibration(now)
    futures: list[dict[int, float]] = []
    memory = Memory(explains=False)
    while len(futures) < FUTURES and (len(futures) < LEAST or time.monotonic() - began < BUDGET_S):
        futures.append(play_future(snapshot, world.policy, now, run_times, len(futures), memory))
    _tell(first, build_ranges(snapshot, futures), calibration)


def load_run_times() -> RunTimes:
    """How long the last jobs ran, of those that ran to an end of their own."""
    ended = Job.objects.filter(state__in=[JobState.SUCCEEDED, JobState.FAILED], started_at__isnull=False)
    rows = ended.order_by("-ended_at").values_list("time_s", "started_at", "ended_at")[:PAST]
    return learn_run_times((said, (end - start).total_seconds()) for said, start, end in rows if start and end)


def load_calibration(now: float) -> Calibration:
    """What the last ranges teach, by how the starts lay in them before they were calibrated."""
    told = Forecast.objects.filter(raw_p10__isnull=False, raw_p90__isnull=False).order_by("-made_at")
    rows = told.values_list("made_at", "raw_p10", "raw_p90", "started_at")[:MOST_PAST]
    return calibrate(
        Past(made.timestamp(), p10.timestamp(), p90.timestamp(), started.timestamp() if started else now, not started)
        for made, p10, p90, started in rows
        if p10 and p90
    )


def forecasts_of(jobs: list[Job]) -> dict[int, Told]:
    """{job id: what is told of its newest attempt}, of jobs that wait and of which something is known."""
    told = Forecast.objects.filter(job__in=[job.pk for job in jobs], attempt=F("job__attempt"), p10__isnull=False)
    return {row.job_id: Told(row.p10, row.p50, row.p90, row.told_at) for row in told}


def coverage() -> Coverage | None:
    """None while nothing that was foretold has started. A job that waits beyond its range counts: it is late."""
    now = timezone.now()
    told = Forecast.objects.filter(first_p90__isnull=False)
    started = told.filter(started_at__gt=now - MEASURED)
    inside = started.filter(started_at__gte=F("first_p10") - SLACK, started_at__lte=F("first_p90") + SLACK)
    starts = started.count() + told.filter(started_at__isnull=True, first_p90__lt=now - SLACK).count()
    return Coverage(starts, round(100 * inside.count() / starts)) if starts else None


def tell(found: Range, now: float) -> Told:
    """A range of the core as moments."""
    p10, p50, p90 = (_moment(seconds) for seconds in (found.p10, found.p50, found.p90))
    return Told(p10, p50, p90, datetime.fromtimestamp(now, UTC))


def note_starts() -> None:
    """When the foretold attempts got their places; those that ended without, and all that are old, are forgotten."""
    attempt = Task.objects.filter(job=OuterRef("job"), attempt=OuterRef("attempt")).order_by()
    assigned = attempt.values("job").annotate(at=Min("assigned_at")).values("at")
    open_rows = Forecast.objects.filter(started_at__isnull=True).exclude(
        Q(job__state=JobState.QUEUED) & Q(attempt=F("job__attempt"))
    )
    open_rows.update(started_at=Subquery(assigned))
    gone = Q(started_at__isnull=True) & ~(Q(job__state=JobState.QUEUED) & Q(attempt=F("job__attempt")))
    Forecast.objects.filter(gone | Q(started_at__lt=timezone.now() - MEASURED)).delete()


def _first_in_line() -> dict[int, int]:
    """{job id: attempt} of the first in line of each pool."""
    rows = Job.objects.waiting().filter(wait_position__lte=FIRST, held_at__isnull=True, stop_requested_at__isnull=True)
    return dict(rows.values_list("pk", "attempt"))


def _tell(first: dict[int, int], ranges: dict[int, Range], calibration: Calibration) -> None:
    """The ranges are as the futures gave them; both are kept, what is told and what the next are calibrated by."""
    now = timezone.now()
    known = {row.job_id: row for row in Forecast.objects.filter(job__in=first) if row.attempt == first[row.job_id]}
    fresh, changed = [], []
    for job, raw in ranges.items():
        found = calibration.of(raw, now.timestamp())
        p10, p50, p90 = (_moment(seconds) for seconds in (found.p10, found.p50, found.p90))
        if row := known.get(job):
            row.told_at, row.p10, row.p50, row.p90 = now, p10, p50, p90
            changed.append(row)
        elif p10 is not None:
            told = {"told_at": now, "p10": p10, "p50": p50, "p90": p90}
            told |= {"raw_p10": _moment(raw.p10), "raw_p90": _moment(raw.p90)}
            fresh.append(Forecast(job_id=job, attempt=first[job], made_at=now, first_p10=p10, first_p90=p90, **told))
    Forecast.objects.bulk_create(fresh, ignore_conflicts=True)
    Forecast.objects.bulk_update(changed, ["told_at", "p10", "p50", "p90"])


def _moment(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if isfinite(seconds) else None
