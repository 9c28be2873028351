"""Whether the scheduler runs on time."""

from datetime import datetime, timedelta

from django.utils import timezone

from scheduler.preview.stored_forecasts import last_cycle

LATE_AFTER = timedelta(seconds=60)


def scheduler_late() -> bool:
    """Whether no cycle ended in the last minute."""
    last = last_pass()
    return last is None or timezone.now() - last > LATE_AFTER


def last_pass() -> datetime | None:
    lease = last_cycle()
    return lease.last_ok_at if lease else None
