"""Link topology of one node's cards, and the choice of well-connected sets.

Weights are those of NVIDIA's go-gpuallocator (besteffort_policy.go), plus one for SYS inside a NUMA node.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import combinations

PCIE_SCORES = {"SYS": 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50}
SYS_SAME_NUMA = 15
NVLINK_SCORE = 100

MAX_CARDS_FOR_EXACT = 8
"""Free cards up to which all partitions are tried: 8 cards in pairs have 105, 16 have 2,027,025."""

LinkMatrix = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class LinkLayout:
    """Link scores between a node's cards, shared by equal nodes.

    pair: [C][C]. near: [C][C] tie-breaker: 1000 for the same socket plus 1 for the same NUMA node.
    hca: [C] score of each card's way to its nearest RDMA adapter, () without one.
    """

    pair: tuple[tuple[int, ...], ...]
    near: tuple[tuple[int, ...], ...]
    hca: tuple[int, ...] = ()

    def sum_scores(self, cards: tuple[int, ...]) -> int:
        """Sum the link scores over all pairs."""
        return _sum_pairs(self.pair, cards)

    def sum_hca_scores(self, cards: tuple[int, ...]) -> int:
        """Sum the scores of the ways from cards to RDMA adapters."""
        return sum(self.hca[card] for card in cards) if self.hca else 0


@lru_cache(maxsize=1024)
def build_link_layout(
    links: LinkMatrix,
    pcie: LinkMatrix = (),
    numa: tuple[int | None, ...] = (),
    socket: tuple[int | None, ...] = (),
    hcas: LinkMatrix = (),
) -> LinkLayout:
    """Build the layout from the matrix of `nvidia-smi topo -m`.

    pcie: the same with PCIe paths only, which NVLink hides in the first. hcas: the way to each card, for each adapter.
    """
    places = range(len(links))
    numa, socket = _pad_unknown(numa, len(links)), _pad_unknown(socket, len(links))
    pair = [[_pair_score(links, pcie, numa, i, j) if i != j else 0 for j in places] for i in places]
    near = [[_numa_nearness(numa, socket, i, j) if i != j else 0 for j in places] for i in places]
    hca = tuple(max(_path_score(row[i]) for row in hcas) for i in places) if hcas else ()
    return LinkLayout(tuple(map(tuple, pair)), tuple(map(tuple, near)), hca)


@lru_cache(maxsize=1024)
def weigh_hcas(layout: LinkLayout) -> LinkLayout:
    """Return the layout in which each link counts as much as the ways of both its cards to RDMA adapters, too."""
    hca = layout.hca or (0,) * len(layout.pair)
    pair = tuple(
        tuple(score + hca[i] + hca[j] if i != j else 0 for j, score in enumerate(row))
        for i, row in enumerate(layout.pair)
    )
    return replace(layout, pair=pair)


@lru_cache(maxsize=65536)
def choose_linked_set(layout: LinkLayout, free: tuple[int, ...], count: int, rdma: bool = False) -> tuple[int, ...]:
    """Return the `count` cards of `free` to take, both ascending.

    One card: the least connected, so that cliques stay whole. More: the set whose partition of all free cards scores
    highest. rdma: near adapters before all, or as much as near each other.
    """
    if count >= len(free):
        return free
    if count == 1:
        far = {card: -layout.hca[card] if rdma and layout.hca else 0 for card in free}
        return (min(free, key=lambda card: (far[card], *connectedness(layout, card, free), card)),)
    if rdma:
        layout = weigh_hcas(layout)
    return (
        rank_card_sets(layout, free, count)[0]
        if len(free) <= MAX_CARDS_FOR_EXACT
        else _choose_greedily(layout, free, count)
    )


def rank_card_sets(layout: LinkLayout, free: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """Return all sets of `count` cards of `free`, best first. Tries all partitions: for few cards only."""
    everything = (1 << len(free)) - 1  # bit mask over `free`
    sets = {
        sum(1 << place for place in places): layout.sum_scores(tuple(free[place] for place in places))
        for places in combinations(range(len(free)), count)
    }
    totals = _partition_scores(layout, free, count, sets)

    def value(mask: int) -> tuple:
        chosen, rest = _cards_in_mask(mask, free), _cards_in_mask(everything & ~mask, free)
        nearness = _sum_pairs(layout.near, chosen), _sum_pairs(layout.near, rest)
        return sets[mask] + totals(everything & ~mask), sets[mask], *nearness, tuple(-card for card in chosen)

    return [_cards_in_mask(mask, free) for mask in sorted(sets, key=value, reverse=True)]


def connectedness(layout: LinkLayout, card: int, others: tuple[int, ...]) -> tuple[int, int]:
    """Return how strongly a card is connected to others: (link scores, nearness)."""
    pair, near = layout.pair[card], layout.near[card]
    return sum(pair[other] for other in others), sum(near[other] for other in others)


def _partition_scores(
    layout: LinkLayout, free: tuple[int, ...], count: int, sets: dict[int, int]
) -> Callable[[int], int]:
    """Return a function that scores the best partition of a card mask."""

    @cache
    def total(mask: int) -> int:
        if mask.bit_count() < count:
            return layout.sum_scores(_cards_in_mask(mask, free))
        return max(score + total(mask & ~some) for some, score in sets.items() if some & mask == some)

    return total


def _choose_greedily(layout: LinkLayout, free: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Grow a set from each card, improve it by swaps, and return the best."""

    def value(chosen: tuple[int, ...]) -> tuple:
        rest = tuple(card for card in free if card not in chosen)
        inside, outside = layout.sum_scores(chosen), layout.sum_scores(rest)
        nearness = _sum_pairs(layout.near, chosen), _sum_pairs(layout.near, rest)
        return inside, nearness[0], outside, nearness[1], tuple(-card for card in chosen)

    found = {_improve_by_swaps(_grow_set(layout, free, seed, count), free, value) for seed in free}
    return max(found, key=value)


def _grow_set(layout: LinkLayout, free: tuple[int, ...], seed: int, count: int) -> tuple[int, ...]:
    chosen = [seed]
    while len(chosen) < count:
        rest = [card for card in free if card not in chosen]
        chosen.append(max(rest, key=lambda card: (*connectedness(layout, card, tuple(chosen)), -card)))
    return tuple(sorted(chosen))


def _improve_by_swaps(chosen: tuple[int, ...], free: tuple[int, ...], value) -> tuple[int, ...]:
    while True:
        swaps = [tuple(sorted({*chosen, new} - {old})) for old in chosen for new in free if new not in chosen]
        best = max(swaps, key=value)
        if value(best) <= value(chosen):
            return chosen
        chosen = best


def _pair_score(links: LinkMatrix, pcie: LinkMatrix, numa: tuple[int | None, ...], i: int, j: int) -> int:
    word = links[i][j].strip().upper()
    nvlinks = int(word[2:]) if word.startswith("NV") and word[2:].isdigit() else 0
    path = word if not nvlinks else pcie[i][j].strip().upper() if pcie else "SYS"
    if path in PCIE_SCORES and path != "SYS":
        return PCIE_SCORES[path] + NVLINK_SCORE * nvlinks
    together = numa[i] is not None and numa[i] == numa[j]
    return (SYS_SAME_NUMA if together else PCIE_SCORES["SYS"]) + NVLINK_SCORE * nvlinks


def _path_score(word: str) -> int:
    return PCIE_SCORES.get(word.strip().upper(), PCIE_SCORES["SYS"])


def _numa_nearness(numa: tuple[int | None, ...], socket: tuple[int | None, ...], i: int, j: int) -> int:
    same_numa = numa[i] is not None and numa[i] == numa[j]
    same_socket = socket[i] is not None and socket[i] == socket[j]
    return 1000 * (same_socket or same_numa) + same_numa


def _pad_unknown(values: tuple[int | None, ...], length: int) -> tuple[int | None, ...]:
    """Pad with None, which also replaces -1 (unknown to the kernel)."""
    known = tuple(None if value is None or value < 0 else value for value in values)
    return known + (None,) * (length - len(known))


def _sum_pairs(matrix: tuple[tuple[int, ...], ...], cards: tuple[int, ...]) -> int:
    return sum(matrix[i][j] for i, j in combinations(cards, 2))


def _cards_in_mask(mask: int, free: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(card for place, card in enumerate(free) if mask >> place & 1)
