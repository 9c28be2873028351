"""Whether the scheduler looks at the queue. A page that shows waiting work says so when it does not."""

from datetime import datetime, timedelta

from django.utils import timezone

from scheduler.preview import last_cycle

LATE_AFTER = timedelta(seconds=60)


def scheduler_late() -> bool:
    """No pass has ended within the last minute. Submits are accepted all the same, and wait."""
    last = last_pass()
    return last is None or timezone.now() - last > LATE_AFTER


def last_pass() -> datetime | None:
    lease = last_cycle()
    return lease.last_ok_at if lease else None
