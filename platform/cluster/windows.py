"""When a pool lends its cards: hours of chosen days in the time zone where its people live."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cluster.models import Window

AHEAD = 14
"""So many days are looked at: what is open for longer is open for this long, and longer when the time has come."""
DAY = timedelta(days=1)


def lends_until(now: datetime) -> dict[tuple[int, int], datetime]:
    """{(lender, borrower): until when} of the pools, by their ids, that lend now."""
    windows: dict[tuple[int, int], list[Window]] = {}
    for window in Window.objects.all():
        windows.setdefault((window.lender_id, window.borrower_id), []).append(window)
    found = {pair: open_until(of_pair, now) for pair, of_pair in windows.items()}
    return {pair: until for pair, until in found.items() if until is not None}


def open_until(windows: Iterable[Window], now: datetime) -> datetime | None:
    """Until when at least one of them is open without a break; None where none is open now."""
    until = now
    for begins, ends in sorted(span for window in windows for span in _spans(window, now)):
        if begins <= until:
            until = max(until, ends)
    return until if until > now else None


def _spans(window: Window, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """(begins, ends) of the days around now. One that ends at or before its beginning ends on the next day."""
    zone, holidays = ZoneInfo(window.zone), set(window.holiday_dates)
    first = now.astimezone(zone).date() - DAY
    for day in (first + DAY * count for count in range(AHEAD + 2)):
        if str(day.isoweekday()) in window.weekdays:
            last = day + DAY if window.ends <= window.begins else day
            yield _moment(day, window.begins, zone), _moment(last, window.ends, zone)
        if day in holidays:
            yield _moment(day, time(), zone), _moment(day + DAY, time(), zone)


def _moment(day: date, at: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, at, zone).astimezone(UTC)
