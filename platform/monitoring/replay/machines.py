"""Machines and cards as they were at a past moment: the rows of today, with what happened since undone.

Sizes, models and pools are today's: changes of these are not kept. What returns from here is not to be saved.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from cluster.models import Gpu, Node, Pool
from events.models import Event

SOUND_BEFORE = {"gpu.broken": True, "gpu.sound": False, "gpu.gone": True}
"""{what happened to a card: whether it was in service until then}"""
VERBS = ("state", "node.added", "gpu.added", *SOUND_BEFORE)


@dataclass(frozen=True)
class Undone:
    """What was so before the first change of each. states: of machines by id. sound: of cards by uuid. later_nodes,
    later_cards: came only afterwards.
    """

    states: dict[int, str] = field(default_factory=dict)
    sound: dict[str, bool] = field(default_factory=dict)
    later_nodes: set[int] = field(default_factory=set)
    later_cards: set[str] = field(default_factory=set)


def load_machines(at: datetime, name: str = "") -> tuple[list[Node], list[Gpu]]:
    """Return the machines that were there, by name, and their cards, by index, in the states of that moment.

    name: of the only one that is asked for.
    """
    undone, there = load_undone(at), was_there(at)
    wanted = Node.objects.filter(there, name=name) if name else Node.objects.filter(there)
    machines = wanted.select_related("pool").defer("numa", "topology", "facts").order_by("name")
    nodes = {node.pk: node for node in machines if node.pk not in undone.later_nodes}
    cards = Gpu.objects.filter(there, node__in=nodes).order_by("index")
    found = [card for card in cards if card.uuid not in undone.later_cards]
    for node in nodes.values():
        node.state = undone.states.get(node.pk, node.state)
    pools = Pool.objects.in_bulk()
    for card in found:
        card.node, card.pool = nodes[card.node_id], pools[card.pool_id]
        if card.uuid in undone.sound:
            card.healthy, card.fault, card.closed = undone.sound[card.uuid], "", ""
    return list(nodes.values()), found


def was_there(at: datetime) -> Q:
    """Filter machines or cards by those that were not taken away before. Some came only later: see load_undone."""
    return Q(removed_at__isnull=True) | Q(removed_at__gt=at)


def load_undone(at: datetime) -> Undone:
    return undo(Event.objects.filter(kind=Node.KIND, verb__in=VERBS, at__gt=at).order_by("pk"))


def undo(events: Iterable[Event]) -> Undone:
    """Take back what happened to machines after a moment. Pure. events: of VERBS, the oldest first."""
    undone = Undone()
    for event in events:
        uuid = event.params.get("gpu", "")
        if event.verb == "state":
            undone.states.setdefault(event.object_id, event.from_state)
        elif event.verb == "node.added":
            undone.later_nodes.add(event.object_id)
        elif event.verb == "gpu.added":
            undone.later_cards.add(uuid)
        else:
            undone.sound.setdefault(uuid, SOUND_BEFORE[event.verb])
    return undone
