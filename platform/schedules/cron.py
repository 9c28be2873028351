"""Cron lines: when they come next. Pure.

As Debian's cron does it, by the clock on the wall of the schedule's zone. A line with a fixed minute and hour (neither
begins with *) runs once a day: a time that a change of the clock leaves out runs at the change, one that comes twice
runs the first time. A line whose minute or hour begins with * goes on by elapsed time: it has nothing in the hour that
is left out, and runs in both of those that come twice.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from common.errors import FieldError, InvalidInput
from common.steady_clock import steady_now
from common.text import shorten_text

FIELDS = 5
LONGEST = 100
"""Characters of a line."""


def check_cron(line: str) -> str:
    """Return the line with single spaces. Raises InvalidInput where it is none, or names days that never come."""
    fields = line.split()
    said = {"got": shorten_text(line)}
    if len(fields) != FIELDS or len(line) > LONGEST:
        raise InvalidInput([FieldError("/cron", "bad_cron", said)])
    tidy = " ".join(fields)
    try:
        never = next(iterate_ticks(tidy, "UTC", steady_now()), None) is None
    except CronSimError:
        raise InvalidInput([FieldError("/cron", "bad_cron", said)]) from None
    if never:
        raise InvalidInput([FieldError("/cron", "cron_never", said)])
    return tidy


def iterate_ticks(line: str, zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the moments of a line after another moment, in order."""
    last = after
    for local in CronSim(line, after.astimezone(ZoneInfo(zone))):
        at = local.astimezone(UTC)
        if at > last:  # of an hour that comes twice the library also tells the first time where the second has begun
            yield at
            last = at


def list_next_ticks(line: str, zone: str, after: datetime, count: int) -> list[datetime]:
    return list(islice(iterate_ticks(line, zone, after), count))


def find_last_tick(line: str, zone: str, first: datetime, until: datetime) -> datetime:
    """Return the newest moment of a line that is not after `until`; `first`, its first one, where there is no other.

    Looks backward for a start, as a line of each minute may not have been looked at for a year.
    """
    nearby = next(CronSim(line, (until + timedelta(seconds=1)).astimezone(ZoneInfo(zone)), reverse=True), first)
    last = first
    for at in iterate_ticks(line, zone, max(nearby.astimezone(UTC), first) - timedelta(seconds=1)):
        if at > until:
            break
        last = at
    return last


def describe_cron(line: str) -> str:
    """Say a line in English words: "At 02:30 on Monday"."""
    return CronSim(line, steady_now()).explain()
