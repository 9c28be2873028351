"""What is held and left of cards, from plain rows: as views, thousands of cards would take seconds."""

from collections.abc import Collection, Container, Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from django.db.models import Count, QuerySet, Sum

from cluster.maintenance import load_maintenance
from cluster.models import Gpu, Node, NodeState, Pool, sellable_mib
from common.resources import is_instance, parse_gpu, rank_of, slice_of
from monitoring.replay.machines import load_undone, was_there
from quotas.models import Holding

SIZES = ("1/8", "1/4", "1/2", "4GB", "10GB", "1")
"""What the GPU map offers to look for, in the job file's words."""
ASKS = {size: parse_gpu(size) for size in SIZES}


class Held(NamedTuple):
    """Of one card: slices, their memory, compute and thousandths."""

    slices: int = 0
    mib: int = 0
    percent: int = 0
    milli: int = 0


class CardFigures(NamedTuple):
    """A card. shared: whether it may be cut into slices. is_open: whether its machine takes new work."""

    model: str
    product: str
    sellable_mib: int
    shared: bool
    max_slices: int
    healthy: bool
    is_open: bool
    held: Held

    @property
    def is_schedulable(self) -> bool:
        """Whether something can start on this card: healthy, its machine not closed."""
        return self.healthy and self.is_open

    @property
    def is_whole(self) -> bool:
        """Whether all of it is free for a new task."""
        return self.is_schedulable and not self.held.slices

    @property
    def free_milli(self) -> int:
        """Return the thousandths of the card that memory and compute leave, for one more slice."""
        if not self.is_schedulable or self.held.slices >= self.max_slices:
            return 0
        free_mib, free_percent = self.sellable_mib - self.held.mib, 100 - self.held.percent
        return min(1000 * max(free_mib, 0) // max(self.sellable_mib, 1), 10 * max(free_percent, 0))

    @property
    def fitting_sizes(self) -> tuple[str, ...]:
        """Return the SIZES with room now."""
        return find_fitting_sizes(self)

    @property
    def tone(self) -> str:
        """Return how it is drawn in a large map: out of service, held as a whole or in part, closed, free."""
        if not self.healthy:
            return "fault"
        if self.held.milli:
            return "work" if self.held.milli >= 1000 else "soft"
        return "box" if self.is_open else "quiet"


@lru_cache(4096)
def find_fitting_sizes(card: CardFigures) -> tuple[str, ...]:
    """Return the SIZES with room on the card. Thousands of cards have the same few hundred figures."""
    return tuple(size for size in SIZES if card.is_schedulable and _could_host(card, size))


def _could_host(card: CardFigures, size: str) -> bool:
    ask, held = ASKS[size], card.held
    share = slice_of(ask, card.sellable_mib)
    if share is None or rank_of(ask, card.model, card.product) is None:
        return False
    if not ask.is_slice:
        return not held.slices
    fits = share.memory_mib <= card.sellable_mib - held.mib and share.compute_percent <= 100 - held.percent
    return card.shared and held.slices < card.max_slices and fits


def load_figures(open_nodes: Container[int], pool: str = "") -> Iterator[tuple[int, CardFigures]]:
    """Return each card with the id of its machine, by machine and index. open_nodes: where something could start."""
    rows = _list_cards(Gpu.objects.present(), pool)
    return _build_figures(rows, open_nodes, _sum_held(Holding.objects.live()))


def load_past_figures(at: datetime, pool: str = "") -> dict[str, list[CardFigures]]:
    """Return the cards of a past moment by the name of their machine; sizes, models and pools are today's."""
    undone = load_undone(at)
    machines = Node.objects.filter(was_there(at)).order_by("name").values_list("pk", "name", "state")
    names = {pk: name for pk, name, _state in machines if pk not in undone.later_nodes}
    ready = {pk for pk, _name, state in machines if undone.states.get(pk, state) == NodeState.READY}
    there = [row for row in _list_cards(Gpu.objects.filter(was_there(at)), pool) if row.node in names]
    rows = [
        row._replace(healthy=undone.sound.get(row.uuid, row.healthy))
        for row in there
        if row.uuid not in undone.later_cards
    ]
    figures: dict[str, list[CardFigures]] = {name: [] for name in names.values()}
    held = _sum_held(Holding.objects.held_at(at))
    for node, card in _build_figures(rows, ready.difference(*list_closed_nodes(at)), held):
        figures[names[node]].append(card)
    return {name: cards for name, cards in figures.items() if cards}


def count_machines(cards: QuerySet[Gpu], pool: str = "") -> int:
    """Return on how many machines the cards are, of one pool or of all."""
    return _filter_pool(cards, pool).order_by().values("node").distinct().count()


def list_closed_nodes(at: datetime) -> list[Collection[int]]:
    """Return the machines of each maintenance that has begun by then."""
    return [closed.node_ids for closed in load_maintenance(at) if closed.maintenance.begins_at <= at]


class _CardRow(NamedTuple):
    node: int
    pk: int
    uuid: str
    healthy: bool
    memory_mib: int
    reserved_mib: int
    margin_mib: int
    model: str
    product: str
    pool: int


def _list_cards(cards: QuerySet[Gpu], pool: str) -> Iterator[_CardRow]:
    there = _filter_pool(cards, pool).order_by("node_id", "index")
    return map(_CardRow._make, there.values_list(*_CardRow._fields))


def _filter_pool(cards: QuerySet[Gpu], pool: str) -> QuerySet[Gpu]:
    return cards.filter(pool__name=pool) if pool else cards


def _sum_held(held: QuerySet[Holding]) -> dict[int, Held]:
    """Return {card: what is held of it}."""
    of_cards = held.filter(gpu__isnull=False).order_by().values_list("gpu_id")
    sums = (Sum("gpu_memory_mib"), Sum("gpu_compute_percent"), Sum("gpu_milli"))
    return {gpu: Held(*rest) for gpu, *rest in of_cards.annotate(Count("pk"), *sums)}


def _build_figures(
    rows: Iterable[_CardRow], open_nodes: Container[int], held_of: dict[int, Held]
) -> Iterator[tuple[int, CardFigures]]:
    pools, free = {pool.pk: pool for pool in Pool.objects.all()}, Held()
    known: dict[tuple, CardFigures] = {}  # thousands of cards have the same few hundred figures
    for row in rows:
        is_open, held = row.node in open_nodes, held_of.get(row.pk, free)
        alike = *row[3:], is_open, held
        if alike not in known:
            pool, mib = pools[row.pool], sellable_mib(row.memory_mib, row.reserved_mib, row.margin_mib)
            shared = pool.shared and not is_instance(row.product)
            most = pool.slices_per_gpu if shared else 1
            known[alike] = CardFigures(row.model, row.product, mib, shared, most, row.healthy, is_open, held)
        yield row.node, known[alike]
