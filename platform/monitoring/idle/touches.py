"""Minutes in which somebody was at work in a job, by a page of it, a terminal or SSH."""

from datetime import timedelta

from django.utils import timezone

from jobs.models import Task
from monitoring.models import IdleTouch

KEPT = timedelta(days=7)


def record_touch(task: str) -> None:
    """Record that somebody is at work in a task, given by its uuid in hex. The second time in a minute does nothing."""
    job_id = Task.objects.filter(uuid=task).values_list("job_id", flat=True).first()
    if job_id is not None:
        minute = timezone.now().replace(second=0, microsecond=0)
        IdleTouch.objects.bulk_create([IdleTouch(job_id=job_id, at=minute)], ignore_conflicts=True)


def drop_old_touches() -> None:
    IdleTouch.objects.filter(at__lt=timezone.now() - KEPT).delete()
