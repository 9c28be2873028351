"""Take machines and cards out of service and back. Callers have checked the permission node.change."""

from collections.abc import Collection

from django.db import transaction

from cluster.models import LONGEST_SWITCH, OUT_OF_SERVICE, Gpu, Node, NodeState
from common.errors import FieldError, InvalidInput, NotFound
from common.locks import lock_rows
from events.record_and_publish import Actor, hint, publish_pool, record
from events.transitions import Move, advance


def find_node(name: str) -> Node:
    """Return a machine that is there. Raises NotFound."""
    node = Node.objects.present().filter(name=name).first()
    if node is None:
        raise NotFound(kind="node", id=name)
    return node


def find_card(uuid: str) -> Gpu:
    """Return a card that is there, with its machine. Raises NotFound."""
    gpu = Gpu.objects.present().select_related("node").filter(uuid=uuid).first()
    if gpu is None:
        raise NotFound(kind="gpu", id=uuid)
    return gpu


def cordon_node(*, actor: Actor, node: Node, why: str = "") -> None:
    """Start nothing new on the machine; what runs goes on. Ends a drain, too."""
    _move(node, NodeState.CORDONED, actor, why)


def drain_node(*, actor: Actor, node: Node, why: str = "") -> None:
    """Start nothing new on the machine, and stop and requeue preemptible jobs; other jobs run to their end."""
    _move(node, NodeState.DRAINING, actor, why)


def uncordon_node(*, actor: Actor, node: Node) -> None:
    """Take the machine back into service. If it does not answer, the next inventory finds it not ready."""
    _move(node, NodeState.READY, actor, "", only=OUT_OF_SERVICE)


@transaction.atomic
def set_switch(*, actor: Actor, node: Node, switch: str) -> None:
    """Say to which network switch the machine is connected, "" to go by what the cluster says. Raises InvalidInput."""
    name = switch.strip()
    if len(name) > LONGEST_SWITCH or not name.isprintable():
        raise InvalidInput([FieldError("/switch", "bad_switch", {"max": LONGEST_SWITCH})])
    (locked,) = lock_rows(Node.objects.filter(pk=node.pk))
    if locked.switch == name:
        return
    Node.objects.filter(pk=node.pk).update(switch=name)
    record(locked, "node.changed", actor=actor, params={"from": {"switch": locked.switch}, "to": {"switch": name}})
    touch_node(locked)


def cordon_card(*, actor: Actor, gpu: Gpu, why: str) -> None:
    """Start nothing new on a card until a person takes it back; what runs goes on. Raises InvalidInput without why."""
    if not why.strip():
        raise InvalidInput([FieldError("/why", "required")])
    _set_closed(gpu, why.strip(), actor)


def uncordon_card(*, actor: Actor, gpu: Gpu) -> None:
    """Let work start on a cordoned card again, if it has no fault."""
    _set_closed(gpu, "", actor)


def touch_node(node: Node) -> None:
    """On commit, let pages of the node's pools refresh, and a cycle run."""
    for pool_id in {node.pool_id, *Gpu.objects.present().filter(node=node).values_list("pool_id", flat=True)}:
        publish_pool(pool_id)
    hint("cycle")


@transaction.atomic
def _set_closed(gpu: Gpu, why: str, actor: Actor) -> None:
    """The machine is locked, too: its inventory writes whether cards are healthy."""
    (node,) = lock_rows(Node.objects.filter(pk=gpu.node_id))
    (card,) = lock_rows(Gpu.objects.filter(pk=gpu.pk))
    if card.closed == why:
        return
    healthy = not card.fault and not why
    Gpu.objects.filter(pk=card.pk).update(closed=why, healthy=healthy)
    changed = card.healthy != healthy
    verb = ("gpu.sound" if healthy else "gpu.broken") if changed else "gpu.changed"
    record(node, verb, actor=actor, params={"gpu": card.uuid, "why": why})
    publish_pool(card.pool_id)
    hint("cycle")


@transaction.atomic
def _move(node: Node, to: NodeState, actor: Actor, why: str, only: Collection[str] = tuple(NodeState.values)) -> None:
    """only: the states that it moves from."""
    (locked,) = lock_rows(Node.objects.filter(pk=node.pk))
    if locked.state == to or locked.state not in only:
        return
    advance([Move(locked, params={"why": why} if why else {})], to, actor=actor)
    touch_node(locked)
