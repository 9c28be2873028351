"""How far back the cluster can be replayed."""

from datetime import datetime, timedelta

from common.errors import FieldError, InvalidInput
from events.models import Event

SPAN = timedelta(days=7)


def find_first(now: datetime) -> datetime:
    """Return the first moment that can be replayed: SPAN ago, or when the platform's history begins."""
    begun = Event.objects.order_by("pk").values_list("at", flat=True).first()
    return max(now - SPAN, min(begun or now, now))


def check_moment(at: datetime, first: datetime, now: datetime) -> datetime:
    """Return a moment from the first that can be replayed until now. Raises InvalidInput."""
    if not first <= at <= now:
        span = {"min": first.isoformat(timespec="seconds"), "max": now.isoformat(timespec="seconds")}
        raise InvalidInput([FieldError("/at", "out_of_range", span)])
    return at
