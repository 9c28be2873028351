"""Tries of jobs that ended before their time, why, and the GPU time that was lost with them.

Each try counts once, with its last end, by the task that explains it. Lost is what its tasks held since their last
checkpoint, or since they were placed where there was none; it counts whole, however long before the period it began.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from jobs.lifecycle import MADE_ROOM
from monitoring.usage.report import GROUPS as USAGE_GROUPS
from monitoring.usage.report import Period, Place, fill_moments

GROUPS = {
    "reason": ("decisive.reason", ""),
    "team": ("team.name", ""),
    "user": ("person.username", ""),
    "pool": ("pool.name", "JOIN cluster_pool pool ON pool.id = j.pool_id"),
    "node": ("coalesce(node.name, '')", ""),
}
"""{group: (its name, the tables that only it needs)}."""
MEANT = ("completed", "job_done", "stopped_by_user", "replaced", "idle", "pruned")
"""Reasons that are no failure."""
FAULTS = ("node_lost", "container_lost", "evicted", "refused_by_node", "rejected_by_cluster")
"""Of machines and of the platform, which nobody's program could have avoided."""
MOST_ENDS = 50


@dataclass(frozen=True)
class Losses:
    """tries, of so many jobs. In thousandths of cards times milliseconds: lost, of it unsaved in tries without a
    checkpoint; kept: held before their last checkpoint.
    """

    tries: int = 0
    jobs: int = 0
    lost: int = 0
    unsaved: int = 0
    kept: int = 0


@dataclass(frozen=True)
class FailureSums:
    """failed: by themselves or their machine. made_room: stopped for other jobs or maintenance, and queued again."""

    failed: Losses = Losses()
    made_room: Losses = Losses()

    @property
    def tries(self) -> int:
        return self.failed.tries + self.made_room.tries

    @property
    def lost(self) -> int:
        return self.failed.lost + self.made_room.lost


@dataclass(frozen=True)
class FailedTry:
    """reason, node: of the task that explains the end. lost, kept: as in Losses."""

    job_id: int
    job_name: str
    attempt: int
    reason: str
    user: str
    team: str
    node: str
    ended_at: datetime
    lost: int
    kept: int


@dataclass(frozen=True)
class FailureReport:
    """groups: the most frequent first. left_out: further groups."""

    by: str
    period: Period
    complete_to: datetime
    groups: dict[str, FailureSums]
    total: FailureSums
    left_out: int


def sum_failures(by: str, period: Period, now: datetime, teams: Collection[int] | None, most: int) -> FailureReport:
    """Sum the tries that ended in a period. by: key of GROUPS. most: groups.

    teams: ids of the teams that count; None is all.
    """
    edge = min(period.ends, now)
    rows = _ask(by, SUMS, _ask_for(period.begins, edge, teams))
    found = _gather((row[1], row[2], Losses(*map(int, row[3:]))) for row in rows if row[0] == 0)
    total = _gather(("", row[2], Losses(*map(int, row[3:]))) for row in rows if row[0])
    ordered = sorted(found.items(), key=lambda group: (-group[1].tries, -group[1].lost, group[0]))
    left_out = max(len(ordered) - most, 0)
    return FailureReport(by, period, edge, dict(ordered[:most]), total.get("", FailureSums()), left_out)


def list_failures(
    by: str, only: str | None, period: Period, now: datetime, teams: Collection[int] | None
) -> list[FailedTry]:
    """Return the newest tries that ended in a period, of one group or of all; at most MOST_ENDS."""
    asked = {**_ask_for(period.begins, min(period.ends, now), teams), "only": only, "most": MOST_ENDS}
    return [FailedTry(*row) for row in _ask(by, NEWEST, asked)]


def sum_faults(
    by: str, periods: Sequence[Period], now: datetime, teams: Collection[int] | None
) -> list[tuple[Place, int]]:
    """Return what tries that ended by a fault held within each of periods that follow each other, since their last
    checkpoint: thousandths of cards times milliseconds, by key of monitoring.usage.report.GROUPS.
    """
    name, tables = USAGE_GROUPS[by]
    edge = min(periods[-1].ends, now)
    asked = {**_ask_for(periods[0].begins, edge, teams), "faults": list(FAULTS)}
    asked |= {"since": [period.begins for period in periods], "until": [min(period.ends, now) for period in periods]}
    rows = _ask("team", FAULT_SUMS.replace("[name]", name).replace("[tables]", tables), asked)
    return [(Place(row[0] - 1, *row[1:4]), int(row[4])) for row in rows]


def _gather(rows: Iterable[tuple[str, bool, Losses]]) -> dict[str, FailureSums]:
    found: dict[str, dict[str, Losses]] = {}
    for name, made_room, losses in rows:
        found.setdefault(name, {})["made_room" if made_room else "failed"] = losses
    return {name: FailureSums(**kinds) for name, kinds in found.items()}


def _ask_for(begins: datetime, edge: datetime, teams: Collection[int] | None) -> dict[str, Any]:
    of = None if teams is None else sorted(teams)
    return {"begins": begins, "edge": edge, "teams": of, "meant": list(MEANT), "room": sorted(MADE_ROOM)}


def _ask(by: str, select: str, asked: dict[str, Any]) -> list[tuple]:
    name, tables = GROUPS[by]
    with connection.cursor() as cursor:
        cursor.execute(TRIES % {"name": name, "tables": tables} + select, asked)
        return cursor.fetchall()


TRIES = """
WITH candidate AS MATERIALIZED (
    SELECT DISTINCT job_id, attempt FROM jobs_task
    WHERE ended_at >= %%(begins)s AND ended_at < %%(edge)s AND state IN ('FAILED', 'STOPPED')
), task AS MATERIALIZED (
    SELECT t.uuid, t.job_id, t.attempt, t.rank, t.state, t.reason, t.node_id, t.ended_at,
        CASE WHEN bool_and(t.checkpointed_at > t.started_at) OVER try THEN min(t.checkpointed_at) OVER try END
            AS saved_at
    FROM candidate JOIN jobs_task t ON t.job_id = candidate.job_id AND t.attempt = candidate.attempt
    WINDOW try AS (PARTITION BY t.job_id, t.attempt)
), try AS MATERIALIZED (
    SELECT job_id, attempt, max(ended_at) AS ended_at, max(saved_at) AS saved_at, sum(held) AS held, sum(lost) AS lost,
        (array_agg(reason ORDER BY {explains}))[1] AS reason, (array_agg(node_id ORDER BY {explains}))[1] AS node_id
    FROM task CROSS JOIN LATERAL (
        SELECT coalesce(sum(milli * (released - begun)), 0) AS held,
            coalesce(sum(milli * greatest(released - greatest(saved, begun), 0)), 0) AS lost
        FROM (
            SELECT h.gpu_milli::bigint AS milli, [h.held_from] AS begun,
                [coalesce(h.released_at, task.ended_at)] AS released, coalesce([task.saved_at], 0) AS saved
            FROM quotas_holding h WHERE h.task = task.uuid AND h.gpu_id IS NOT NULL
        ) part
    ) sums
    GROUP BY job_id, attempt
    HAVING bool_and(ended_at IS NOT NULL) AND max(ended_at) >= %%(begins)s AND max(ended_at) < %%(edge)s
), failure AS MATERIALIZED (
    SELECT %(name)s AS name, j.id AS job_id, j.name AS job_name, decisive.attempt, decisive.ended_at,
        decisive.saved_at, decisive.reason, decisive.reason = ANY(%%(room)s) AS made_room, decisive.held,
        decisive.lost, person.username, team.name AS team, coalesce(node.name, '') AS node
    FROM try decisive JOIN jobs_job j ON j.id = decisive.job_id
    JOIN accounts_user person ON person.id = j.user_id
    JOIN accounts_team team ON team.id = j.team_id
    LEFT JOIN cluster_node node ON node.id = decisive.node_id
    %(tables)s
    WHERE decisive.reason <> ALL(%%(meant)s) AND NOT (j.state = 'SUCCEEDED' AND j.attempt = decisive.attempt)
        AND (%%(teams)s::bigint[] IS NULL OR j.team_id = ANY(%%(teams)s::bigint[]))
)
""".replace(
    "{explains}", "state IN ('FAILED', 'STOPPED') DESC, reason = 'gang_broken', state = 'STOPPED', ended_at, rank"
)
"""A try is explained as jobs.lifecycle does it: by the first task that failed of itself, else the first stopped."""
TRIES = fill_moments(TRIES, "h.held_from", "coalesce(h.released_at, task.ended_at)", "task.saved_at")
SUMS = """
SELECT grouping(name), name, made_room, count(*), count(DISTINCT job_id), sum(lost),
    coalesce(sum(lost) FILTER (WHERE saved_at IS NULL), 0), sum(held - lost)
FROM failure
GROUP BY GROUPING SETS ((name, made_room), (made_room))
"""
NEWEST = """
SELECT job_id, job_name, attempt, reason, username, team, node, ended_at, lost, held - lost
FROM failure
WHERE %(only)s::text IS NULL OR name = %(only)s
ORDER BY ended_at DESC, job_id LIMIT %(most)s
"""
FAULT_SUMS = fill_moments(
    """
, part AS (
    SELECT h.*, slot, greatest(h.held_from, failure.saved_at, since) AS begun,
        least(coalesce(h.released_at, failure.ended_at), until) AS ended
    FROM failure JOIN task USING (job_id, attempt) JOIN quotas_holding h ON h.task = task.uuid
    CROSS JOIN unnest(%(since)s::timestamptz[], %(until)s::timestamptz[]) WITH ORDINALITY AS p(since, until, slot)
    WHERE h.gpu_id IS NOT NULL AND failure.reason = ANY(%(faults)s)
)
SELECT slot, [name] AS name, h.pool_id, gpu.model, sum(h.gpu_milli::bigint * ([ended] - [begun]))
FROM part h JOIN cluster_gpu gpu ON gpu.id = h.gpu_id [tables]
WHERE ended > begun GROUP BY slot, name, h.pool_id, gpu.model
""",
    "ended",
    "begun",
)
