"""Whether a full cycle is worth it: most pokes of an idle night find the cluster and the queue as they were.

While the versions of all rows that a cycle reads are the same (`scheduler.memory`), only time has passed. What time
alone changes (age, a reservation that moves) is seen LOOK_AGAIN_S later at most; a job that asked to start later, a
window and a maintenance when their moment comes.
"""

from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any

from django.db.models import Model

from accounts.models import Team
from cluster.models import Maintenance, Pool, Window
from quotas.models import Quota, UserLimit
from scheduler.core.lending import times_of_change
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Plan
from scheduler.memory import TABLES, Versions, number_of, read_versions
from scheduler.rows import Statement, build_pairs

LOOK_AGAIN_S = 5.0

Mark = dict[str, Versions]
"""Of each table, or of those of its rows that count."""


@dataclass(frozen=True)
class Rest:
    """Until then a cycle that finds this mark would decide what the last one decided: nothing."""

    mark: Mark
    until: float

    def covers(self, mark: Mark, now: float) -> bool:
        return mark == self.mark and now < self.until


def rest_after(mark: Mark, plan: Plan, snapshot: Snapshot, now: float) -> Rest | None:
    """mark: read before the snapshot was loaded. None where the cycle did something: the next one looks at that."""
    if plan.starts or plan.evictions:
        return None
    due = {job.not_before for job in snapshot.waiting} | times_of_change(snapshot)
    return Rest(mark, min(now + LOOK_AGAIN_S, min((at for at in due if at > now), default=inf)))


def read_mark() -> Mark:
    """Of the rows that `load_world` reads."""
    return read_versions(_statement())


@cache
def _statement() -> Statement:
    return build_pairs(list_tables())


def list_tables() -> dict[str, tuple[Any, Any]]:
    """{name: (the rows, the number of a version)} of all that counts."""
    small: tuple[type[Model], ...] = (Pool, Team, Quota, UserLimit, Window, Maintenance, Maintenance.nodes.through)
    tables = {name: (rows(), number) for name, (rows, number) in TABLES.items()}
    names = {model._meta.db_table: model for model in small}
    return tables | {table: (model._default_manager.all(), number_of(table)) for table, model in names.items()}
