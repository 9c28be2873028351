"""Find nodes whose rows need no update, which nearly all are."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from cluster.models import Cached, Gpu, Node
from common.locks import lock_rows

PROBED_AFTER = timedelta(minutes=5)
"""How old probed_at of an unchanged card may become, since each write makes a new row version."""


def load_rows_of(names: Iterable[str]) -> list[tuple[Node, list[Gpu], dict[tuple[str, str], int]]]:
    """Load nodes, their cards by index, and {(kind, key): bytes} cached there, in three statements."""
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
def record_seen(nodes: Sequence[Node]) -> None:
    """Record unchanged nodes as seen."""
    lock_rows(Node.objects.filter(pk__in=[node.pk for node in nodes]))
    Node.objects.filter(pk__in=[node.pk for node in nodes]).update(last_seen_at=Now())
    old = Q(probed_at=None) | Q(probed_at__lt=Now() - PROBED_AFTER)
    Gpu.objects.present().filter(old, node__in=nodes).update(probed_at=Now())
