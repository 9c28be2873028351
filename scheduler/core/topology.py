"""How near the cards of one node are to each other, and which of them a task should take.

Two cards score what their PCIe path is worth and 100 for each NVLink between them (the weights of NVIDIA's
go-gpuallocator, besteffort_policy.go). Machines on which every path is SYS would score flat there, so SYS inside a NUMA
node is worth a little more than SYS across (go-gpuallocator issue 17). A set of cards scores the sum over its pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations

PCIE_SCORES = {"SYS": 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50}
SYS_SAME_NUMA = 15
NVLINK_SCORE = 100

MOST_FOR_EXACT = 8
"""Free cards up to which all partitions are looked at: 8 cards in pairs are 105, 16 in pairs are 2,027,025."""

Words = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Layout:
    """The cards of a node by their place in its matrix. Two nodes that look alike share one object.

    pair: [C][C] link scores, 0 on the diagonal. near: [C][C] what breaks ties: 1000 for the same socket and 1 for the
    same NUMA node, since a socket may be cut into several (SNC, NPS); 0 where unknown.
    """

    pair: tuple[tuple[int, ...], ...]
    near: tuple[tuple[int, ...], ...]

    def score(self, cards: tuple[int, ...]) -> int:
        """The sum over all pairs of the set."""
        return _inner(self.pair, cards)


@lru_cache(maxsize=1024)
def build_layout(
    links: Words, pcie: Words = (), numa: tuple[int | None, ...] = (), socket: tuple[int | None, ...] = ()
) -> Layout:
    """The layout of cards between which `nvidia-smi topo -m` prints `links` (X, NV2, PIX, PXB, PHB, NODE, SYS).

    pcie: the same matrix with the PCIe paths that the first hides where there is NVLink; () where nobody knows.
    numa, socket: of each card, None (or shorter) where unknown. A word that is not known counts as SYS.
    """
    places = range(len(links))
    numa, socket = _padded(numa, len(links)), _padded(socket, len(links))
    pair = [[_pair_score(links, pcie, numa, i, j) if i != j else 0 for j in places] for i in places]
    near = [[_nearness(numa, socket, i, j) if i != j else 0 for j in places] for i in places]
    return Layout(tuple(map(tuple, pair)), tuple(map(tuple, near)))


@lru_cache(maxsize=65536)
def best_set(layout: Layout, free: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The `count` cards of `free` (ascending, at least as many) to take, ascending.

    One card: the one that means least to the other free ones, so that cliques stay whole. More: the set whose
    partition of all free cards into such sets scores highest, so that what is left stays good, too; of these the set
    with the best links, then on the fewest sockets and NUMA nodes, then with the best left together, then of the lowest
    places.
    """
    if count >= len(free):
        return free
    if count == 1:
        return (min(free, key=lambda card: (*loneliness(layout, card, free), card)),)
    return ranked_sets(layout, free, count)[0] if len(free) <= MOST_FOR_EXACT else _greedy(layout, free, count)


def ranked_sets(layout: Layout, free: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """All sets of `count` cards of `free`, the best to take first. For few cards: it looks at all partitions."""
    everything = (1 << len(free)) - 1  # a set of cards is a bit mask over `free` here
    sets = {
        sum(1 << place for place in places): layout.score(tuple(free[place] for place in places))
        for places in combinations(range(len(free)), count)
    }
    totals = _partition_totals(layout, free, count, sets)

    def value(mask: int) -> tuple:
        chosen, rest = _cards(mask, free), _cards(everything & ~mask, free)
        nearness = _inner(layout.near, chosen), _inner(layout.near, rest)
        return sets[mask] + totals(everything & ~mask), sets[mask], *nearness, tuple(-card for card in chosen)

    return [_cards(mask, free) for mask in sorted(sets, key=value, reverse=True)]


def loneliness(layout: Layout, card: int, others: tuple[int, ...]) -> tuple[int, int]:
    """How little the others would lose with this card, smallest first: (link scores, nearness)."""
    pair, near = layout.pair[card], layout.near[card]
    return sum(pair[other] for other in others), sum(near[other] for other in others)


def _partition_totals(layout: Layout, free: tuple[int, ...], count: int, sets: dict[int, int]) -> Callable[[int], int]:
    """mask -> the score of the best partition of these cards into sets; fewer than `count` that remain are one, too."""

    @cache
    def total(mask: int) -> int:
        if mask.bit_count() < count:
            return layout.score(_cards(mask, free))
        return max(score + total(mask & ~some) for some, score in sets.items() if some & mask == some)

    return total


def _greedy(layout: Layout, free: tuple[int, ...], count: int) -> tuple[int, ...]:
    """From each card take the nearest one by one, then swap single cards while that helps; the best of these."""

    def value(chosen: tuple[int, ...]) -> tuple:
        rest = tuple(card for card in free if card not in chosen)
        inside, outside = layout.score(chosen), layout.score(rest)
        nearness = _inner(layout.near, chosen), _inner(layout.near, rest)
        return inside, nearness[0], outside, nearness[1], tuple(-card for card in chosen)

    found = {_improved(_grown(layout, free, seed, count), free, value) for seed in free}
    return max(found, key=value)


def _grown(layout: Layout, free: tuple[int, ...], seed: int, count: int) -> tuple[int, ...]:
    chosen = [seed]
    while len(chosen) < count:
        rest = [card for card in free if card not in chosen]
        chosen.append(max(rest, key=lambda card: (*loneliness(layout, card, tuple(chosen)), -card)))
    return tuple(sorted(chosen))


def _improved(chosen: tuple[int, ...], free: tuple[int, ...], value) -> tuple[int, ...]:
    while True:
        swaps = [tuple(sorted({*chosen, new} - {old})) for old in chosen for new in free if new not in chosen]
        best = max(swaps, key=value)
        if value(best) <= value(chosen):
            return chosen
        chosen = best


def _pair_score(links: Words, pcie: Words, numa: tuple[int | None, ...], i: int, j: int) -> int:
    word = links[i][j].strip().upper()
    nvlinks = int(word[2:]) if word.startswith("NV") and word[2:].isdigit() else 0
    path = word if not nvlinks else pcie[i][j].strip().upper() if pcie else "SYS"
    if path in PCIE_SCORES and path != "SYS":
        return PCIE_SCORES[path] + NVLINK_SCORE * nvlinks
    together = numa[i] is not None and numa[i] == numa[j]
    return (SYS_SAME_NUMA if together else PCIE_SCORES["SYS"]) + NVLINK_SCORE * nvlinks


def _nearness(numa: tuple[int | None, ...], socket: tuple[int | None, ...], i: int, j: int) -> int:
    same_numa = numa[i] is not None and numa[i] == numa[j]
    same_socket = socket[i] is not None and socket[i] == socket[j]
    return 1000 * (same_socket or same_numa) + same_numa


def _padded(values: tuple[int | None, ...], length: int) -> tuple[int | None, ...]:
    """-1 is how the kernel says that it does not know."""
    known = tuple(None if value is None or value < 0 else value for value in values)
    return known + (None,) * (length - len(known))


def _inner(matrix: tuple[tuple[int, ...], ...], cards: tuple[int, ...]) -> int:
    return sum(matrix[i][j] for i, j in combinations(cards, 2))


def _cards(mask: int, free: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(card for place, card in enumerate(free) if mask >> place & 1)
