"""Skip cycles while no row changed.

Time alone is noticed after LOOK_AGAIN_S, or when a start time, window or maintenance is due.
"""

from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any

from django.db.models import Model

from accounts.models import Team
from cluster.models import Maintenance, Pool, Window
from quotas.models import Quota, UserLimit
from scheduler.core.model.lending import list_window_edges
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Plan
from scheduler.loading.json_rows import Statement, build_pairs
from scheduler.loading.row_cache import TABLES, Versions, read_version, read_versions

LOOK_AGAIN_S = 5.0

ChangeMark = dict[str, Versions]
"""Row versions of each table."""


@dataclass(frozen=True)
class IdlePeriod:
    """Row versions for which cycles are idle, until a time."""

    mark: ChangeMark
    until: float

    def covers(self, mark: ChangeMark, now: float) -> bool:
        return mark == self.mark and now < self.until


def compute_idle_period(mark: ChangeMark, plan: Plan, snapshot: Snapshot, now: float) -> IdlePeriod | None:
    """Return the rest, None if the cycle acted. mark: read before."""
    if plan.starts or plan.evictions:
        return None
    due = {job.not_before for job in snapshot.waiting} | list_window_edges(snapshot)
    return IdlePeriod(mark, min(now + LOOK_AGAIN_S, min((at for at in due if at > now), default=inf)))


def read_change_mark() -> ChangeMark:
    """Read versions of rows for `load_world`."""
    return read_versions(_statement())


@cache
def _statement() -> Statement:
    return build_pairs(list_tables())


def list_tables() -> dict[str, tuple[Any, Any]]:
    """Return {name: (rows, version)} of all tables that matter."""
    small: tuple[type[Model], ...] = (Pool, Team, Quota, UserLimit, Window, Maintenance, Maintenance.nodes.through)
    tables = {name: (rows(), number) for name, (rows, number) in TABLES.items()}
    names = {model._meta.db_table: model for model in small}
    return tables | {table: (model._default_manager.all(), read_version(table)) for table, model in names.items()}
