"""GPU time of a period, summed by group: made of holdings and their uses, and of nothing else.

What was held is exact to the millisecond, so that groups, and periods that follow one another, add up. A holding that
reaches beyond a period is active and idle in it in proportion.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from monitoring.reports.spans import Days, Span, split_periods

GROUPS = {
    "team": ("team.name", "JOIN accounts_team team ON team.id = h.team_id"),
    "user": ("person.username", "JOIN accounts_user person ON person.id = h.user_id"),
    "pool": ("pool.name", "JOIN cluster_pool pool ON pool.id = h.pool_id"),
    "model": ("gpu.model", ""),
    "job": ("coalesce('job-' || task.job_id, '')", "LEFT JOIN jobs_task task ON task.uuid = h.task"),
}
"""{group: (its name, the tables that have it)}."""
OF_DAYS = ("", "team", "user", "pool", "model")
"""What sums of days can be grouped by."""
TIMES = ("held", "active", "idle", "unknown", "busy")
HOUR_MILLI_MS = 1000 * 3_600_000


@dataclass(frozen=True)
class Period:
    """begins <= t < ends."""

    begins: datetime
    ends: datetime


@dataclass(frozen=True)
class Sums:
    """Thousandths of cards times milliseconds. held = active + paused + idle + unknown. busy: cards computed.

    simulated: whether cards of it are.
    """

    held: int = 0
    active: int = 0
    idle: int = 0
    unknown: int = 0
    busy: int = 0
    tasks: int = 0
    simulated: bool = False

    @property
    def paused(self) -> int:
        return self.held - self.active - self.idle - self.unknown

    @property
    def is_unseen(self) -> bool:
        """Return whether something was held, and nobody saw what it did."""
        return bool(self.held) and self.unknown == self.held

    def count_hours(self, name: str) -> float:
        return getattr(self, name) / HOUR_MILLI_MS

    def __add__(self, other: "Sums") -> "Sums":
        times = {name: getattr(self, name) + getattr(other, name) for name in (*TIMES, "tasks")}
        return Sums(**times, simulated=self.simulated or other.simulated)


class Place(NamedTuple):
    """What sums are of. slot: counts the periods from 0."""

    slot: int
    name: str
    pool_id: int
    model: str


def sum_usage(by: str, period: Period, now: datetime, teams: Collection[int] | None) -> dict[str, Sums]:
    """Return {name: sums}, the largest first. by: key of GROUPS. teams: ids of the teams that count; None is all."""
    rows = _query(by, [period], now, teams)
    return dict(sorted(((place.name, sums) for place, sums in rows), key=lambda row: (-row[1].held, row[0])))


def sum_days(periods: Sequence[Period], now: datetime, teams: Collection[int] | None) -> list[Sums]:
    """Return the sums of each period, over all groups."""
    found = [Sums() for _ in periods]
    for place, sums in _query("", periods, now, teams):
        found[place.slot] = sums
    return found


def sum_places(
    by: str, periods: Sequence[Period], now: datetime, teams: Collection[int] | None
) -> list[tuple[Place, Sums]]:
    """Return the sums of each period and group, apart for each pool and model."""
    return _query(by, periods, now, teams, "h.pool_id, gpu.model")


def _query(
    by: str,
    periods: Sequence[Period],
    now: datetime,
    teams: Collection[int] | None,
    place: str = "0 AS pool_id, '' AS model",
) -> list[tuple[Place, Sums]]:
    edges = [(period.begins, period.ends) for period in periods]
    name, tables = GROUPS[by] if by else ("''", "")
    words = {"name": name, "place": place, "tables": tables}
    if by in OF_DAYS:
        spans, days = split_periods(edges, now)
        query = (QUERY + OF_SUMS) % {**words, "count": COUNTED, "tasks": "sum(tasks)"}
    else:
        spans, days = [Span(slot, *edge, "all", leads=True) for slot, edge in enumerate(edges)], []
        query = QUERY % {**words, "count": UNCOUNTED, "tasks": "count(DISTINCT task)"}
    asked: dict[str, Any] = {
        "now": now,
        "teams": None if teams is None else sorted(teams),
        **_list_columns("span", Span, spans),
    }
    asked |= {**_list_columns("days", Days, days), "closed": any(span.of != "open" for span in spans)}
    found: dict[Place, Sums] = defaultdict(Sums)
    with connection.cursor() as cursor:
        cursor.execute(query, asked)
        for row in cursor:
            found[Place(*row[:4])] += _read_sums(row[4:])
    return list(found.items())


def _list_columns(prefix: str, kind: type, rows: Sequence[Any]) -> dict[str, list]:
    """Return {prefix_field: values}, of which PostgreSQL makes rows again."""
    return {f"{prefix}_{field.name}": [getattr(row, field.name) for row in rows] for field in fields(kind)}


def _read_sums(values: Sequence[Any]) -> Sums:
    held, active, idle, unknown, busy, tasks = map(int, values[:6])
    return Sums(held, active, idle, unknown, busy, tasks, values[6])


MS = "floor(1000 * date_part('epoch', {}) + 0.0005)::bigint"
"""Milliseconds since 1970; half a microsecond makes up for floats."""
EDGES = {
    "[until]": "least(released_at, ends)",
    "[since]": "greatest(held_from, begins)",
    "[end]": "released_at",
    "[begin]": "held_from",
}
"""Of what of a holding lies in a period, and of all of it."""


def fill_moments(query: str, *moments: str) -> str:
    """Write each [moment] of a query out as milliseconds."""
    for moment in moments:
        query = query.replace(f"[{moment}]", MS.format(moment))
    return query


def fill_edges(query: str) -> str:
    """Write the names of EDGES out, as milliseconds."""
    for edge, moment in EDGES.items():
        query = query.replace(edge, MS.format(moment))
    return query


CUT = fill_edges(
    """
cut AS MATERIALIZED (
    SELECT span.*, held.*, [until] - [since] AS ms, greatest([end] - [begin], 1) AS all_ms,
        coalesce(newest.seen_ms, kept.seen_ms, 0) AS seen_ms,
        coalesce(newest.active_ms, kept.active_ms, 0) AS active_ms,
        coalesce(newest.idle_ms, kept.idle_ms, 0) AS idle_ms, coalesce(newest.busy_ms, kept.busy_ms, 0) AS busy_ms,
        %(count)s
    FROM held JOIN span ON held_from < ends AND released_at > begins
        AND (span.of = 'all' OR (span.of = 'open') = held.open)
    LEFT JOIN monitoring_taskusenow newest ON newest.holding_id = held.id
    LEFT JOIN monitoring_taskuse kept ON kept.holding_id = held.id
), shared AS MATERIALIZED (
    SELECT cut.*,
        floor(least(seen_ms, all_ms) * (ms::float8 / all_ms))::bigint AS seen,
        floor(least(active_ms, all_ms) * (ms::float8 / all_ms))::bigint AS active_part,
        floor(least(idle_ms, all_ms) * (ms::float8 / all_ms))::bigint AS idle_part,
        floor(least(busy_ms, all_ms) * (ms::float8 / all_ms))::bigint AS busy_part
    FROM cut
), part AS (
    SELECT shared.*, milli * ms AS held, milli * active_part AS active,
        milli * least(idle_part, ms - active_part) AS idle,
        milli * (ms - least(greatest(seen, active_part + idle_part), ms)) AS unknown, 1000 * busy_part AS busy
    FROM shared
)
"""
)
"""From `held` (holdings) and `span` to `part`: what of each holding lies in each span. count: COUNTED, or not."""
COUNTED = """
        held_from >= begins AND NOT EXISTS (
            SELECT FROM quotas_holding o WHERE o.task = held.task AND o.gpu_id IS NOT NULL
                AND (o.held_from, o.id) < (held.held_from, held.id)
        ) AS begun,
        held_from < begins AND leads AND NOT EXISTS (
            SELECT FROM quotas_holding o WHERE o.task = held.task AND o.gpu_id IS NOT NULL AND o.id < held.id
                AND o.held_from < begins AND (o.released_at IS NULL OR o.released_at > begins)
        ) AS carried
"""
"""One holding of each task counts it, so that counts of days add up."""
UNCOUNTED = "false AS begun, false AS carried"
HOLDING = """h.id, h.task, h.gpu_milli::bigint AS milli, gpu.simulated, h.held_from"""
QUERY = """
WITH settled AS MATERIALIZED (
    SELECT coalesce(max(settled_to), '-infinity') AS settled_to FROM monitoring_usagesettled
), span AS MATERIALIZED (
    SELECT slot, begins, least(ends, %%(now)s) AS ends, of, leads
    FROM unnest(%%(span_slot)s::int[], %%(span_begins)s::timestamptz[], %%(span_ends)s::timestamptz[],
        %%(span_of)s::text[], %%(span_leads)s::bool[]) AS s(slot, begins, ends, of, leads)
), held AS MATERIALIZED (
    SELECT %(name)s AS name, %(place)s, {holding}, coalesce(h.released_at, %%(now)s) AS released_at,
        h.released_at IS NULL OR h.released_at >= settled_to AS open
    FROM settled CROSS JOIN quotas_holding h JOIN cluster_gpu gpu ON gpu.id = h.gpu_id
    %(tables)s
    WHERE (h.released_at IS NULL OR h.released_at >= settled_to OR %%(closed)s)
        AND (%%(teams)s::bigint[] IS NULL OR h.team_id = ANY(%%(teams)s::bigint[]))
        AND EXISTS (SELECT FROM span WHERE h.held_from < span.ends AND coalesce(h.released_at, %%(now)s) > span.begins)
), {cut}
SELECT slot, name, pool_id, model, sum(held), sum(active), sum(idle), sum(unknown), sum(busy), %(tasks)s,
    bool_or(simulated)
FROM (SELECT part.*, (begun OR carried)::int AS tasks FROM part) part GROUP BY slot, name, pool_id, model
""".replace("{holding}", HOLDING).replace("{cut}", CUT)
OF_SUMS = """
UNION ALL
SELECT slot, %(name)s AS name, %(place)s, sum(h.held), sum(h.active), sum(h.idle), sum(h.unknown), sum(h.busy),
    sum(h.begun) + coalesce(sum(h.carried) FILTER (WHERE h.day = days.first AND leads), 0), bool_or(h.simulated)
FROM unnest(%%(days_slot)s::int[], %%(days_first)s::date[], %%(days_until)s::date[], %%(days_leads)s::bool[])
    AS days(slot, first, until, leads)
JOIN monitoring_usageday h ON h.day >= days.first AND h.day < days.until
JOIN LATERAL (SELECT h.model) gpu ON true
%(tables)s
WHERE %%(teams)s::bigint[] IS NULL OR h.team_id = ANY(%%(teams)s::bigint[])
GROUP BY 1, 2, 3, 4
"""
