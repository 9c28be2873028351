"""GPU time of a period, summed by group: made of holdings and their uses, and of nothing else.

What was held is exact to the millisecond, so that groups, and periods that follow one another, add up. A holding that
reaches beyond a period is active and idle in it in proportion.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

GROUPS = {
    "team": ("team.name", "JOIN accounts_team team ON team.id = h.team_id"),
    "user": ("person.username", "JOIN accounts_user person ON person.id = h.user_id"),
    "pool": ("pool.name", "JOIN cluster_pool pool ON pool.id = h.pool_id"),
    "model": ("gpu.model", ""),
    "job": ("coalesce('job-' || task.job_id, '')", "LEFT JOIN jobs_task task ON task.uuid = h.task"),
}
"""{group: (its name, the tables that have it)}."""
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
    name, tables = GROUPS[by] if by else ("''", "")
    asked: dict[str, Any] = {"now": now, "teams": None if teams is None else sorted(teams)}
    asked |= {"begins": [period.begins for period in periods], "ends": [period.ends for period in periods]}
    asked |= {"first": min(asked["begins"], default=now), "last": max(asked["ends"], default=now)}
    with connection.cursor() as cursor:
        cursor.execute(QUERY % {"name": name, "place": place, "tables": tables}, asked)
        return [(Place(row[0] - 1, *row[1:4]), _read_sums(row[4:])) for row in cursor]


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


def fill_edges(query: str) -> str:
    """Write the names of EDGES out, as milliseconds."""
    for edge, moment in EDGES.items():
        query = query.replace(edge, MS.format(moment))
    return query


QUERY = fill_edges(
    """
WITH held AS MATERIALIZED (
    SELECT %(name)s AS name, %(place)s, h.task, h.gpu_milli::bigint AS milli, gpu.simulated, h.held_from,
        coalesce(h.released_at, %%(now)s) AS released_at,
        coalesce(newest.seen_ms, kept.seen_ms, 0) AS seen_ms,
        coalesce(newest.active_ms, kept.active_ms, 0) AS active_ms,
        coalesce(newest.idle_ms, kept.idle_ms, 0) AS idle_ms, coalesce(newest.busy_ms, kept.busy_ms, 0) AS busy_ms
    FROM quotas_holding h
    JOIN cluster_gpu gpu ON gpu.id = h.gpu_id
    %(tables)s
    LEFT JOIN monitoring_taskusenow newest ON newest.holding_id = h.id
    LEFT JOIN monitoring_taskuse kept ON kept.holding_id = h.id
    WHERE h.held_from < least(%%(last)s, %%(now)s) AND coalesce(h.released_at, %%(now)s) > %%(first)s
        AND (%%(teams)s::bigint[] IS NULL OR h.team_id = ANY(%%(teams)s::bigint[]))
), cut AS MATERIALIZED (
    SELECT slot, name, pool_id, model, task, milli, simulated, seen_ms, active_ms, idle_ms, busy_ms,
        [until] - [since] AS ms,
        greatest([end] - [begin], 1) AS all_ms
    FROM held JOIN unnest(%%(begins)s::timestamptz[], %%(ends)s::timestamptz[]) WITH ORDINALITY AS p(begins, ends, slot)
        ON held_from < least(ends, %%(now)s) AND released_at > begins
), part AS MATERIALIZED (
    SELECT slot, name, pool_id, model, task, milli, simulated, ms,
        floor(least(seen_ms, all_ms) * (ms::float8 / all_ms))::bigint AS seen,
        floor(least(active_ms, all_ms) * (ms::float8 / all_ms))::bigint AS active,
        floor(least(idle_ms, all_ms) * (ms::float8 / all_ms))::bigint AS idle,
        floor(least(busy_ms, all_ms) * (ms::float8 / all_ms))::bigint AS busy
    FROM cut
)
SELECT slot, name, pool_id, model, sum(milli * ms), sum(milli * active), sum(milli * least(idle, ms - active)),
    sum(milli * (ms - least(greatest(seen, active + idle), ms))), sum(1000 * busy), count(DISTINCT task),
    bool_or(simulated)
FROM part GROUP BY slot, name, pool_id, model
"""
)
