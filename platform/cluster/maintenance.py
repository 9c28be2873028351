"""Maintenance windows of machines."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models.functions import Now

from cluster.models import Gpu, Maintenance, Node
from cluster.nodes import touch_node
from common.errors import FieldError, InvalidInput, NotFound
from common.locks import database_now, lock_rows
from events.record_and_publish import Actor, hint, record


@dataclass(frozen=True)
class Closed:
    maintenance: Maintenance
    node_ids: frozenset[int]


def load_maintenance(now: datetime | Now, until: datetime | None = None) -> list[Closed]:
    """Return present and future maintenance with machines, earliest first. until: what begins later is left out."""
    rows = [row for row in load_planned(now) if until is None or row.begins_at <= until]
    of_pool = list_machines_of_pools(row.pool_id for row in rows)
    return [Closed(row, _machines(row, of_pool)) for row in rows]


def list_past(now: datetime | Now, most: int) -> list[Maintenance]:
    """Return the maintenance that is over, newest first."""
    over = Maintenance.objects.filter(ends_at__lte=now).select_related("pool").prefetch_related("nodes")
    return list(over.order_by("-ends_at", "-pk")[:most])


def find_maintenance(pk: int) -> Maintenance:
    """Raises NotFound."""
    row = Maintenance.objects.filter(pk=pk).select_related("pool").prefetch_related("nodes").first()
    if row is None:
        raise NotFound(kind="maintenance", id=str(pk))
    return row


def load_planned(now: datetime | Now) -> list[Maintenance]:
    return list(Maintenance.objects.not_over(now).order_by("begins_at", "pk"))


def list_machines_of_pools(pool_ids: Iterable[int | None], among: Collection[int] | None = None) -> dict[int, set[int]]:
    """Return {pool: its machines, those with a card of it among them}. among: only of these machines."""
    found: dict[int, set[int]] = {pool_id: set() for pool_id in pool_ids if pool_id is not None}
    if found:
        nodes, gpus = Node.objects.present().filter(pool__in=found), Gpu.objects.present().filter(pool__in=found)
        if among is not None:
            nodes, gpus = nodes.filter(pk__in=among), gpus.filter(node__in=among)
        home, cards = nodes.values_list("pool_id", "pk"), gpus.values_list("pool_id", "node_id")
        for pool_id, node_id in (*home.order_by(), *cards.order_by().distinct()):
            found[pool_id].add(node_id)
    return found


def check_maintenance(maintenance: Maintenance, named: Iterable[Node]) -> Maintenance:
    """Return it if it can be saved: its end is right, and it closes a machine. Raises InvalidInput."""
    errors = []
    if maintenance.ends_at <= maintenance.begins_at:
        errors.append(FieldError("/ends_at", "maintenance_backwards"))
    elif maintenance.ends_at <= database_now():
        errors.append(FieldError("/ends_at", "maintenance_over"))
    if not list(named) and maintenance.pool_id is None:
        errors.append(FieldError("/nodes", "maintenance_nowhere"))
    if errors:
        raise InvalidInput(errors)
    return maintenance


@transaction.atomic
def save_maintenance(*, actor: Actor, maintenance: Maintenance, nodes: Iterable[Node]) -> Maintenance:
    """Store a new or changed maintenance. Raises InvalidInput.

    It locks the nodes, as a start does before it checks for maintenance, so that none slips in between.
    """
    named, made = list(nodes), maintenance.pk is None
    check_maintenance(maintenance, named)
    before = set() if made else _machines_now(Maintenance.objects.get(pk=maintenance.pk))
    of_pool = list_machines_of_pools([maintenance.pool_id])
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


def _record_event(node: Node, verb: str, maintenance: Maintenance, actor: Actor) -> None:
    times = {"from": maintenance.begins_at.isoformat(), "until": maintenance.ends_at.isoformat()}
    record(node, verb, actor=actor, params={**times, "why": maintenance.why, "stops": maintenance.stops})
    touch_node(node)


def _machines_now(maintenance: Maintenance) -> frozenset[int]:
    return _machines(maintenance, list_machines_of_pools([maintenance.pool_id]))


def _machines(maintenance: Maintenance, of_pool: dict[int, set[int]]) -> frozenset[int]:
    named = {node.pk for node in maintenance.nodes.all()}
    return frozenset(named | of_pool.get(maintenance.pool_id or 0, set()))
