"""Take machines out of service and back: cordon, drain, uncordon. Callers have checked the permission node.change."""

from collections.abc import Collection

from django.db import transaction

from cluster.models import OUT_OF_SERVICE, Gpu, Node, NodeState
from common.errors import NotFound
from common.locks import lock_rows
from events.record_and_publish import Actor, hint, publish_pool
from events.transitions import Move, advance


def find_node(name: str) -> Node:
    """Return a machine that is there. Raises NotFound."""
    node = Node.objects.present().filter(name=name).first()
    if node is None:
        raise NotFound(kind="node", id=name)
    return node


def cordon_node(*, actor: Actor, node: Node, why: str = "") -> None:
    """Start nothing new on the machine; what runs goes on. Ends a drain, too."""
    _move(node, NodeState.CORDONED, actor, why)


def drain_node(*, actor: Actor, node: Node, why: str = "") -> None:
    """Start nothing new on the machine, and stop and requeue preemptible jobs; other jobs run to their end."""
    _move(node, NodeState.DRAINING, actor, why)


def uncordon_node(*, actor: Actor, node: Node) -> None:
    """Take the machine back into service. If it does not answer, the next inventory finds it not ready."""
    _move(node, NodeState.READY, actor, "", only=OUT_OF_SERVICE)


def touch_node(node: Node) -> None:
    """On commit, let pages of the node's pools refresh, and a cycle run."""
    for pool_id in {node.pool_id, *Gpu.objects.present().filter(node=node).values_list("pool_id", flat=True)}:
        publish_pool(pool_id)
    hint("cycle")


@transaction.atomic
def _move(node: Node, to: NodeState, actor: Actor, why: str, only: Collection[str] = tuple(NodeState.values)) -> None:
    """only: the states that it moves from."""
    (locked,) = lock_rows(Node.objects.filter(pk=node.pk))
    if locked.state == to or locked.state not in only:
        return
    advance([Move(locked, params={"why": why} if why else {})], to, actor=actor)
    touch_node(locked)
