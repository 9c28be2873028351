"""How long jobs waited for their start, by group: from tasks, jobs and events, and of nothing else.

A wait begins with the submit, a new try or the release of a held job, whichever is last, and ends once the tasks are
placed. One that ended without a start and one that goes on count apart, so that none is left out.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from monitoring.usage.report import Period

SIZES = ("none", "part", "1", "2-4", "5-8", "9+")
"""GPUs of all tasks of a job; part: of one card each."""
GROUPS = {
    "size": ("''", ""),
    "team": ("team.name", "JOIN accounts_team team ON team.id = j.team_id"),
    "user": ("person.username", "JOIN accounts_user person ON person.id = j.user_id"),
    "pool": ("pool.name", "JOIN cluster_pool pool ON pool.id = j.pool_id"),
    "kind": ("j.kind", ""),
}
"""{group: (its name, the tables that have it)}."""
KINDS = ("started", "again", "waiting", "gave_up")


@dataclass(frozen=True)
class Waits:
    """Of so many jobs. p50_s, p90_s: half, and nine of ten, waited at most so long; None where there are none."""

    jobs: int = 0
    p50_s: float | None = None
    p90_s: float | None = None
    longest_s: float | None = None


@dataclass(frozen=True)
class WaitSums:
    """started: first starts. again: starts of later tries. waiting: so far, at the end of the period. gave_up: ended
    before a start.
    """

    started: Waits = Waits()
    again: Waits = Waits()
    waiting: Waits = Waits()
    gave_up: Waits = Waits()


@dataclass(frozen=True)
class WaitReport:
    """groups: those with most starts first, sizes by size. by_size: the same by SIZES. left_out: further groups."""

    by: str
    period: Period
    complete_to: datetime
    groups: dict[str, WaitSums]
    by_size: dict[str, WaitSums]
    total: WaitSums
    left_out: int


def sum_waits(by: str, period: Period, now: datetime, teams: Collection[int] | None, most: int) -> WaitReport:
    """Sum the waits that ended in a period, and those that went on at its end. by: key of GROUPS. most: groups.

    teams: ids of the teams that count; None is all.
    """
    name, tables = GROUPS[by]
    edge = min(period.ends, now)
    asked: dict[str, Any] = {"begins": period.begins, "edge": edge}
    asked["teams"] = None if teams is None else sorted(teams)
    with connection.cursor() as cursor:
        cursor.execute(QUERY % {"name": name, "tables": tables}, asked)
        rows = cursor.fetchall()
    sizes = {row[1]: _read_sums(row[3:]) for row in rows if row[0] == "size"}
    by_size = {size: sizes[size] for size in SIZES if size in sizes}
    groups = by_size if by == "size" else {row[2]: _read_sums(row[3:]) for row in rows if row[0] == "name"}
    ordered = groups if by == "size" else dict(sorted(groups.items(), key=_by_starts))
    total = next((_read_sums(row[3:]) for row in rows if row[0] == "all"), WaitSums())
    shown = dict(list(ordered.items())[:most])
    return WaitReport(by, period, edge, shown, by_size, total, len(ordered) - len(shown))


def _by_starts(group: tuple[str, WaitSums]) -> tuple[int, int, str]:
    name, sums = group
    return -sums.started.jobs - sums.again.jobs, -sums.waiting.jobs, name


def _read_sums(values: Sequence[Any]) -> WaitSums:
    found = []
    for place in range(0, len(values), 3):
        jobs, (half, most), longest = values[place], values[place + 1] or (None, None), values[place + 2]
        found.append(Waits(jobs, half, most, longest))
    return WaitSums(*found)


_OF_KIND = """
    count(*) FILTER (WHERE what = '{0}'),
    percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY waited_s) FILTER (WHERE what = '{0}'),
    max(waited_s) FILTER (WHERE what = '{0}')"""
SIZE = """(
        SELECT CASE WHEN sum(cards) > 8 THEN '9+' WHEN sum(cards) > 4 THEN '5-8' WHEN sum(cards) > 1 THEN '2-4'
            WHEN sum(cards) = 1 THEN '1' WHEN bool_or(part) THEN 'part' ELSE 'none' END
        FROM jsonb_array_elements(gang) role,
            regexp_replace(role -> 'request' ->> 'gpu', '^.*:', '') amount,
            CAST(amount ~ '^([0-9.]+GB|.*/[0-9]+)$' AS boolean) part,
            CAST(CASE WHEN part THEN 0 WHEN amount ~ '^[0-9]+$' THEN amount::int ELSE 1 END
                * (role ->> 'min')::int AS int) cards
    )"""
"""One of SIZES, of a column `gang`."""
QUERY = """
WITH try AS MATERIALIZED (
    SELECT job_id, attempt, min(assigned_at) AS placed_at, coalesce(min(assigned_at), max(ended_at)) AS over_at
    FROM jobs_task
    WHERE rank = 0 AND coalesce(assigned_at, ended_at, 'infinity') >= %%(begins)s
    GROUP BY job_id, attempt
), released AS MATERIALIZED (
    SELECT try.job_id, attempt, max(e.at) AS at FROM try
    JOIN events_event e ON e.kind = 'job' AND e.verb = 'released' AND e.object_id = try.job_id
        AND e.at <= coalesce(over_at, e.at)
    GROUP BY try.job_id, attempt
), wait AS MATERIALIZED (
    SELECT %(name)s AS name, j.gang, try.attempt, placed_at, least(over_at, %%(edge)s) AS until,
        coalesce(over_at, 'infinity') < %%(edge)s AS over, released.at AS released_at,
        CASE WHEN try.attempt = 1 THEN j.eligible_at
            WHEN try.attempt = j.attempt THEN j.queued_at
            ELSE (SELECT max(e.at) FROM events_event e WHERE e.kind = 'job' AND e.object_id = j.id
                AND e.to_state = 'QUEUED' AND e.at <= over_at)
        END AS queued_at
    FROM try JOIN jobs_job j ON j.id = try.job_id
    LEFT JOIN released ON released.job_id = try.job_id AND released.attempt = try.attempt
    %(tables)s
    WHERE j.submitted_at < %%(edge)s AND (%%(teams)s::bigint[] IS NULL OR j.team_id = ANY(%%(teams)s::bigint[]))
        AND (over_at IS NOT NULL OR j.held_at IS NULL)
), size AS MATERIALIZED (
    SELECT gang, {size} AS size
    FROM (SELECT DISTINCT gang FROM wait) gangs
), sized AS MATERIALIZED (
    SELECT name, size,
        CASE WHEN NOT over THEN 'waiting' WHEN placed_at IS NULL THEN 'gave_up' WHEN attempt = 1 THEN 'started'
            ELSE 'again' END AS what,
        greatest(extract(epoch FROM until - greatest(queued_at, released_at)), 0)::float8 AS waited_s
    FROM wait JOIN size USING (gang) WHERE queued_at < %%(edge)s
)
SELECT CASE WHEN grouping(size) = 0 THEN 'size' WHEN grouping(name) = 0 THEN 'name' ELSE 'all' END, size, name,
    {columns}
FROM sized GROUP BY GROUPING SETS ((size), (name), ())
""".replace("{columns}", ",".join(map(_OF_KIND.format, KINDS))).replace("{size}", SIZE)
