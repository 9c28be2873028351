"""What pools have and what their cards give by default: reads over nodes and cards, no holdings."""

from dataclasses import dataclass

from django.db.models import Count, Min, Q

from cluster.models import Gpu, Node, Pool, sellable_mib, sellable_milli

SMALLEST_CPU_MILLI = 50
SMALLEST_MEMORY_MIB = 128
CPU_ONLY = (1000, 2048)
"""A job without a GPU that names nothing gets one core and 2 GiB, or what a quarter of the smallest node has."""
SELLS = ("memory_mib", "reserved_mib", "margin_mib")
KEPT_FOR_NODE = 10
"""Every tenth of a node's memory is left out when defaults are worked out, so that a full node still breathes."""


@dataclass(frozen=True)
class Share:
    """What comes with one whole card of a pool unless the job names it: cpu_milli and memory_mib."""

    cpu_milli: int
    memory_mib: int


@dataclass(frozen=True)
class Kind:
    """Cards that are alike for whoever asks for one."""

    model: str
    product: str
    sellable_mib: int


def kinds_of_cards(pool: Pool) -> list[Kind]:
    """What cards the pool has, those that came first before others: a few rows, however many cards there are."""
    alike = Gpu.objects.present().filter(pool=pool).order_by().values("model", "product", *SELLS)
    return [
        Kind(row["model"], row["product"], sellable_mib(*(row[name] for name in SELLS)))
        for row in alike.annotate(first=Min("pk")).order_by("first")
    ]


def share_of_card(pool: Pool) -> Share:
    """The smallest share over the pool's cards: each node's CPU and memory divided by all of its cards."""
    with_cards = Node.objects.present().filter(pk__in=Gpu.objects.present().filter(pool=pool).values("node"))
    counted = with_cards.order_by().annotate(cards=Count("gpus", filter=Q(gpus__removed_at=None)))
    alike = counted.values_list("cpu_milli", "pool__cpu_overcommit_percent", "memory_mib", "cards").distinct()
    shares = [
        (sellable_milli(cpu, overcommit) // cards, _usable(memory) // cards) for cpu, overcommit, memory, cards in alike
    ]
    if not shares:
        return Share(*CPU_ONLY)
    return Share(min(cpu for cpu, _ in shares), min(memory for _, memory in shares))


def default_request(pool: Pool, gpu_milli: int) -> tuple[int, int]:
    """(cpu_milli, memory_mib) for a task that names neither. gpu_milli: thousandths of cards that it asks, 0 = none."""
    if gpu_milli:
        share = share_of_card(pool)
        cpu, memory = share.cpu_milli * gpu_milli // 1000, share.memory_mib * gpu_milli // 1000
    else:
        nodes = list(Node.objects.present().filter(pool=pool).select_related("pool"))
        cpu = min([CPU_ONLY[0], *(node.cpu_sellable_milli for node in nodes)])
        memory = min([CPU_ONLY[1], *(_usable(node.memory_mib) // 4 for node in nodes)])
    return max(cpu, SMALLEST_CPU_MILLI), max(memory, SMALLEST_MEMORY_MIB)


def pool_total(pool: Pool) -> tuple[int, int, int]:
    """(gpu_milli, cpu_milli, memory_mib) that the pool's cards and home nodes have."""
    gpus = Gpu.objects.present().filter(pool=pool).count()
    nodes = list(Node.objects.present().filter(pool=pool).select_related("pool"))
    if not nodes:  # cards on nodes that are at home elsewhere: their CPU is what their jobs may use
        nodes = list(Node.objects.present().filter(gpus__pool=pool).select_related("pool").distinct())
    return gpus * 1000, sum(node.cpu_sellable_milli for node in nodes), sum(node.memory_mib for node in nodes)


def cards_by_node(pool: Pool) -> list[int]:
    """How many of the pool's cards each node has that has any."""
    counts = Gpu.objects.present().filter(pool=pool).order_by().values_list("node").annotate(Count("pk"))
    return sorted(count for _, count in counts)


def _usable(memory_mib: int) -> int:
    return memory_mib - memory_mib // KEPT_FOR_NODE
