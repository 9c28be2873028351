"""How often each key and browsers called a service, by day: gateways add what they counted, in batches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from django.db import connection

from common.steady_clock import steady_now
from services.models import CallCount, Service

KEPT_DAYS = 400
WEEK = timedelta(days=7)
ADD = """
INSERT INTO services_callcount AS kept (service_id, day, key, name, requests, errors)
SELECT * FROM unnest(%s::bigint[], %s::date[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[])
ON CONFLICT (service_id, day, key) DO UPDATE
SET requests = kept.requests + EXCLUDED.requests, errors = kept.errors + EXCLUDED.errors, name = EXCLUDED.name
"""


@dataclass(frozen=True, order=True)
class Calls:
    """Whose requests are counted. key: as `services.models.CallCount` has it. name: of the key."""

    service: int
    key: int
    name: str = ""


@dataclass(frozen=True)
class CallerUsage:
    """Requests of a caller today, within seven and within all days that were asked for; errors of all these days."""

    key: int
    name: str
    today: int
    week: int
    all: int
    errors: int


def add_usage(day: date, counted: Mapping[Calls, tuple[int, int]]) -> None:
    """Add requests and errors to what is kept of a day."""
    rows = [(one.service, day, one.key, one.name, *counts) for one, counts in sorted(counted.items())]
    with connection.cursor() as cursor:
        cursor.execute(ADD, [list(column) for column in zip(*rows, strict=True)])


def list_usage(service: Service, days: int) -> list[CallCount]:
    """Return what was counted in the last days, newest first."""
    return list(service.call_counts.filter(day__gt=steady_now().date() - timedelta(days=days)))


def sum_usage(rows: Iterable[CallCount], today: date) -> list[CallerUsage]:
    """Sum by caller, the busiest first."""
    of_caller: dict[int, list[CallCount]] = {}
    for row in rows:
        of_caller.setdefault(row.key, []).append(row)
    summed = [_sum(mine, today) for mine in of_caller.values()]
    return sorted(summed, key=lambda one: (-one.all, one.name))


def drop_old_usage() -> None:
    CallCount.objects.filter(day__lt=steady_now().date() - timedelta(days=KEPT_DAYS)).delete()


def _sum(rows: Sequence[CallCount], today: date) -> CallerUsage:
    newest = max(rows, key=lambda row: row.day)
    return CallerUsage(
        key=newest.key,
        name=newest.name,
        today=sum(row.requests for row in rows if row.day == today),
        week=sum(row.requests for row in rows if row.day > today - WEEK),
        all=sum(row.requests for row in rows),
        errors=sum(row.errors for row in rows),
    )
