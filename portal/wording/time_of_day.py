"""Times of day for pages."""

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format


def name_moment(moment: datetime) -> str:
    """Return day, time and zone of the reader: "Nov. 28, 2026, 5:43 p.m. (UTC)"."""
    local = date_format(timezone.localtime(moment), "DATETIME_FORMAT")
    return f"{local} ({timezone.get_current_timezone_name()})"


def clock(moment: datetime, now: datetime | None = None) -> str:
    """Format as H:M, with weekday unless today."""
    local = timezone.localtime(moment)
    same_day = local.date() == timezone.localtime(now).date()
    return date_format(local, "H:i") if same_day else date_format(local, "D H:i")
