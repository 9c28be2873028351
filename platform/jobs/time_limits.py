"""Warn owners before a time limit, once per attempt, and cancel what waited too long.

For notebooks see notebooks.tasks.
"""

from datetime import timedelta

from django.db import transaction
from django.db.models import DurationField, Exists, ExpressionWrapper, F, OuterRef, QuerySet

from common.locks import database_now, lock_rows
from events.models import Event
from events.notices import notify
from events.record_and_publish import SYSTEM, record
from jobs.control import end_jobs
from jobs.models import Job, JobKind
from jobs.states import JobState

WARN_BEFORE = timedelta(minutes=15)
MOST_AT_ONCE = 500
LEAST_LIMIT_S = 2 * WARN_BEFORE.total_seconds()
"""Nobody is warned of a shorter time limit."""


def warn_of_ends() -> None:
    for job in _ending():
        _warn(job)


@transaction.atomic
def give_up_waits() -> None:
    """Cancel jobs that have not started within `wait_max`."""
    late = Job.objects.filter(state=JobState.QUEUED, stop_requested_at=None, give_up_at__lte=database_now())
    some = list(late.order_by("pk").values_list("pk", flat=True)[:MOST_AT_ONCE])
    if some and (jobs := lock_rows(late.filter(pk__in=some))):  # without those that started meanwhile
        end_jobs(by=SYSTEM, jobs=jobs, reason="waited_too_long")


def _ending() -> QuerySet[Job]:
    """Return unwarned jobs near their limit, except very short limits."""
    now = database_now()
    limit = ExpressionWrapper(F("max_time_s") * timedelta(seconds=1), output_field=DurationField())
    told = Event.objects.filter(
        kind=Job.KIND, object_id=OuterRef("pk"), verb="about_to_end", at__gt=OuterRef("started_at")
    )
    running = Job.objects.filter(state=JobState.RUNNING, started_at__isnull=False, max_time_s__gte=LEAST_LIMIT_S)
    soon = running.alias(ends_at=F("started_at") + limit).filter(ends_at__gt=now, ends_at__lte=now + WARN_BEFORE)
    return soon.exclude(kind=JobKind.INTERACTIVE).filter(~Exists(told), stop_requested_at=None).select_related("user")


@transaction.atomic
def _warn(job: Job) -> None:
    row = next(iter(lock_rows(_ending().filter(pk=job.pk))), None)
    if row is None or row.started_at is None:
        return
    at = (row.started_at + timedelta(seconds=row.max_time_s or 0)).isoformat()
    record(row, "about_to_end", actor=SYSTEM, params={"at": at})
    notify(user_id=row.user_id, kind="about_to_end", about=row, params={"at": at, "name": row.name})
