"""Which of the nodes that fit is best. A score is `(snapshot, request, nodes) -> float [len(nodes)]`, larger is better.

The nodes given all passed the filters. Scores lie in 0..1, but for the preference of kinds, whose steps of one outweigh
all others together: first the kind of card that the user likes best; then what stays useful for what is usually asked,
and leaves those who have no choice the cards and the CPU that they need;
then how long the data that the node holds would take to fetch; then cards that are already shared, then the fullest
card, then for several cards how fast they are linked, then the fullest node. A pool may weigh them in its own way, or
spread its work: then the emptiest node comes before all else but the kind of card, and the others decide between nodes
that are alike.
"""

from collections.abc import Callable, Iterator

import numpy as np

from scheduler.core.cards import choose_cards, left_on, link_score
from scheduler.core.filters import count_fitting, fitting_cards, fitting_grid, in_reach
from scheduler.core.fragmentation import keep_useful
from scheduler.core.request import Request
from scheduler.core.scarcity import keep_scarce
from scheduler.core.snapshot import Snapshot


def prefer_kind(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """The best kind of which the node has enough cards: 0 for the first choice, -1 for the second, and so on."""
    if not request.ask.gpus or request.one_rank:
        return np.zeros(len(nodes))
    enough = count_fitting(snapshot, request, nodes) >= request.ask.gpus
    return -np.where(enough, request.rank, request.rank.max() + 1).min(axis=1).astype(float)


def keep_whole(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """Slices: 1 where cards already shared can take them. CPU-only work: 1 where the node has no card to starve."""
    if request.ask.whole:
        return np.zeros(len(nodes))
    gpus, owner = snapshot.cards_of(nodes)
    if not request.ask.gpus:
        return (np.bincount(owner, minlength=len(nodes)) == 0).astype(float)
    shared = fitting_cards(snapshot, request, gpus) & (snapshot.gpu_slices[gpus] > 0)
    return (np.bincount(owner[shared], minlength=len(nodes)) >= request.ask.gpus).astype(float)


def fill_cards(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """Slices: how full the card that suits best would be, by memory."""
    if request.ask.whole or not request.ask.gpus:
        return np.zeros(len(nodes))
    gpus, owner = snapshot.cards_of(nodes)
    fits = fitting_cards(snapshot, request, gpus)
    gpus, left = gpus[fits], np.ones(len(nodes))
    np.minimum.at(left, owner[fits], left_on(snapshot, request, gpus))
    return 1.0 - left


def pack_nodes(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """How full the node is, as long as nobody knows what is usually asked: then `keep_useful` knows better, and nodes
    that are equally good are filled from the first one on.
    """
    return np.zeros(len(nodes)) if snapshot.typical else _fullness(snapshot, request, nodes)


def spread_nodes(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """How empty the node is."""
    return 1.0 - _fullness(snapshot, request, nodes)


def _fullness(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """The cards in reach by memory, or the node's CPU for CPU-only work."""
    if not request.ask.gpus:
        return 1.0 - snapshot.node_cpu_free[nodes] / np.maximum(snapshot.node_cpu_total[nodes], 1)
    gpus, owner = snapshot.cards_of(nodes)
    ours = in_reach(snapshot, request, gpus)
    gpus, owner = gpus[ours], owner[ours]
    free = np.bincount(owner, snapshot.gpu_free_mib[gpus], minlength=len(nodes))
    total = np.bincount(owner, snapshot.gpu_total_mib[gpus], minlength=len(nodes))
    return 1.0 - free / np.maximum(total, 1)


def link_cards(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """Several whole cards: s / (s + 100), s the mean link score of a pair: 0.09 SYS, 0.33 PIX, 0.7 NV2, 0.95 NV18."""
    count = request.ask.gpus
    if count < 2 or not request.ask.whole or not snapshot.layouts:
        return np.zeros(len(nodes))
    pairs = count * (count - 1) / 2
    of_alike: dict[tuple, float] = {}
    found = []
    for node, alike in zip(nodes.tolist(), _alike(snapshot, request, nodes), strict=True):
        if alike not in of_alike:
            mean = link_score(snapshot, choose_cards(snapshot, request, node), node) / pairs
            of_alike[alike] = mean / (mean + 100.0)
        found.append(of_alike[alike])
    return np.array(found)


def _alike(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> Iterator[tuple]:
    """Of each node its layout, and which of its cards, of which kinds, may be taken: nodes that agree choose alike."""
    fits = fitting_grid(snapshot, request, nodes)
    cards = np.where(fits, snapshot.gpu_kind[snapshot.card_grid[nodes]] + 1, 0)
    for node, kinds in zip(nodes.tolist(), cards.tolist(), strict=True):
        yield snapshot.layout_of(node), *kinds


FETCH_BYTES_PER_S = 1e9
"""What a node gets from where all data lies: a little less than 10 Gbit/s."""
HALF_S = 60.0


def hold_data(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """s / (s + 60), s the seconds of fetching that the node saves, by the bytes that it holds: 0.5 for a minute."""
    if not request.ask.fetch:
        return np.zeros(len(nodes))
    held = np.zeros(len(snapshot.nodes))
    for content in (snapshot.contents[number] for number in request.ask.fetch):
        held[content.nodes] += content.bytes
    seconds = held[nodes] / FETCH_BYTES_PER_S
    return seconds / (seconds + HALF_S)


Scores = tuple[tuple[Callable[[Snapshot, Request, np.ndarray], np.ndarray], float], ...]

KIND_WEIGHT, SPREAD_WEIGHT = 20_000.0, 5_000.0
"""What the weights of a pool, MOST_WEIGHT each at most, may not outweigh."""
MOST_WEIGHT = 1_000


def weigh(
    *,
    useful: float = 100,
    data: float = 20,
    whole: float = 8,
    full_cards: float = 4,
    links: float = 2,
    full_nodes: float = 1,
) -> Scores:
    """Score and weight. They are added; equal sums go to the node with the smaller index."""
    return (
        (prefer_kind, KIND_WEIGHT),
        (keep_useful, useful),
        (keep_scarce, useful),
        (hold_data, data),
        (keep_whole, whole),
        (fill_cards, full_cards),
        (link_cards, links),
        (pack_nodes, full_nodes),
    )


def spread(scores: Scores) -> Scores:
    """These scores, for a pool that spreads its work over its nodes."""
    return ((spread_nodes, SPREAD_WEIGHT), *((score, weight) for score, weight in scores if score is not pack_nodes))


SCORES = weigh()
