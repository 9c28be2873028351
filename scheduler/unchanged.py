"""Which machines are as their rows say: on a large cluster nearly all of them, at each look."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from cluster.models import Cached, Gpu, Node
from common.locks import lock_rows

PROBED_AFTER = timedelta(minutes=5)
"""So old the time may be at which a card that did not change was looked at: each write is a new version of its row."""


def load_rows_of(names: Iterable[str]) -> list[tuple[Node, list[Gpu], dict[tuple[str, str], int]]]:
    """Each machine, its cards in the order of their indices, and what it holds: {(kind, key): bytes}. Three statements
    for any number of machines.
    """
    nodes = list(Node.objects.present().filter(name__in=list(names)))
    cards: dict[int, list[Gpu]] = defaultdict(list)
    held: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    for gpu in Gpu.objects.present().filter(node__in=nodes).select_related("node").order_by("index"):
        cards[gpu.node_id].append(gpu)
    columns = ("node_id", "kind", "key", "bytes")
    for node_id, kind, key, size in Cached.objects.filter(node__in=nodes).values_list(*columns):
        held[node_id][kind, key] = size
    return [(node, cards[node.pk], held[node.pk]) for node in nodes]


@transaction.atomic
def note_seen(nodes: Sequence[Node]) -> None:
    """They are there, as they were."""
    lock_rows(Node.objects.filter(pk__in=[node.pk for node in nodes]))
    Node.objects.filter(pk__in=[node.pk for node in nodes]).update(last_seen_at=Now())
    old = Q(probed_at=None) | Q(probed_at__lt=Now() - PROBED_AFTER)
    Gpu.objects.present().filter(old, node__in=nodes).update(probed_at=Now())
