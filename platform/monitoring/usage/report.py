"""GPU time of a period, summed by group: made of holdings and their uses, and of nothing else.

What was held is exact to the millisecond, so that groups, and periods that follow one another, add up. A holding that
reaches beyond a period is active and idle in it in proportion.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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


def sum_usage(by: str, period: Period, now: datetime, teams: Collection[int] | None) -> dict[str, Sums]:
    """Return {name: sums}, the largest first. by: key of GROUPS. teams: ids of the teams that count; None is all."""
    rows = _query(by, [period], now, teams)
    return dict(sorted(((name, sums) for _, name, sums in rows), key=lambda row: (-row[1].held, row[0])))


def sum_days(periods: Sequence[Period], now: datetime, teams: Collection[int] | None) -> list[Sums]:
    """Return the sums of each period, over all groups."""
    found = [Sums() for _ in periods]
    for slot, _, sums in _query("", periods, now, teams):
        found[slot] = sums
    return found


def _query(
    by: str, periods: Sequence[Period], now: datetime, teams: Collection[int] | None
) -> list[tuple[int, str, Sums]]:
    name, tables = GROUPS[by] if by else ("''", "")
    asked: dict[str, Any] = {"now": now, "teams": None if teams is None else sorted(teams)}
    asked |= {"begins": [period.begins for period in periods], "ends": [period.ends for period in periods]}
    with connection.cursor() as cursor:
        cursor.execute(QUERY % {"name": name, "tables": tables}, asked)
        return [(row[0] - 1, row[1], _read_sums(row[2:])) for row in cursor]


def _read_sums(values: Sequence[Any]) -> Sums:
    held, active, idle, unknown, busy, tasks = map(int, values[:6])
    return Sums(held, active, idle, unknown, busy, tasks, values[6])


QUERY = """
WITH held AS (
    SELECT p.slot, %(name)s AS name, h.task, h.gpu_milli::numeric AS milli, gpu.simulated,
        floor(1000 * extract(epoch FROM least(coalesce(h.released_at, %%(now)s), p.ends)))
            - floor(1000 * extract(epoch FROM greatest(h.held_from, p.begins))) AS ms,
        greatest(floor(1000 * extract(epoch FROM coalesce(h.released_at, %%(now)s)))
            - floor(1000 * extract(epoch FROM h.held_from)), 1) AS all_ms,
        coalesce(newest.seen_ms, kept.seen_ms, 0)::numeric AS seen_ms,
        coalesce(newest.active_ms, kept.active_ms, 0)::numeric AS active_ms,
        coalesce(newest.idle_ms, kept.idle_ms, 0)::numeric AS idle_ms,
        coalesce(newest.busy_ms, kept.busy_ms, 0)::numeric AS busy_ms
    FROM quotas_holding h
    JOIN unnest(%%(begins)s::timestamptz[], %%(ends)s::timestamptz[]) WITH ORDINALITY AS p(begins, ends, slot)
        ON h.held_from < least(p.ends, %%(now)s) AND coalesce(h.released_at, %%(now)s) > p.begins
    JOIN cluster_gpu gpu ON gpu.id = h.gpu_id
    %(tables)s
    LEFT JOIN monitoring_taskusenow newest ON newest.holding_id = h.id
    LEFT JOIN monitoring_taskuse kept ON kept.holding_id = h.id
    WHERE %%(teams)s::bigint[] IS NULL OR h.team_id = ANY(%%(teams)s::bigint[])
), part AS (
    SELECT *, div(least(active_ms, all_ms) * ms, all_ms) AS active,
        div(least(seen_ms, all_ms) * ms, all_ms) AS seen, div(least(busy_ms, all_ms) * ms, all_ms) AS busy
    FROM held
), whole AS (
    SELECT *, least(div(least(idle_ms, all_ms) * ms, all_ms), ms - active) AS idle FROM part
)
SELECT slot, name, sum(milli * ms), sum(milli * active), sum(milli * idle),
    sum(milli * (ms - greatest(seen, active + idle))), sum(1000 * busy), count(DISTINCT task), bool_or(simulated)
FROM whole GROUP BY slot, name
"""
