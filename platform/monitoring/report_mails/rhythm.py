"""When a report is due, and of what time it tells. Pure."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from monitoring.models import Rhythm
from monitoring.usage.report import Period

DAY = timedelta(days=1)


def find_next(rhythm: str, hour: int, zone: str, after: datetime) -> datetime:
    """Return the first moment after `after` at which a report is due: when it is that hour there for the first time
    since a week (which ends on Monday, 00:00 UTC) or a month was over.
    """
    end = find_period(rhythm, after).ends
    while (due := _first_hour(end, hour, zone)) <= after:
        end = _next_end(rhythm, end)
    return due


def find_period(rhythm: str, at: datetime) -> Period:
    """Return the newest week or month, of whole days in UTC, that was over at a moment."""
    today = datetime.combine(at.astimezone(UTC).date(), time(), UTC)
    if rhythm == Rhythm.WEEKLY:
        ends = today - today.weekday() * DAY
        return Period(ends - 7 * DAY, ends)
    ends = today.replace(day=1)
    return Period((ends - DAY).replace(day=1), ends)


def _next_end(rhythm: str, end: datetime) -> datetime:
    return end + 7 * DAY if rhythm == Rhythm.WEEKLY else (end + 31 * DAY).replace(day=1)


def _first_hour(end: datetime, hour: int, zone: str) -> datetime:
    """Return when it is that hour in a zone for the first time from `end` on."""
    local = end.astimezone(ZoneInfo(zone))
    due = local.replace(hour=hour, minute=0, second=0, microsecond=0)
    if due.astimezone(UTC) < end:
        due = (local + DAY).replace(hour=hour, minute=0, second=0, microsecond=0)
    return due.astimezone(UTC)
