"""Times of day for pages."""

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format


def clock(moment: datetime, now: datetime | None = None) -> str:
    """Format as H:M, with weekday unless today."""
    local = timezone.localtime(moment)
    same_day = local.date() == timezone.localtime(now).date()
    return date_format(local, "H:i") if same_day else date_format(local, "D H:i")
