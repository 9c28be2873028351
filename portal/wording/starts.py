"""Forecast start and length of a job in words."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import ceil, floor

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from cluster.models import Pool
from common.resources import show_duration
from portal.wording.time_of_day import clock
from scheduler.preview.stored_forecasts import LEAST_UNTIMED, PredictedLength, StoredForecast

SAME = timedelta(minutes=1)
"""Ends of a range this close are shown as one time."""
SOON = timedelta(seconds=30)
GRAINS = [(timedelta(minutes=10), 60), (timedelta(hours=1), 300), (timedelta(hours=6), 900)]
"""A range up to this width is told in steps of so many seconds, a wider one in hours."""
HOUR = 3600
LENGTH_GRAINS = [(2 * HOUR, 60), (12 * HOUR, 600), (48 * HOUR, HOUR)]
"""A length up to so many seconds is told in steps of so many, a longer one in days and hours."""
BASES = {
    "same_command": gettext_lazy("as %(whose)s last %(n)s jobs of this name, command and size"),
    "name": gettext_lazy("as %(whose)s last %(n)s jobs of this name"),
    "program": gettext_lazy("as %(whose)s last %(n)s jobs of this command"),
    "image": gettext_lazy("as %(whose)s last %(n)s jobs of this image and size"),
    "size": gettext_lazy("as %(whose)s last %(n)s jobs of this size"),
    "person": gettext_lazy("as %(whose)s last %(n)s jobs"),
    "said_by_person": gettext_lazy("by how long %(whose)s last %(n)s jobs took against what was said"),
    "said_in_pool": gettext_lazy("by how long the last %(n)s jobs of the pool took against what was said"),
    "team_name": gettext_lazy("as the last %(n)s jobs of this name in the team"),
    "team_size": gettext_lazy("as the last %(n)s jobs of this size in the team"),
    "pool_size": gettext_lazy("as the last %(n)s jobs of this size in the pool"),
    "pool": gettext_lazy("as the last %(n)s jobs of the pool"),
}
"""What a predicted length goes by; of whom else, it never says."""


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


def describe_length(told: PredictedLength | None, own: bool) -> str:
    """Return such as "about 2h, as your last 12 jobs of this name"; "" if none is predicted. own: told to the owner."""
    if told is None:
        return ""
    grain = next((step for most, step in LENGTH_GRAINS if told.expected_s <= most), 6 * HOUR)
    about = show_duration(max(round(told.expected_s / grain), 1) * grain)
    whose = _("your") if own else _("the owner's")
    basis = BASES[told.basis] % {"whose": whose, "n": told.count}
    return _("about %(length)s, %(basis)s") % {"length": about, "basis": basis}


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
