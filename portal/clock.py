"""Times of day, as pages say them."""

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format


def clock(moment: datetime, now: datetime | None = None) -> str:
    """The time of day, with the day where it is not today's."""
    local = timezone.localtime(moment)
    same_day = local.date() == timezone.localtime(now).date()
    return date_format(local, "H:i") if same_day else date_format(local, "D H:i")
