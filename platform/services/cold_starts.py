"""How long replicas took to answer, and in which part of their start: kept as each comes up, shown for each service."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from common.steady_clock import steady_now
from jobs.models import Task
from services.models import ColdStart, Replica, Service

KEPT_DAYS = 90
MEDIAN_OF = 20
PARTS = ("queue", "data", "image", "program")
"""In the order in which they follow each other."""


@dataclass(frozen=True)
class StartParts:
    """The parts of a start, in seconds: see `services.models.ColdStart`."""

    queue_s: float
    data_s: float
    image_s: float
    program_s: float


@dataclass(frozen=True)
class ColdStarts:
    """last: the newest starts, newest first. median: of each part, over these; None if there was no start yet."""

    last: Sequence[ColdStart]
    median: StartParts | None


def split_start(
    waits_from: datetime, assigned_at: datetime, fetch_began_at: datetime | None, started_at: datetime, at: datetime
) -> StartParts:
    """Return the parts of a start. at: when the program answered. fetch_began_at: by the machine's own clock."""
    has_data_at = min(max(fetch_began_at or started_at, assigned_at), started_at)
    moments = (waits_from, assigned_at, has_data_at, started_at, at)
    return StartParts(*(max((end - begin).total_seconds(), 0.0) for begin, end in pairwise(moments)))


def record_cold_start(replica: Replica, task: Task, at: datetime) -> None:
    """Keep how long a replica took whose program answers since `at`, in the task that runs now."""
    assert task.assigned_at and task.started_at  # it runs
    parts = split_start(task.job.waits_from, task.assigned_at, task.fetch_began_at, task.started_at, at)
    ColdStart.objects.create(
        service_id=replica.service_id, revision_id=replica.revision_id, job=task.job, at=at, **vars(parts)
    )


def load_cold_starts(service: Service) -> ColdStarts:
    """Return the newest MEDIAN_OF starts of a service and their medians."""
    last = list(service.cold_starts.select_related("job", "revision")[:MEDIAN_OF])
    return ColdStarts(last, _find_median(last) if last else None)


def drop_old_cold_starts() -> None:
    ColdStart.objects.filter(at__lt=steady_now() - timedelta(days=KEPT_DAYS)).delete()


def _find_median(rows: Sequence[ColdStart]) -> StartParts:
    return StartParts(*(median(getattr(row, f"{part}_s") for row in rows) for part in PARTS))
