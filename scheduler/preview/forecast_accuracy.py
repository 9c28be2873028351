"""How right the first told starts were, by group: of attempts of jobs that started in a period."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Min

from monitoring.reports.waits import GROUPS, SIZE, SIZES
from monitoring.usage.report import Period
from scheduler.models import Forecast
from scheduler.preview.stored_forecasts import SLACK

ACCURACY_GROUPS = {by: GROUPS[by] for by in ("pool", "size", "team")}


@dataclass(frozen=True)
class Accuracy:
    """starts: that were told before. ranged: of them, with a range that had an end; inside, early, late are of these.
    p50_s, p90_s: half, and nine of ten, were wrong by at most so long; None where there are none.
    """

    starts: int = 0
    ranged: int = 0
    inside: int = 0
    early: int = 0
    p50_s: float | None = None
    p90_s: float | None = None

    @property
    def late(self) -> int:
        return self.ranged - self.inside - self.early

    def percent(self, name: str) -> float | None:
        """Return how many of those with a range were "inside", "early" or "late"."""
        return 100 * getattr(self, name) / self.ranged if self.ranged else None


@dataclass(frozen=True)
class AccuracyReport:
    """groups: those with most starts first, sizes by size. since: the oldest told start that is kept; None is none.
    left_out: further groups.
    """

    by: str
    period: Period
    complete_to: datetime
    groups: dict[str, Accuracy]
    total: Accuracy
    since: datetime | None
    left_out: int


def sum_accuracy(by: str, period: Period, now: datetime, teams: Collection[int] | None, most: int) -> AccuracyReport:
    """Sum the starts of a period that were told before. by: key of ACCURACY_GROUPS. most: groups.

    teams: ids of the teams that count; None is all.
    """
    name, tables = ACCURACY_GROUPS[by]
    edge = min(period.ends, now)
    asked: dict[str, Any] = {"begins": period.begins, "edge": edge, "slack": SLACK}
    asked["teams"] = None if teams is None else sorted(teams)
    with connection.cursor() as cursor:
        cursor.execute(QUERY % {"name": SIZE if by == "size" else name, "tables": tables}, asked)
        rows = {(row[0], row[1]): _read(row[2:]) for row in cursor}
    total = rows.pop((1, None), Accuracy())
    found = {str(name): accuracy for (_, name), accuracy in rows.items()}
    groups = dict(sorted(found.items(), key=lambda group: _place(by, *group)))
    shown = dict(list(groups.items())[:most])
    since = Forecast.objects.filter(first_p50__isnull=False).aggregate(since=Min("made_at"))["since"]
    return AccuracyReport(by, period, edge, shown, total, since, len(groups) - len(shown))


def _place(by: str, name: str, accuracy: Accuracy) -> tuple[int, str]:
    return (SIZES.index(name), "") if by == "size" else (-accuracy.starts, name)


def _read(values: Sequence[Any]) -> Accuracy:
    starts, ranged, inside, early, wrong = values
    half, most = wrong or (None, None)
    return Accuracy(starts, ranged, inside, early, half, most)


QUERY = """
WITH told AS MATERIALIZED (
    SELECT %(name)s AS name, f.first_p10 - %%(slack)s AS begins, f.first_p90 + %%(slack)s AS ends, f.started_at,
        abs(extract(epoch FROM f.started_at - f.first_p50))::float8 AS wrong_s
    FROM scheduler_forecast f
    JOIN jobs_job j ON j.id = f.job_id
    %(tables)s
    WHERE f.started_at >= %%(begins)s AND f.started_at < %%(edge)s AND f.first_p50 IS NOT NULL
        AND (%%(teams)s::bigint[] IS NULL OR j.team_id = ANY(%%(teams)s::bigint[]))
)
SELECT grouping(name), name, count(*), count(ends),
    count(*) FILTER (WHERE started_at BETWEEN begins AND ends),
    count(*) FILTER (WHERE started_at < begins AND ends IS NOT NULL),
    percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY wrong_s)
FROM told GROUP BY GROUPING SETS ((name), ())
"""
