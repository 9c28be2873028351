"""Time zones by their IANA names, and that of a person."""

from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings

NO_PLACES = frozenset({"Factory", "localtime"})
"""What a machine's zones name besides: an unset clock, and the machine's own."""


@cache
def list_zones() -> tuple[str, ...]:
    """Return the names in order; read once, as each reading walks through a thousand files."""
    return tuple(sorted(available_timezones() - NO_PLACES))


def is_zone(name: str) -> bool:
    return name in list_zones()


def zone_of(person: object) -> ZoneInfo:
    """Return the zone that a person chose, else the site's: also for nobody, and for a zone that exists no more."""
    chosen = getattr(person, "time_zone", "")
    return ZoneInfo(chosen if is_zone(chosen) else settings.TIME_ZONE)
