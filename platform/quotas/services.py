"""Change quotas and limits, and check counts at submit."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.directory import find_person
from accounts.models import TeamRole, User
from accounts.permissions import require
from cluster.capacity import cards_by_node, pool_total
from cluster.models import Pool
from common.errors import FieldError, InvalidInput, QuotaExceeded
from common.locks import database_now, lock_rows
from events.notices import notify
from events.record_and_publish import SYSTEM, Actor, hint, publish_pool, record, record_change
from quotas.models import QUOTA_FIELDS, RESOURCES, Amounts, Quota, UserLimit, add_amounts
from quotas.until import Until, check_until, list_moments, plan_return, put_back, quota_at

FIRST_LIMITS = {"jobs_running": 100, "jobs_waiting": 1000, "notebooks_running": 2, "notebook_hours": 24}
EVERYONE = "everyone"
"""The name of the limits for people without limits of their own."""
MOST_NAMED = 5
"""Holders that a refusal names; the rest is only counted."""


def check_quota(
    quota: Quota,
    *,
    pool_total: Amounts,
    promised: Amounts,
    nodes: Sequence[int],
    promised_nodes: int,
    parent: Quota | None = None,
) -> list[FieldError]:
    """Return what is inconsistent about a quota.

    pool_total: of the pool. promised, promised_nodes: guaranteed to other teams. nodes: cards per node. parent: the
    quota of the parent team in the pool.
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
    if parent and parent.gpu_milli_limit is not None and quota.gpu_milli_guarantee > parent.gpu_milli_limit:
        problems.append(FieldError("/gpu_milli_guarantee", "guarantee_above_parent", {"parent": str(parent.team)}))
    return problems


def save_quota(*, actor: User, quota: Quota, until: Until = None) -> Quota:
    """Save a quota; a lower limit stops nothing. until: as for `save_quotas`. Raises InvalidInput."""
    try:
        return save_quotas(actor=actor, quotas=[quota], until=[until])[0]
    except InvalidInput as refused:
        raise InvalidInput([replace(one, pointer=one.pointer.removeprefix("/0")) for one in refused.errors]) from None


@transaction.atomic
def save_quotas(*, actor: User, quotas: Sequence[Quota], until: Sequence[Until] = ()) -> list[Quota]:
    """Save several quotas together, all or none, so that one team may get what another gives.

    until: until when what is changed of each holds. Raises InvalidInput, whose pointers begin with the quota's place.
    """
    require(actor, "quota.change")
    _check_named_once(quotas)
    untils = until or [None] * len(quotas)
    pools = {quota.pool_id: quota.pool for quota in quotas}
    locked = lock_rows(Quota.objects.filter(pool__in=pools).select_related("team"))
    before = {row.pk: row for row in locked}
    now = database_now()
    problems = {
        place: check_until(one, now) or plan_return(quota, before.get(quota.pk), one)
        for place, (quota, one) in enumerate(zip(quotas, untils, strict=True))
    }
    if not any(problems.values()):
        problems = _check_now_and_later(quotas, {(row.team_id, row.pool_id): row for row in (*locked, *quotas)}, pools)
    if any(problems.values()):
        raise InvalidInput(
            [replace(one, pointer=f"/{place}{one.pointer}") for place, found in problems.items() for one in found]
        )
    for quota, one in zip(quotas, untils, strict=True):
        _store(quota, before.get(quota.pk), actor.as_actor, holds_until=isinstance(one, datetime))
    hint("cycle")
    return list(quotas)


@transaction.atomic
def delete_quota(*, actor: User, quota: Quota) -> None:
    require(actor, "quota.change")
    lock_rows(Quota.objects.filter(pk=quota.pk))
    _delete(quota, actor.as_actor)
    hint("cycle")


@transaction.atomic
def end_until(*, actor: User, quota: Quota) -> None:
    """Let a quota return now to what it returns to later. Nothing, if it has already."""
    require(actor, "quota.change")
    for locked in lock_rows(Quota.objects.filter(pk=quota.pk, until__isnull=False).select_related("team", "pool")):
        _return(locked, actor.as_actor)


@transaction.atomic
def return_due_quotas() -> int:
    """Let those return whose moment has come, all together, and count them."""
    due = lock_rows(Quota.objects.filter(until__lte=database_now()).select_related("team", "pool"))
    for quota in due:
        _return(quota, SYSTEM)
    return len(due)


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


def find_limit(name: str) -> UserLimit:
    """Return a person's own limits, not saved if there are none, or those for EVERYONE. Raises NotFound."""
    if name == EVERYONE:
        return get_default_limit()
    user = find_person(name)
    return UserLimit.objects.filter(user=user).select_related("user").first() or UserLimit(user=user)


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


def _check_named_once(quotas: Sequence[Quota]) -> None:
    seen: set[tuple[int, int]] = set()
    for place, quota in enumerate(quotas):
        if (key := (quota.team_id, quota.pool_id)) in seen:
            words = {"team": quota.team.name, "pool": quota.pool.name}
            raise InvalidInput([FieldError(f"/{place}", "quota_twice", words)])
        seen.add(key)


def _check_now_and_later(
    quotas: Sequence[Quota], after: Mapping[tuple[int, int], Quota], pools: Mapping[int, Pool]
) -> dict[int, list[FieldError]]:
    """Return what is inconsistent by the quota's place, now or, if nothing is, when one in these pools returns.

    after: {(team, pool): quota as it will be}.
    """
    has = {pk: (pool_total(pool), cards_by_node(pool)) for pk, pool in pools.items()}
    for moment in (None, *list_moments(after.values())):
        then = {key: at for key, quota in after.items() if (at := quota_at(quota, moment))}
        found = {
            place: _check_among(at, then, *has[quota.pool_id])
            for place, quota in enumerate(quotas)
            if (at := then.get((quota.team_id, quota.pool_id)))
        }
        if any(found.values()):
            return {place: [_at_return(one, moment) for one in problems] for place, problems in found.items()}
    return {}


def _at_return(problem: FieldError, moment: datetime | None) -> FieldError:
    return problem if moment is None else FieldError(problem.pointer, "clash_at_return", {"at": moment.timestamp()})


def _check_among(
    quota: Quota, after: Mapping[tuple[int, int], Quota], total: Amounts, nodes: Sequence[int]
) -> list[FieldError]:
    """after: {(team, pool): quota as it will be}. total, nodes: what its pool has, and the cards of each node."""
    others = [row for row in after.values() if row.pool_id == quota.pool_id and row.team_id != quota.team_id]
    # Within its parent's guarantee, a quota promises nothing more of the pool.
    promising = [] if quota.team.parent_id else [row for row in others if row.team.parent_id is None]
    return check_quota(
        quota,
        pool_total=total,
        promised=add_amounts(row.guarantees() for row in promising),
        nodes=nodes,
        promised_nodes=sum(row.whole_nodes for row in promising if row.cell == quota.cell),
        parent=after.get((quota.team.parent_id, quota.pool_id)) if quota.team.parent_id else None,
    )


def _store(quota: Quota, before: Quota | None, actor: Actor, *, holds_until: bool) -> None:
    quota.save()
    verb = "quota.changed" if before else "quota.made"
    until = {"kind": "until", "until": quota.until.isoformat()} if quota.until and holds_until else {}
    if record_change(quota, before, QUOTA_FIELDS, verb, actor=actor, also=until):
        _notify_leads(quota, actor)
    elif before and before.until != quota.until:
        record(quota, "quota.until_changed" if quota.until else "quota.kept", actor=actor, params=until)
        _notify_leads(quota, actor)
    publish_pool(quota.pool_id)


def _return(quota: Quota, actor: Actor) -> None:
    """Put a locked quota back, which is not checked anew: it was when it was promised, and takes nothing from jobs."""
    if quota.then is None:
        _delete(quota, actor)
    else:
        before = copy(quota)
        put_back(quota)
        quota.save()
        record_change(quota, before, QUOTA_FIELDS, "quota.returned", actor=actor)
        _notify_leads(quota, actor)
    hint("cycle")


def _delete(quota: Quota, actor: Actor) -> None:
    params = {"from": {name: getattr(quota, name) for name in QUOTA_FIELDS}, "to": {}}
    record(quota, "quota.deleted", actor=actor, params=params)
    _notify_leads(quota, actor)
    quota.delete()


def _notify_leads(quota: Quota, actor: Actor) -> None:
    leads = quota.team.memberships.filter(role=TeamRole.LEAD, user__suspended_at__isnull=True).exclude(user=actor.id)
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
