"""Forecast the starts of waiting jobs now and then, and store the forecasts."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from math import inf, isfinite

from django.db.models import F, Min, OuterRef, Q, Subquery

from common.steady_clock import steady_now, steady_time
from jobs.models import Job, Task
from jobs.states import JobState
from scheduler.core.forecast.calibration import MAX_PAST_FORECASTS, Calibration, PastForecast, fit_calibration
from scheduler.core.forecast.start_forecast import build_ranges, simulate_future
from scheduler.core.forecast.told_range import revise_told_range
from scheduler.core.model.types import StartRange
from scheduler.core.queueing.cycle_context import CycleMemo
from scheduler.loading.snapshots import load_world
from scheduler.models import Forecast
from scheduler.preview.stored_forecasts import KEPT, MEASURED, StoredForecast, load_run_times

FIRST = 60
"""How many of the first jobs in line of each pool are forecast; those behind wait for them anyway."""
FUTURES = 20
BUDGET_S = 2.0
"""Time per round in seconds; a slow machine simulates fewer futures, but at least LEAST."""
LEAST = 5


def record_forecasts() -> None:
    """Store forecasts for the first in line, and actual starts."""
    record_starts()
    first = _first_in_line()
    if not first:
        return
    world = load_world()
    snapshot = replace(world.snapshot, waiting=tuple(job for job in world.snapshot.waiting if job.job in first))
    now, run_times, began = steady_time(), load_run_times(), time.monotonic()
    calibration = load_calibration(now)
    futures: list[dict[int, float]] = []
    memory = CycleMemo(explains=False)
    while len(futures) < FUTURES and (len(futures) < LEAST or time.monotonic() - began < BUDGET_S):
        futures.append(simulate_future(snapshot, world.policy, now, run_times, len(futures), memory))
    _store_forecasts(first, build_ranges(snapshot, futures), calibration)


def load_calibration(now: float) -> Calibration:
    """Calibrate by starts relative to uncalibrated ranges."""
    lately = Q(started_at__isnull=True) | Q(started_at__gt=steady_now() - MEASURED)
    told = Forecast.objects.filter(lately, raw_p10__isnull=False, raw_p90__isnull=False).order_by("-made_at")
    rows = told.values_list("made_at", "raw_p10", "raw_p90", "started_at")[:MAX_PAST_FORECASTS]
    return fit_calibration(
        PastForecast(
            made.timestamp(), p10.timestamp(), p90.timestamp(), started.timestamp() if started else now, not started
        )
        for made, p10, p90, started in rows
        if p10 and p90
    )


def build_forecast(found: StartRange, now: float) -> StoredForecast:
    return StoredForecast(*_moments(found), datetime.fromtimestamp(now, UTC))


def record_starts() -> None:
    """Store actual starts; delete obsolete rows."""
    attempt = Task.objects.filter(job=OuterRef("job"), attempt=OuterRef("attempt")).order_by()
    assigned = attempt.values("job").annotate(at=Min("assigned_at")).values("at")
    open_rows = Forecast.objects.filter(started_at__isnull=True).exclude(
        Q(job__state=JobState.QUEUED) & Q(attempt=F("job__attempt"))
    )
    open_rows.update(started_at=Subquery(assigned))
    gone = Q(started_at__isnull=True) & ~(Q(job__state=JobState.QUEUED) & Q(attempt=F("job__attempt")))
    Forecast.objects.filter(gone | Q(started_at__lt=steady_now() - KEPT)).delete()


def _first_in_line() -> dict[int, int]:
    """Return {job id: attempt}."""
    rows = Job.objects.waiting().filter(wait_position__lte=FIRST, held_at__isnull=True, stop_requested_at__isnull=True)
    return dict(rows.values_list("pk", "attempt"))


def _store_forecasts(first: dict[int, int], ranges: dict[int, StartRange], calibration: Calibration) -> None:
    """Store calibrated and raw ranges; what was told before stays while it holds."""
    now = steady_now()
    known = {row.job_id: row for row in Forecast.objects.filter(job__in=first) if row.attempt == first[row.job_id]}
    fresh, changed = [], []
    for job, raw in ranges.items():
        row, found = known.get(job), calibration.apply(raw, now.timestamp())
        told = revise_told_range(_told_range(row), found, now.timestamp()) if row else found
        columns = dict(zip(("p10", "p50", "p90"), _moments(told), strict=True)) | {"told_at": now}
        if row:
            for name, value in columns.items():
                setattr(row, name, value)
            changed.append(row)
        elif columns["p10"] is not None:
            columns |= {f"first_{name}": columns[name] for name in ("p10", "p50", "p90")}
            columns |= {"raw_p10": _moment(raw.p10), "raw_p90": _moment(raw.p90)}
            fresh.append(Forecast(job_id=job, attempt=first[job], made_at=now, **columns))
    Forecast.objects.bulk_create(fresh, ignore_conflicts=True)
    Forecast.objects.bulk_update(changed, ["told_at", "p10", "p50", "p90"])


def _told_range(row: Forecast) -> StartRange:
    return StartRange(*(at.timestamp() if at else inf for at in (row.p10, row.p50, row.p90)))


def _moments(found: StartRange) -> tuple[datetime | None, datetime | None, datetime | None]:
    return _moment(found.p10), _moment(found.p50), _moment(found.p90)


def _moment(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if isfinite(seconds) else None
