"""Whether a full cycle is worth it: most pokes of an idle night find the cluster and the queue as they were.

PostgreSQL gives every version of a row a place and a transaction of its own. While the versions of all rows that a
cycle reads are the same, only time has passed. What time alone changes (age, a window, a reservation that moves) is
seen LOOK_AGAIN_S later at most, a job that asked to start later when its moment comes.
"""

from dataclasses import dataclass
from math import inf

from django.db.models import Count, Func, IntegerField, Model, QuerySet, Sum

from accounts.models import Team
from cluster.models import Gpu, Maintenance, Node, Pool, Window
from jobs.models import Job, Task
from quotas.models import Holding, Quota, UserLimit
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Plan

LOOK_AGAIN_S = 5.0

Mark = tuple[tuple[int, int], ...]
"""For each table how many rows count, and a sum over their versions."""


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
    due = (job.not_before for job in snapshot.waiting if job.not_before > now)
    return Rest(mark, min(now + LOOK_AGAIN_S, min(due, default=inf)))


def read_mark() -> Mark:
    """Of the rows that `load_world` reads."""
    holding = Task.objects.holding()
    tables: tuple[QuerySet[Model], ...] = (
        *(Job.objects.waiting(), Job.objects.filter(pk__in=holding.values("job")), holding, Holding.objects.live()),
        *(Node.objects.present(), Gpu.objects.filter(removed_at__isnull=True), Pool.objects.all()),
        *(Team.objects.all(), Quota.objects.all(), UserLimit.objects.all(), Window.objects.all()),
        *(Maintenance.objects.all(), Maintenance.nodes.through.objects.all()),
    )
    return tuple(_mark_of(rows) for rows in tables)


def _mark_of(rows: QuerySet) -> tuple[int, int]:
    version = Func(template="hashtext(ctid::text || xmin::text)", output_field=IntegerField())
    found = rows.order_by().aggregate(rows=Count("pk"), versions=Sum(version, default=0))
    return found["rows"], found["versions"]
