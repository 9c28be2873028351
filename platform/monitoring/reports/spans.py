"""Which part of a period is read from sums of days, and which from holdings. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Span:
    """A part of the period with this number that is read from holdings. of: "open" are those that are in no sum of a
    day, "settled" those that are, "all" both. leads: it begins with its period.
    """

    slot: int
    begins: datetime
    ends: datetime
    of: str
    leads: bool


@dataclass(frozen=True)
class Days:
    """Whole days of the period with this number: first <= day < until. leads: they begin with it."""

    slot: int
    first: date
    until: date
    leads: bool


def split_periods(periods: Iterable[tuple[datetime, datetime]], now: datetime) -> tuple[list[Span], list[Days]]:
    """Split periods, numbered from 0. What is in a sum ended before now: today is whole in a period up to now."""
    spans: list[Span] = []
    days: list[Days] = []
    for slot, (begins, ends) in enumerate(periods):
        first = find_midnight(begins + DAY - timedelta(microseconds=1))
        until = find_midnight(now) + DAY if ends >= now else find_midnight(ends)
        if first >= until:
            spans.append(Span(slot, begins, ends, "all", leads=True))
            continue
        spans.append(Span(slot, begins, ends, "open", leads=True))
        days.append(Days(slot, first.date(), until.date(), leads=begins == first))
        if begins < first:
            spans.append(Span(slot, begins, first, "settled", leads=True))
        if until < min(ends, now):
            spans.append(Span(slot, until, ends, "settled", leads=False))
    return spans, days


def find_midnight(at: datetime) -> datetime:
    """Return when its day began, in UTC."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
