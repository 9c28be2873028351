"""Forecast start of a job in words."""

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.translation import gettext as _

from portal.wording.clock import clock
from scheduler.preview.stored_forecasts import StoredForecast

SAME = timedelta(minutes=1)
"""Ends of a range this close are shown as one time."""
SOON = timedelta(seconds=30)


def describe_start(told: StoredForecast | None, now: datetime | None = None) -> str:
    """Return such as "14:10 to 15:30, likely 14:25" or "not before 14:10"; "" if unknown."""
    now = now or timezone.now()
    if told is None or told.p10 is None:
        return ""
    if told.p50 is None:
        return _("not before %(first)s") % {"first": clock(told.p10, now)}
    if told.p90 is None:
        return _("%(first)s or later, likely %(likely)s") % {
            "first": clock(told.p10, now),
            "likely": clock(told.p50, now),
        }
    if told.p90 - now < SOON:
        return _("in a moment")
    if told.p90 - told.p10 < SAME:
        return _("about %(likely)s") % {"likely": clock(told.p50, now)}
    return _("%(first)s to %(last)s, likely %(likely)s") % {
        "first": clock(max(told.p10, now), now),
        "last": clock(told.p90, now),
        "likely": clock(max(told.p50, now), now),
    }
