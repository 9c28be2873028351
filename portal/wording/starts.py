"""Forecast start of a job in words."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import ceil, floor

from django.utils import timezone
from django.utils.translation import gettext as _

from cluster.models import Pool
from portal.wording.time_of_day import clock
from scheduler.preview.stored_forecasts import LEAST_UNTIMED, StoredForecast

SAME = timedelta(minutes=1)
"""Ends of a range this close are shown as one time."""
SOON = timedelta(seconds=30)
GRAINS = [(timedelta(minutes=10), 60), (timedelta(hours=1), 300), (timedelta(hours=6), 900)]
"""A range up to this width is told in steps of so many seconds, a wider one in hours."""
HOUR = 3600


def describe_start(told: StoredForecast | None, now: datetime | None = None) -> str:
    """Return such as "14:10 to 15:30, likely 14:25" or "not before 14:10"; "" if unknown."""
    now = now or timezone.now()
    if told is None or told.p10 is None:
        return ""
    if told.p50 is None:
        return _("not before %(first)s") % {"first": clock(told.p10, now)}
    if told.p90 is None:
        grain = _choose_grain(told.p50 - told.p10)
        return _("%(first)s or later, likely %(likely)s") % {
            "first": clock(max(_round_to(told.p10, grain, floor), now), now),
            "likely": clock(max(_round_to(told.p50, grain, round), now), now),
        }
    if told.p90 - now < SOON:
        return _("in a moment")
    if told.p90 - told.p10 < SAME:
        return _("about %(likely)s") % {"likely": clock(told.p50, now)}
    grain = _choose_grain(told.p90 - told.p10)
    return _("%(first)s to %(last)s, likely %(likely)s") % {
        "first": clock(max(_round_to(told.p10, grain, floor), now), now),
        "last": clock(_round_to(told.p90, grain, ceil), now),
        "likely": clock(max(_round_to(told.p50, grain, round), now), now),
    }


def describe_unknown_start(pool: Pool) -> str:
    """Say why no start can be forecast, and what would change that."""
    return _(
        "When it starts is not known yet: jobs without a `time` run in %(pool)s, and fewer than %(n)s such jobs have "
        "ended to tell how long they take."
    ) % {"pool": pool.name, "n": LEAST_UNTIMED}


def _choose_grain(width: timedelta) -> int:
    """Return the step, in seconds, that a range of this width deserves."""
    return next((step for most, step in GRAINS if width <= most), HOUR)


def _round_to(at: datetime, step: int, way: Callable[[float], int]) -> datetime:
    return datetime.fromtimestamp(way(at.timestamp() / step) * step, UTC)
