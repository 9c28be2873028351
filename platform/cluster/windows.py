"""Lending windows of pools, as spans of time."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cluster.models import Window

AHEAD = 14
"""How many days ahead windows are expanded into spans."""
DAY = timedelta(days=1)


Span = tuple[datetime, datetime]
"""(begin, end) of lending."""


def load_spans(now: datetime) -> dict[tuple[int, int], list[Span]]:
    """Return {(lender id, borrower id): spans}."""
    windows: dict[tuple[int, int], list[Window]] = {}
    for window in load_hours():
        windows.setdefault((window.lender_id, window.borrower_id), []).append(window)
    return {pair: spans_of(of_pair, now) for pair, of_pair in windows.items()}


def load_hours() -> list[Window]:
    return list(Window.objects.all())


def lends_until(now: datetime) -> dict[tuple[int, int], datetime]:
    """Return {(lender id, borrower id): end} of pools that lend now."""
    return {pair: spans[0][1] for pair, spans in load_spans(now).items() if spans and spans[0][0] <= now}


def spans_of(windows: Iterable[Window], now: datetime) -> list[Span]:
    """Merge windows into spans, in order, from now."""
    found: list[Span] = []
    for begins, ends in sorted(span for window in windows for span in _spans(window, now)):
        if found and begins <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], ends)
        else:
            found.append((begins, ends))
    return [span for span in found if span[1] > now]


def open_until(windows: Iterable[Window], now: datetime) -> datetime | None:
    """Return until when a window stays open, or None."""
    spans = spans_of(windows, now)
    return spans[0][1] if spans and spans[0][0] <= now else None


def _spans(window: Window, now: datetime) -> Iterator[Span]:
    """Yield (begin, end) of the days around now."""
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
