"""Write the runtime's nodes and cards into the database."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from cluster.agents import load_reported
from cluster.models import OUT_OF_SERVICE, Cached, Gpu, Node, NodeState, Pool
from cluster.report_approval import Reported
from common.locks import database_now, lock_rows
from common.resources import is_instance
from events.record_and_publish import SYSTEM, EventLine, hint, publish_pool, record, record_all
from events.transitions import Move, advance
from quotas.models import Holding
from runtimes.contract.node import GpuView, HeldView, NodeView
from runtimes.gpu_sharing import PLUGIN
from scheduler.inventory.inventory_diff import load_rows_of, record_seen

DEV, TRAIN = "dev", "train"
MISSING_AFTER = timedelta(seconds=60)
LONGEST_KEY = 200
"""Longest key that `cluster.Cached` can store."""
DEV_OVERCOMMIT_PERCENT = 200
"""Notebooks and shells leave most cores idle, so their pool offers each core twice."""


def record_inventory(views: Sequence[NodeView]) -> list[Node]:
    """Store nodes and cards; new cards join the pools of `_first_use`.

    Changed nodes get a transaction each: a thousand take minutes, and an interrupted run resumes.
    """
    views = add_reported(views)
    make_first_pools(sum(len(view.gpus) for view in views))
    same = find_unchanged(views)
    changed = [record_node(view) for view in sorted(views, key=lambda view: view.name) if view.name not in same]
    record_seen(list(same.values()))
    record_missing(view.name for view in views)
    return sorted([*same.values(), *changed], key=lambda node: node.name)


def find_unchanged(views: Sequence[NodeView]) -> dict[str, Node]:
    """Return {name: row} of unchanged nodes."""
    seen = {view.name: view for view in views}
    rows = load_rows_of(seen)
    return {node.name: node for node, cards, held in rows if _is_unchanged(seen[node.name], node, cards, held)}


def _is_unchanged(view: NodeView, node: Node, cards: Sequence[Gpu], held: dict[tuple[str, str], int]) -> bool:
    return (
        all(getattr(node, name) == value for name, value in _columns(view).items())
        and (node.state in OUT_OF_SERVICE or node.state in _states(view.ready))
        and [convert_card(card) for card in cards] == sorted(view.gpus, key=lambda card: card.index)
        and all(card.healthy == (not card.why_out) for card in cards)
        and (view.held is None or held == _wanted(view.held))
    )


def add_reported(views: Sequence[NodeView]) -> list[NodeView]:
    """Add agents' approved cards where the runtime sees no real ones."""
    reported = load_reported(view.name for view in views if all(gpu.simulated for gpu in view.gpus))
    return [_with_reported(view, reported.get(view.name)) for view in views]


def _with_reported(view: NodeView, reported: Reported | None) -> NodeView:
    if reported is None:
        return view
    return replace(
        view,
        gpus=reported.gpus,
        links=reported.links,
        pcie=reported.pcie,
        hcas=reported.hcas,
        numa=view.numa or reported.numa,
        facts={**reported.facts, **view.facts},
    )


def make_first_pools(cards: int) -> None:
    """Create `dev` (sliced) and perhaps `train` (whole) if no pool exists."""
    if Pool.objects.exists():
        return
    with transaction.atomic():
        Pool.objects.create(name=DEV, shared=True, max_slices_per_gpu=8, cpu_overcommit_percent=DEV_OVERCOMMIT_PERCENT)
        if cards > 1:
            Pool.objects.create(name=TRAIN, shared=False)


@transaction.atomic
def record_node(view: NodeView) -> Node:
    home = Pool.objects.filter(name=DEV).first() or Pool.objects.order_by("pk")[0]
    node, made = Node.objects.get_or_create(
        name=view.name, defaults={"pool": home, "cpu_milli": view.cpu_milli, "memory_mib": view.memory_mib}
    )
    node = lock_rows(Node.objects.filter(pk=node.pk))[0]
    if made:
        record(node, "node.added", actor=SYSTEM, params={"gpus": len(view.gpus)})
    Node.objects.filter(pk=node.pk).update(**_columns(view), last_seen_at=Now(), removed_at=None)
    _follow_health(node, ready=view.ready)
    record_cards(node, view.gpus)
    if view.held is not None:
        record_held(node, view.held)
    return node


def _columns(view: NodeView) -> dict[str, object]:
    return {
        "address": view.address,
        "boot_id": view.boot_id,
        "cpu_milli": view.cpu_milli,
        "memory_mib": view.memory_mib,
        "numa": [{"id": n.id, "cpus": list(n.cpus), "memory_mib": n.memory_mib, "socket": n.socket} for n in view.numa],
        "topology": _describe_topology(view),
        "facts": view.facts,
    }


def _describe_topology(view: NodeView) -> dict[str, object]:
    known: dict[str, object] = {"links": [list(row) for row in view.links], "pcie": [list(row) for row in view.pcie]}
    places = [str(gpu.index) for gpu in view.gpus]
    hcas = [{**asdict(hca), "near": dict(zip(places, hca.near, strict=True))} for hca in view.hcas]
    return known | {"hcas": hcas} if hcas else known


@transaction.atomic
def record_missing(names: Iterable[str]) -> None:
    """Set nodes NOT_READY after MISSING_AFTER; holdings stay."""
    missing = (
        Node.objects.present().exclude(name__in=list(names)).filter(last_seen_at__lt=database_now() - MISSING_AFTER)
    )
    for node in lock_rows(missing.exclude(state__in=[NodeState.NOT_READY, *OUT_OF_SERVICE])):
        _follow_health(node, ready=False)


def record_held(node: Node, views: Iterable[HeldView]) -> None:
    """Replace the locked node's cached content."""
    wanted = _wanted(views)
    known = {(row.kind, row.key): row for row in Cached.objects.filter(node=node)}
    Cached.objects.filter(pk__in=[row.pk for key, row in known.items() if key not in wanted]).delete()
    for key, size in wanted.items():
        if key not in known:
            Cached.objects.create(node=node, kind=key[0], key=key[1], bytes=size)
        elif known[key].bytes != size:
            Cached.objects.filter(pk=known[key].pk).update(bytes=size)


def _wanted(views: Iterable[HeldView]) -> dict[tuple[str, str], int]:
    return {(view.kind, view.key): view.bytes for view in views if len(view.key) <= LONGEST_KEY}


def record_cards(node: Node, views: Iterable[GpuView]) -> None:
    """Create, update and retire a node's cards."""
    views = sorted(views, key=lambda view: view.index)
    _move_foreign_cards(node, views)
    known = {gpu.uuid: gpu for gpu in Gpu.objects.filter(node=node)}
    _free_indices(known.values(), views)
    for gpu in known.values():
        if gpu.removed_at is None and gpu.uuid not in {view.uuid for view in views}:
            Gpu.objects.filter(pk=gpu.pk).update(removed_at=Now(), healthy=False)
            record(node, "gpu.gone", actor=SYSTEM, params={"gpu": gpu.uuid, "held": _is_held(gpu)})
    for view in views:
        if view.uuid in known:
            gpu = known[view.uuid]
            Gpu.objects.filter(pk=gpu.pk).update(**_card_columns(view, gpu.closed))
            _record_health(node, gpu, view)
    whole = sum(not is_instance(view.product) for view in views)
    _add_cards(node, [view for view in views if view.uuid not in known], whole)


def _card_columns(view: GpuView, closed: str = "") -> dict[str, Any]:
    return {
        "index": view.index,
        "model": view.model,
        "product": view.product,
        "memory_mib": view.memory_mib,
        "reserved_mib": view.reserved_mib,
        "numa": view.numa,
        "bus": view.bus,
        "simulated": view.simulated,
        "enforcement": view.mode,
        "evidence": view.evidence,
        "healthy": not view.fault and not closed,
        "fault": view.fault,
        "probed_at": Now(),
        "removed_at": None,
    }


def _add_cards(node: Node, views: Sequence[GpuView], cards: int) -> None:
    """Create cards in bulk. cards: the node's whole ones."""
    if not views:
        return
    pools = {name: Pool.objects.filter(name=name).first() or Pool.objects.order_by("pk")[0] for name in (DEV, TRAIN)}
    new = [
        Gpu(uuid=view.uuid, node=node, pool=pools[_first_use(view.index, cards)], **_card_columns(view))
        for view in views
    ]
    Gpu.objects.bulk_create(new)
    record_all([EventLine(node, {"gpu": gpu.uuid, "pool": gpu.pool.name}) for gpu in new], "gpu.added", actor=SYSTEM)
    for pool in {gpu.pool_id for gpu in new}:
        publish_pool(pool)
    hint("cycle")


def convert_card(gpu: Gpu) -> GpuView:
    """Convert a row to the runtime's type."""
    return GpuView(
        uuid=gpu.uuid,
        index=gpu.index,
        model=gpu.model,
        product=gpu.product,
        memory_mib=gpu.memory_mib,
        reserved_mib=gpu.reserved_mib,
        numa=gpu.numa,
        bus=gpu.bus,
        simulated=gpu.simulated,
        mode=gpu.enforcement,
        evidence=gpu.evidence,
        fault=gpu.fault,
        pin=gpu.node.facts.get("gpu_pin", PLUGIN),
    )


def _move_foreign_cards(node: Node, views: Iterable[GpuView]) -> None:
    """Move unheld cards from another node."""
    held = Holding.objects.live().filter(gpu__isnull=False).values("gpu")
    there = Gpu.objects.filter(uuid__in=[view.uuid for view in views], removed_at__isnull=False)
    there.exclude(node=node).exclude(pk__in=held).update(node=node)


def _free_indices(known: Iterable[Gpu], views: Iterable[GpuView]) -> None:
    """Retire rows whose index changes: live indices are unique."""
    now = {view.uuid: view.index for view in views}
    moved = [gpu.pk for gpu in known if gpu.removed_at is None and now.get(gpu.uuid, gpu.index) != gpu.index]
    if moved:
        Gpu.objects.filter(pk__in=moved).update(removed_at=Now())


def _record_health(node: Node, before: Gpu, view: GpuView) -> None:
    """Record a card's fault or recovery."""
    sound = not view.fault and not before.closed
    if before.healthy == sound:
        return
    verb = "gpu.sound" if sound else "gpu.broken"
    record(node, verb, actor=SYSTEM, params={"gpu": before.uuid, "why": view.fault, "held": _is_held(before)})
    publish_pool(before.pool_id)
    hint("cycle")


def _first_use(index: int, cards: int) -> str:
    """Return `dev` for the first half of a node's cards, else `train`."""
    return DEV if index < (cards + 1) // 2 else TRAIN


def _follow_health(node: Node, *, ready: bool) -> None:
    """Set the node READY or NOT_READY unless an admin took it out of service, or it is suspect."""
    if node.state in OUT_OF_SERVICE or node.state in _states(ready):
        return
    advance([Move(node)], _states(ready)[0], actor=SYSTEM)
    hint("cycle")


def _states(ready: bool) -> tuple[str, ...]:
    """Return the state of a node, and what else it may be. Only its agent's silence makes it suspect."""
    return (NodeState.READY, NodeState.SUSPECT) if ready else (NodeState.NOT_READY,)


def _is_held(gpu: Gpu) -> bool:
    return Holding.objects.live().filter(gpu=gpu).exists()
