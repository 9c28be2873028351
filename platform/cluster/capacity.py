"""Capacity of pools and default requests."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count, Min, Q

from cluster.models import Gpu, Node, Pool, sellable_mib, sellable_milli
from common.resources import GpuAsk, gpu_milli, rank_of, slice_of

SMALLEST_CPU_MILLI = 50
SMALLEST_MEMORY_MIB = 128
CPU_ONLY = (1000, 2048)
"""(cpu_milli, memory_mib) of a job without GPU that names neither; less if a quarter of the smallest node is less."""
SELLS = ("memory_mib", "reserved_mib", "margin_mib")
KEPT_FOR_NODE = 10
"""One part in so many of a node's memory is kept free in defaults."""


@dataclass(frozen=True)
class Share:
    """CPU and memory that come with one whole card."""

    cpu_milli: int
    memory_mib: int


@dataclass(frozen=True)
class Kind:
    model: str
    product: str
    sellable_mib: int


def kinds_of_cards(pool: Pool) -> list[Kind]:
    alike = Gpu.objects.present().filter(pool=pool).order_by().values("model", "product", *SELLS)
    return [
        Kind(row["model"], row["product"], sellable_mib(*(row[name] for name in SELLS)))
        for row in alike.annotate(first=Min("pk")).order_by("first")
    ]


def measure_ask(ask: GpuAsk, kinds: Iterable[Kind]) -> int:
    """Return a task's thousandths of cards, by the first kind that it accepts."""
    if ask.count == 0:
        return 0
    for card in kinds:
        if rank_of(ask, card.model, card.product) is None:
            continue
        if share := slice_of(ask, card.sellable_mib):
            return gpu_milli(share, card.sellable_mib) * ask.count
    return 1000 * ask.count


def share_of_card(pool: Pool) -> Share:
    """Return the smallest share of a node per card."""
    with_cards = Node.objects.present().filter(pk__in=Gpu.objects.present().filter(pool=pool).values("node"))
    counted = with_cards.order_by().annotate(cards=Count("gpus", filter=Q(gpus__removed_at=None)))
    alike = counted.values_list("cpu_milli", "pool__cpu_overcommit_percent", "memory_mib", "cards").distinct()
    shares = [
        (sellable_milli(cpu, overcommit) // cards, _usable(memory) // cards) for cpu, overcommit, memory, cards in alike
    ]
    if not shares:
        return Share(*CPU_ONLY)
    return Share(min(cpu for cpu, _ in shares), min(memory for _, memory in shares))


class PoolDefaults:
    """CPU and memory of tasks in a pool that do not name them. Rows are read once."""

    def __init__(self, pool: Pool):
        self._pool = pool

    def request_for(self, ask: GpuAsk) -> tuple[int, int]:
        """Return (cpu_milli, memory_mib) of a task that asks for this GPU."""
        if ask.count:
            milli = measure_ask(ask, self._kinds)
            cpu, memory = self._share.cpu_milli * milli // 1000, self._share.memory_mib * milli // 1000
        else:
            cpu, memory = self._without_gpu
        return max(cpu, SMALLEST_CPU_MILLI), max(memory, SMALLEST_MEMORY_MIB)

    @cached_property
    def _kinds(self) -> list[Kind]:
        return kinds_of_cards(self._pool)

    @cached_property
    def _share(self) -> Share:
        return share_of_card(self._pool)

    @cached_property
    def _without_gpu(self) -> tuple[int, int]:
        nodes = Node.objects.present().filter(pool=self._pool).order_by()
        alike = nodes.values_list("cpu_milli", "memory_mib").distinct()
        overcommit = self._pool.cpu_overcommit_percent
        cpu = min([CPU_ONLY[0], *(sellable_milli(cpu, overcommit) for cpu, _ in alike)])
        return cpu, min([CPU_ONLY[1], *(_usable(memory) // 4 for _, memory in alike)])


def pool_total(pool: Pool) -> tuple[int, int, int]:
    """Return (gpu_milli, cpu_milli, memory_mib) of a pool."""
    gpus = Gpu.objects.present().filter(pool=pool).count()
    nodes = list(Node.objects.present().filter(pool=pool).select_related("pool"))
    if not nodes:  # its cards are on nodes of other pools
        nodes = list(Node.objects.present().filter(gpus__pool=pool).select_related("pool").distinct())
    return gpus * 1000, sum(node.cpu_sellable_milli for node in nodes), sum(node.memory_mib for node in nodes)


def cards_by_node(pool: Pool) -> list[int]:
    counts = Gpu.objects.present().filter(pool=pool).order_by().values_list("node").annotate(Count("pk"))
    return sorted(count for _, count in counts)


def _usable(memory_mib: int) -> int:
    return memory_mib - memory_mib // KEPT_FOR_NODE
