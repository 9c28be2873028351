"""Statements of the allocating transaction. Sums are separate, after the locks."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import isfinite

from django.db.models import Count, Sum
from django.db.models.functions import Now

from cluster.maintenance import first_before, load_maintenance
from cluster.models import Gpu, Maintenance, Node
from common.locks import database_now, lock_rows
from jobs.models import Job, Task
from jobs.states import JOB_ACTIVE
from quotas.models import Amounts, Holding, Quota, UserLimit
from quotas.services import get_default_limit


def load_job(pk: int) -> Job:
    return Job.objects.get(pk=pk)


def load_jobs(pks: Sequence[int]) -> list[Job]:
    """Load jobs in given order."""
    found = Job.objects.in_bulk(pks)
    return [found[pk] for pk in pks]


def lock_quota(team_id: int, pool_id: int) -> list[Quota]:
    return lock_rows(Quota.objects.filter(team=team_id, pool=pool_id))


def lock_user_limit(user_id: int) -> list[UserLimit]:
    return lock_rows(UserLimit.objects.filter(user=user_id))


def lock_nodes(pks: Iterable[int]) -> dict[int, Node]:
    """Lock nodes, then read their pools."""
    return {node.pk: node for node in lock_rows(Node.objects.filter(pk__in=set(pks)).prefetch_related("pool"))}


def lock_cards(pks: Iterable[int]) -> dict[int, Gpu]:
    """Lock cards, then read their pools."""
    cards = Gpu.objects.filter(pk__in=set(pks)).select_related("node").prefetch_related("pool")
    return {gpu.pk: gpu for gpu in lock_rows(cards)}


def sum_teams(team_ids: Iterable[int], pool_id: int) -> Amounts:
    return Holding.objects.live().filter(pool=pool_id, team__in=team_ids).totals()


def sum_user(user_id: int) -> Amounts:
    return Holding.objects.live().filter(user=user_id).totals()


def sum_nodes(node_ids: Iterable[int]) -> dict[int, Amounts]:
    """Return {node: taken}."""
    taken = Holding.objects.live().filter(node__in=list(node_ids)).totals_by("node")
    return {node: amounts for (node,), amounts in taken.items()}


def sum_cards(gpu_ids: Iterable[int]) -> dict[int, tuple[int, int, int]]:
    """Return {card: (MiB, percent, tasks) taken}."""
    taken = Holding.objects.live().filter(gpu__in=list(gpu_ids)).order_by().values_list("gpu")
    columns = {"mib": Sum("gpu_memory_mib"), "percent": Sum("gpu_compute_percent"), "count": Count("pk")}
    return {gpu: (mib, percent, count) for gpu, mib, percent, count in taken.annotate(**columns)}


def load_everyone() -> UserLimit:
    """Load default limits."""
    return get_default_limit()


def count_active(user_id: int) -> int:
    return Job.objects.filter(user=user_id, state__in=JOB_ACTIVE).count()


def find_maintenance(node_ids: Iterable[int], time_s: float) -> Maintenance | None:
    """Return the first maintenance there within `time_s`."""
    planned = load_maintenance(Now())
    if not planned:
        return None
    ends_at = database_now() + timedelta(seconds=time_s) if isfinite(time_s) else None
    return first_before(planned, node_ids, ends_at)


def load_ports(nodes: Iterable[int]) -> list[tuple[int, dict[str, int]]]:
    """Return (node, {declared: actual}) of tasks with holdings."""
    return list(Task.objects.holding().filter(node__in=list(nodes)).values_list("node", "ports"))


def write_holdings(rows: Iterable[Holding]) -> None:
    Holding.objects.bulk_create(rows)


def load_share(uuid: str) -> Holding:
    """Load a single-card task's holding."""
    return Holding.objects.live().get(task=uuid, gpu__isnull=False)


def end_share(share: Holding) -> None:
    Holding.objects.filter(pk=share.pk).release()


def clear_wait(job_ids: Iterable[int]) -> None:
    """Clear wait reasons and positions."""
    Job.objects.filter(pk__in=list(job_ids)).update(wait_reasons=[], wait_position=None, wait_of=None)
