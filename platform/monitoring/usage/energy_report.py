"""What cards drew in a period while they were held, by group: made of holdings and their uses.

A holding that reaches beyond a period drew in it in proportion. Simulated cards count only where there are no others.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from monitoring.usage.report import GROUPS, Period, fill_edges

ENERGY_GROUPS = {
    **{by: GROUPS[by] for by in ("team", "user", "pool", "model")},
    "node": ("node.name", "JOIN cluster_node node ON node.id = h.node_id"),
}
"""{group: (its name, the tables that have it)}."""
KWH_MJ = 3_600_000_000


@dataclass(frozen=True)
class Energy:
    """drawn: millijoules. held: thousandths of cards times milliseconds. unmetered: of it, where nothing was told."""

    drawn: int = 0
    held: int = 0
    unmetered: int = 0
    simulated: bool = False

    @property
    def is_known(self) -> bool:
        return self.unmetered < self.held

    @property
    def kwh(self) -> float | None:
        """None is not known."""
        return self.drawn / KWH_MJ if self.is_known else None

    @property
    def watts(self) -> float | None:
        """Return the mean of a whole card, while it was held and known."""
        known = self.held - self.unmetered
        return 1000 * self.drawn / known if known else None

    def __add__(self, other: "Energy") -> "Energy":
        return Energy(
            self.drawn + other.drawn,
            self.held + other.held,
            self.unmetered + other.unmetered,
            self.simulated or other.simulated,
        )


def sum_energy(by: str, period: Period, now: datetime, teams: Collection[int] | None) -> dict[str, Energy]:
    """Return {name: energy}, the most first. by: key of ENERGY_GROUPS. teams: ids that count; None is all."""
    name, tables = ENERGY_GROUPS[by]
    asked: dict[str, Any] = {"begins": period.begins, "ends": period.ends, "now": now}
    asked["teams"] = None if teams is None else sorted(teams)
    with connection.cursor() as cursor:
        cursor.execute(QUERY % {"name": name, "tables": tables}, asked)
        rows = [(row[0], Energy(int(row[2]), int(row[3]), int(row[4]), row[1])) for row in cursor]
    found: dict[str, Energy] = defaultdict(Energy)
    for name, energy in leave_out_simulated(rows):
        found[name] += energy
    return dict(sorted(found.items(), key=lambda row: (-row[1].drawn, -row[1].held, row[0])))


def leave_out_simulated(rows: Collection[tuple[str, Energy]]) -> list[tuple[str, Energy]]:
    """Return the rows of real cards; all of them where there are none. Pure."""
    return [row for row in rows if not row[1].simulated] or list(rows)


QUERY = fill_edges(
    """
WITH held AS MATERIALIZED (
    SELECT %(name)s AS name, gpu.simulated, h.gpu_milli::bigint AS milli, h.held_from,
        coalesce(h.released_at, %%(now)s) AS released_at, coalesce(newest.energy_mj, kept.energy_mj) AS energy_mj,
        %%(begins)s::timestamptz AS begins, least(%%(ends)s, %%(now)s)::timestamptz AS ends
    FROM quotas_holding h
    JOIN cluster_gpu gpu ON gpu.id = h.gpu_id
    %(tables)s
    LEFT JOIN monitoring_taskusenow newest ON newest.holding_id = h.id
    LEFT JOIN monitoring_taskuse kept ON kept.holding_id = h.id
    WHERE h.held_from < least(%%(ends)s, %%(now)s) AND coalesce(h.released_at, %%(now)s) > %%(begins)s
        AND (%%(teams)s::bigint[] IS NULL OR h.team_id = ANY(%%(teams)s::bigint[]))
), cut AS MATERIALIZED (
    SELECT name, simulated, milli, energy_mj, [until] - [since] AS ms, greatest([end] - [begin], 1) AS all_ms FROM held
)
SELECT name, simulated, coalesce(sum(floor(energy_mj * (ms::float8 / all_ms))), 0), sum(milli * ms),
    coalesce(sum(milli * ms) FILTER (WHERE energy_mj IS NULL), 0)
FROM cut GROUP BY name, simulated
"""
)
