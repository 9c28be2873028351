"""Maintenance windows of machines."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models.functions import Now

from cluster.models import Gpu, Maintenance, Node
from cluster.nodes import touch_node
from common.errors import FieldError, InvalidInput
from common.locks import database_now, lock_rows
from events.record_and_publish import Actor, hint, record


@dataclass(frozen=True)
class Closed:
    maintenance: Maintenance
    node_ids: frozenset[int]


def load_maintenance(now: datetime | Now) -> list[Closed]:
    """Return present and future maintenance with machines, earliest first."""
    rows = load_planned(now)
    of_pool = _machines_of_pools(row.pool_id for row in rows)
    return [Closed(row, _machines(row, of_pool)) for row in rows]


def load_planned(now: datetime | Now) -> list[Maintenance]:
    return list(Maintenance.objects.not_over(now).order_by("begins_at", "pk"))


@transaction.atomic
def save_maintenance(*, actor: Actor, maintenance: Maintenance, nodes: Iterable[Node]) -> Maintenance:
    """Store a new or changed maintenance. Raises InvalidInput.

    It locks the nodes, as a start does before it checks for maintenance, so that none slips in between.
    """
    named, made = list(nodes), maintenance.pk is None
    _check_times_and_machines(maintenance, named)
    before = set() if made else _machines_now(Maintenance.objects.get(pk=maintenance.pk))
    of_pool = _machines_of_pools([maintenance.pool_id])
    after = {node.pk for node in named} | of_pool.get(maintenance.pool_id or 0, set())
    machines = lock_rows(Node.objects.filter(pk__in=before | after).select_related("pool"))
    maintenance.planned_by = maintenance.planned_by or actor.name
    maintenance.save()
    maintenance.nodes.set(named)
    for node in machines:
        stays = node.pk in after
        _record_event(node, "node.maintenance_planned" if stays else "node.maintenance_ended", maintenance, actor)
    return maintenance


@transaction.atomic
def end_maintenance(*, actor: Actor, maintenance: Maintenance) -> None:
    """Cancel a planned maintenance, or end a present one."""
    machines = lock_rows(Node.objects.filter(pk__in=_machines_now(maintenance)).select_related("pool"))
    now = database_now()
    for node in machines:
        _record_event(node, "node.maintenance_ended", maintenance, actor)
    if maintenance.begins_at < now < maintenance.ends_at:
        Maintenance.objects.filter(pk=maintenance.pk).update(ends_at=now)
    elif maintenance.begins_at >= now:
        Maintenance.objects.filter(pk=maintenance.pk).delete()
    hint("cycle")


def _check_times_and_machines(maintenance: Maintenance, named: list[Node]) -> None:
    errors = []
    if maintenance.ends_at <= maintenance.begins_at:
        errors.append(FieldError("/ends_at", "maintenance_backwards"))
    elif maintenance.ends_at <= database_now():
        errors.append(FieldError("/ends_at", "maintenance_over"))
    if not named and maintenance.pool_id is None:
        errors.append(FieldError("/nodes", "maintenance_nowhere"))
    if errors:
        raise InvalidInput(errors)


def _record_event(node: Node, verb: str, maintenance: Maintenance, actor: Actor) -> None:
    times = {"from": maintenance.begins_at.isoformat(), "until": maintenance.ends_at.isoformat()}
    record(node, verb, actor=actor, params={**times, "why": maintenance.why, "stops": maintenance.stops})
    touch_node(node)


def _machines_now(maintenance: Maintenance) -> frozenset[int]:
    return _machines(maintenance, _machines_of_pools([maintenance.pool_id]))


def _machines(maintenance: Maintenance, of_pool: dict[int, set[int]]) -> frozenset[int]:
    named = {node.pk for node in maintenance.nodes.all()}
    return frozenset(named | of_pool.get(maintenance.pool_id or 0, set()))


def _machines_of_pools(pool_ids: Iterable[int | None]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {pool_id: set() for pool_id in pool_ids if pool_id is not None}
    if found:
        home = Node.objects.present().filter(pool__in=found).values_list("pool_id", "pk")
        cards = Gpu.objects.present().filter(pool__in=found).values_list("pool_id", "node_id")
        for pool_id, node_id in (*home, *cards):
            found[pool_id].add(node_id)
    return found
