"""What was held and idle, and what the idle ladder did about it, by group."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from monitoring.usage.report import GROUPS, Period, Sums, fill_moments, sum_usage

IDLE_GROUPS = ("team", "user", "pool")
"""Of GROUPS: what a job is of, too."""


@dataclass(frozen=True)
class Ladder:
    """How often somebody was told, by rung, and what was done then. returned: thousandths of cards times milliseconds.

    regretted: acts after which the card was wanted back at once.
    """

    notes: int = 0
    reminders: int = 0
    warnings: int = 0
    acts: int = 0
    regretted: int = 0
    returned: int = 0

    def __add__(self, other: "Ladder") -> "Ladder":
        return Ladder(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class IdleSums:
    sums: Sums
    ladder: Ladder


@dataclass(frozen=True)
class IdleReport:
    """groups: those with the most idle time first. left_out: further groups."""

    by: str
    period: Period
    complete_to: datetime
    groups: dict[str, IdleSums]
    total: IdleSums
    left_out: int


def sum_idle(by: str, period: Period, now: datetime, teams: Collection[int] | None, most: int) -> IdleReport:
    """Sum a period. by: one of IDLE_GROUPS. teams: ids of the teams that count; None is all. most: groups."""
    used, ladders = sum_usage(by, period, now, teams), sum_ladders(by, period, now, teams)
    found = {name: IdleSums(used.get(name, Sums()), ladders.get(name, Ladder())) for name in {*used, *ladders}}
    ordered = sorted(found.items(), key=lambda group: (-group[1].sums.idle, -group[1].ladder.notes, group[0]))
    total = IdleSums(sum(used.values(), Sums()), sum(ladders.values(), Ladder()))
    edge, left_out = min(period.ends, now), max(len(ordered) - most, 0)
    return IdleReport(by, period, edge, dict(ordered[:most]), total, left_out)


def sum_ladders(by: str, period: Period, now: datetime, teams: Collection[int] | None) -> dict[str, Ladder]:
    """Return {name: what the ladder did in a period}. Each rung counts once, however many people were told."""
    name, tables = GROUPS[by]
    asked: dict[str, Any] = {"begins": period.begins, "edge": min(period.ends, now), "now": now}
    asked["teams"] = None if teams is None else sorted(teams)
    with connection.cursor() as cursor:
        cursor.execute(QUERY % {"name": name, "tables": tables}, asked)
        return {row[0]: Ladder(*map(int, row[1:])) for row in cursor}


QUERY = fill_moments(
    """
WITH rung AS (
    SELECT watch_id AS job_id, rung, min(at) AS at FROM monitoring_idletold GROUP BY watch_id, ladder, rung
), done AS (
    SELECT job_id, (rung = 1)::int AS notes, (rung = 2)::int AS reminders, (rung = 3)::int AS warnings, 0 AS acts,
        0 AS regretted, 0::bigint AS returned
    FROM rung WHERE at >= %%(begins)s AND at < %%(edge)s
    UNION ALL
    SELECT job_id, 0, 0, 0, 1, regretted::int,
        returned_milli::bigint * greatest(coalesce([least(returned_until, %%(now)s)] - [acted_at], 0), 0)
    FROM monitoring_idlewatch WHERE acted_at >= %%(begins)s AND acted_at < %%(edge)s
)
SELECT %(name)s, sum(notes), sum(reminders), sum(warnings), sum(acts), sum(regretted), sum(returned)
FROM done JOIN jobs_job h ON h.id = done.job_id
%(tables)s
WHERE %%(teams)s::bigint[] IS NULL OR h.team_id = ANY(%%(teams)s::bigint[])
GROUP BY 1
""",
    "least(returned_until, %%(now)s)",
    "acted_at",
)
