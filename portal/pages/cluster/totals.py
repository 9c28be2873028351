"""What all machines have together, summed from plain rows: as views, thousands of cards would take seconds."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from django.db.models import Sum
from django.utils import timezone

from cluster.models import Node, NodeState, sellable_milli
from portal.pages.cluster.card_figures import CardFigures, list_closed_nodes, load_figures
from portal.pages.cluster.machines import STALE_AFTER
from quotas.models import Holding


@dataclass(frozen=True)
class Totals:
    """gpu_* in thousandths; useless: neither held nor to be had."""

    nodes: int
    ready: int
    gpus: int
    gpu_free: int
    gpu_held: int
    gpu_useless: int
    cpu_milli: int
    cpu_held: int
    memory_mib: int
    memory_held: int


def load_totals() -> Totals:
    columns = ("pk", "state", "last_seen_at", "memory_mib", "cpu_milli", "pool__cpu_overcommit_percent")
    nodes, now = list(Node.objects.present().values_list(*columns)), timezone.now()
    ready = {pk for pk, state, *_ in nodes if state == NodeState.READY}
    silent = {pk for pk, _state, seen_at, *_ in nodes if now - seen_at > STALE_AFTER}
    there = Holding.objects.live().filter(node__in=Node.objects.present().values("pk"))
    hold = there.aggregate(cpu=Sum("cpu_milli", default=0), memory=Sum("memory_mib", default=0))
    return Totals(
        nodes=len(nodes),
        ready=len(ready - silent),
        cpu_milli=sum(sellable_milli(cpu, overcommit) for *_, cpu, overcommit in nodes),
        cpu_held=hold["cpu"],
        memory_mib=sum(memory for _pk, _state, _seen_at, memory, *_ in nodes),
        memory_held=hold["memory"],
        **sum_cards(load_figures(ready.difference(*list_closed_nodes(now)))),
    )


def sum_cards(cards: Iterable[tuple[int, CardFigures]]) -> dict[str, int]:
    """Return the fields of Totals that count cards."""
    gpus = free = held = useless = 0
    for _node, there in groupby(cards, key=itemgetter(0)):
        figures = [card for _node, card in there]
        free_there, held_there = sum(card.free_milli for card in figures), sum(card.held.milli for card in figures)
        gpus, free, held = gpus + len(figures), free + free_there, held + held_there
        useless += max(1000 * len(figures) - held_there - free_there, 0)
    return {"gpus": gpus, "gpu_free": free, "gpu_held": held, "gpu_useless": useless}
