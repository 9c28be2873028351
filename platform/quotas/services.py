"""Change quotas and limits, and check counts at submit."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.models import TeamRole, User
from accounts.permissions import require
from cluster.capacity import cards_by_node
from common.errors import FieldError, InvalidInput, QuotaExceeded
from common.locks import lock_rows
from events.notices import notify
from events.record_and_publish import hint, publish_pool, record, record_change
from quotas.models import RESOURCES, Amounts, Quota, UserLimit, add_amounts

AMOUNTS = tuple(f"{name}_{kind}" for name in RESOURCES for kind in ("guarantee", "limit"))
FIRST_LIMITS = {"jobs_running": 100, "jobs_waiting": 1000, "notebooks_running": 2, "notebook_hours": 24}
QUOTA_FIELDS = (*AMOUNTS, "weight", "cell")
MOST_NAMED = 5
"""Holders that a refusal names; the rest is only counted."""


def check_quota(
    quota: Quota, *, pool_total: Amounts, promised: Amounts, nodes: Sequence[int], promised_nodes: int
) -> list[FieldError]:
    """Return what is inconsistent about a quota.

    pool_total: of the pool. promised, promised_nodes: guaranteed to other teams. nodes: cards per node.
    """
    problems = _cell_problems(quota, nodes, promised_nodes)
    for name, total, others in zip(RESOURCES, pool_total, promised, strict=True):
        guarantee, limit = getattr(quota, f"{name}_guarantee"), getattr(quota, f"{name}_limit")
        if limit is not None and guarantee > limit:
            words = {"guarantee": guarantee, "limit": limit}
            problems.append(FieldError(f"/{name}_guarantee", "guarantee_above_limit", words))
        if guarantee and guarantee + others > total:
            words = {"guarantee": guarantee, "left": max(total - others, 0), "total": total}
            problems.append(FieldError(f"/{name}_guarantee", "guarantee_above_pool", words))
    if quota.team.parent_id and _parent_limit_below(quota):
        words = {"parent": str(quota.team.parent)}
        problems.append(FieldError("/gpu_milli_guarantee", "guarantee_above_parent", words))
    return problems


@transaction.atomic
def save_quota(*, actor: User, quota: Quota, pool_total: tuple[int, int, int]) -> Quota:
    """Save a quota; a lower limit stops nothing. Raises InvalidInput."""
    require(actor, "quota.change")
    rows = lock_rows(Quota.objects.filter(pool=quota.pool))
    before = next((row for row in rows if row.pk == quota.pk), None)
    others = [row for row in rows if row.pk != quota.pk and row.team.parent_id is None]
    if quota.team.parent_id:  # within its parent's guarantee
        others = []
    if problems := check_quota(
        quota,
        pool_total=pool_total,
        promised=add_amounts(row.guarantees() for row in others),
        nodes=cards_by_node(quota.pool),
        promised_nodes=sum(row.whole_nodes for row in others if row.cell == quota.cell),
    ):
        raise InvalidInput(problems)
    quota.save()
    if record_change(quota, before, QUOTA_FIELDS, "quota.changed" if before else "quota.made", actor=actor.as_actor):
        _notify_leads(quota, actor)
    publish_pool(quota.pool_id)
    hint("cycle")
    return quota


@transaction.atomic
def delete_quota(*, actor: User, quota: Quota) -> None:
    require(actor, "quota.change")
    lock_rows(Quota.objects.filter(pk=quota.pk))
    params = {"from": {name: getattr(quota, name) for name in QUOTA_FIELDS}, "to": {}}
    record(quota, "quota.deleted", actor=actor.as_actor, params=params)
    _notify_leads(quota, actor)
    quota.delete()
    hint("cycle")


@transaction.atomic
def save_user_limit(*, actor: User, limit: UserLimit) -> UserLimit:
    require(actor, "quota.change")
    before = next(iter(lock_rows(UserLimit.objects.filter(pk=limit.pk))), None)
    limit.save()
    verb = "limit.changed" if before else "limit.made"
    record_change(limit, before, UserLimit.FIELDS, verb, actor=actor.as_actor)
    hint("cycle")
    return limit


def get_default_limit() -> UserLimit:
    """Return the row for people without limits of their own."""
    return UserLimit.objects.get_or_create(user=None, defaults=FIRST_LIMITS)[0]


def ensure_user_limit(user: User) -> UserLimit:
    """Return the person's own row, which allocation locks."""
    return UserLimit.objects.get_or_create(user=user)[0]


def load_limits(user: User) -> dict[str, int | None]:
    """Return a person's limits by field of UserLimit; None for no limit."""
    everyone, own = _load_limit_rows(user)
    return (own or everyone).effective(everyone)


def admit_waiting_job(*, user: User, waiting: QuerySet) -> None:
    _admit_one_more(user, "jobs_waiting", waiting)


def admit_notebook(*, user: User, running: QuerySet) -> None:
    """Raise QuotaExceeded at the person's limit. running: the others."""
    _admit_one_more(user, "notebooks_running", running)


def find_full_limit(user: User, what: str, held: QuerySet) -> QuotaExceeded | None:
    """Return what would refuse one more now, or None. held: what counts, each with a name and a public_id."""
    return _find_refusal(what, held, load_limits(user)[what])


def get_notebook_hours(user: User) -> int | None:
    """Return how long a notebook runs without extension; None for no limit."""
    return load_limits(user)["notebook_hours"]


def _admit_one_more(user: User, what: str, held: QuerySet) -> None:
    """Raise QuotaExceeded at a limit. Its row is locked before counting, against races.

    Without a limit there is no lock, as the scheduler waits for this row.
    """
    everyone, own = _load_limit_rows(user)
    own = own or ensure_user_limit(user)
    if own.effective(everyone)[what] is None:
        return
    allowed = lock_rows(UserLimit.objects.filter(user=user))[0].effective(everyone)[what]
    if refusal := _find_refusal(what, held, allowed):
        raise refusal


def _load_limit_rows(user: User) -> tuple[UserLimit, UserLimit | None]:
    """Return the limits for everyone, and the person's own row."""
    rows = {row.user_id: row for row in UserLimit.objects.filter(Q(user=None) | Q(user=user))}
    return rows.get(None) or get_default_limit(), rows.get(user.pk)


def _find_refusal(what: str, held: QuerySet, limit: int | None) -> QuotaExceeded | None:
    """Return the refusal of one more, which names what holds the limit."""
    if limit is None or (used := held.count()) < limit:
        return None
    holders = [f"{one.name} ({one.public_id})" for one in held.order_by("-pk")[:MOST_NAMED]]
    more = ["…"] if used > MOST_NAMED else []
    return QuotaExceeded(what=what, used=used, limit=limit, holders=[*holders, *more])


def _notify_leads(quota: Quota, actor: User) -> None:
    leads = quota.team.memberships.filter(role=TeamRole.LEAD, user__suspended_at__isnull=True).exclude(user=actor)
    params = {"team": quota.team.name, "pool": quota.pool.name}
    for user_id in leads.values_list("user_id", flat=True):
        notify(user_id=user_id, kind="quota_changed", about=quota, params=params)


def _cell_problems(quota: Quota, nodes: Sequence[int], promised: int) -> list[FieldError]:
    if quota.cell <= 1:
        return []
    total, words = nodes.count(quota.cell), {"cards": quota.cell, "pool": quota.pool.name}
    if not total:
        return [FieldError("/cell", "cell_without_node", words | {"largest": max(nodes, default=0)})]
    if not quota.whole_nodes:
        return [FieldError("/cell", "cell_above_guarantee", words)]
    if quota.whole_nodes + promised > total:
        left = {"nodes": quota.whole_nodes, "left": max(total - promised, 0), "total": total}
        return [FieldError("/cell", "cells_above_pool", words | left)]
    return []


def _parent_limit_below(quota: Quota) -> bool:
    parent = Quota.objects.filter(team=quota.team.parent, pool=quota.pool).first()
    return bool(parent and parent.gpu_milli_limit is not None and quota.gpu_milli_guarantee > parent.gpu_milli_limit)
