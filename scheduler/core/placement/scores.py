"""Scores of nodes that fit: `(snapshot, request, nodes) -> float [len(nodes)]` in 0..1, larger is better.

Kind preference outranks all others; a pool that spreads its work ranks the emptiest node next. `ScoreTable` keeps the
scores per request class, and updates only nodes that changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.requests import OWN_POOL, RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Policy, TaskResources
from scheduler.core.placement.card_choice import choose_cards, free_share_after, sum_hca_scores, sum_link_scores
from scheduler.core.placement.filters import (
    FILTERS,
    count_fitting_cards,
    find_cards_in_reach,
    find_fitting_cards,
    find_fitting_grid,
)
from scheduler.core.placement.fragmentation import keep_useful
from scheduler.core.placement.numa_choice import find_roomy_numa
from scheduler.core.placement.scarcity import NodePrices, find_prices, keep_scarce


def prefer_kind(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Score the best kind with enough cards: 0 for the first choice, -1 for the second."""
    if not request.ask.gpus or request.has_equal_preferences:
        return np.zeros(len(nodes))
    enough = count_fitting_cards(snapshot, request, nodes) >= request.ask.gpus
    return -np.where(enough, request.kind_preference, request.kind_preference.max() + 1).min(axis=1).astype(float)


def keep_whole(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Slices: 1 if shared cards can take them. CPU-only work: 1 if the node has no card."""
    if request.ask.whole:
        return np.zeros(len(nodes))
    gpus, owner = snapshot.cards_on(nodes)
    if not request.ask.gpus:
        return (np.bincount(owner, minlength=len(nodes)) == 0).astype(float)
    shared = find_fitting_cards(snapshot, request, gpus) & (snapshot.gpu_slices[gpus] > 0)
    return (np.bincount(owner[shared], minlength=len(nodes)) >= request.ask.gpus).astype(float)


def fill_cards(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Slices: memory use of the best card afterwards."""
    if request.ask.whole or not request.ask.gpus:
        return np.zeros(len(nodes))
    gpus, owner = snapshot.cards_on(nodes)
    fits = find_fitting_cards(snapshot, request, gpus)
    gpus, left = gpus[fits], np.ones(len(nodes))
    np.minimum.at(left, owner[fits], free_share_after(snapshot, request, gpus))
    return 1.0 - left


def pack_nodes(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Score how full the node is, if typical requests are unknown."""
    return np.zeros(len(nodes)) if snapshot.typical else _node_fullness(snapshot, request, nodes)


def spread_nodes(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Score how empty the node is."""
    return 1.0 - _node_fullness(snapshot, request, nodes)


def _node_fullness(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Return the memory use of usable cards, or the CPU use for CPU-only work."""
    if not request.ask.gpus:
        return 1.0 - snapshot.node_cpu_free[nodes] / np.maximum(snapshot.node_cpu_total[nodes], 1)
    gpus, owner = snapshot.cards_on(nodes)
    ours = find_cards_in_reach(snapshot, request, gpus)
    gpus, owner = gpus[ours], owner[ours]
    free = np.bincount(owner, snapshot.gpu_free_mib[gpus], minlength=len(nodes))
    total = np.bincount(owner, snapshot.gpu_total_mib[gpus], minlength=len(nodes))
    return 1.0 - free / np.maximum(total, 1)


def link_cards(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Several whole cards: s / (s + 100) of the mean link score s of a pair.

    With RDMA any cards: the mean score of a card's way to its adapter is added to s.
    """
    ask = request.ask
    linked = ask.gpus > 1 and ask.whole
    if not snapshot.layouts or not (linked or (ask.rdma and ask.gpus)):
        return np.zeros(len(nodes))
    pairs = ask.gpus * (ask.gpus - 1) / 2
    of_alike: dict[tuple, float] = {}
    found = []
    for node, alike in zip(nodes.tolist(), _choice_keys(snapshot, request, nodes), strict=True):
        if alike not in of_alike:
            cards = choose_cards(snapshot, request, node)
            mean = sum_link_scores(snapshot, cards, node) / pairs if linked else 0.0
            mean += sum_hca_scores(snapshot, cards, node) / ask.gpus if ask.rdma else 0.0
            of_alike[alike] = mean / (mean + 100.0)
        found.append(of_alike[alike])
    return np.array(found)


def _choice_keys(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> Iterator[tuple]:
    """Yield a key per node: equal nodes choose equal cards."""
    fits = find_fitting_grid(snapshot, request, nodes)
    cards = np.where(fits, snapshot.gpu_kind[snapshot.card_grid[nodes]] + 1, 0)
    for node, kinds in zip(nodes.tolist(), cards.tolist(), strict=True):
        yield snapshot.layout_of(node), *kinds


def keep_near(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """CPU-only work: 1 if one NUMA node has room for all of it, or the node has no more than one."""
    if request.ask.gpus or not snapshot.has_numa[nodes].any():
        return np.zeros(len(nodes))
    return (~snapshot.has_numa[nodes] | find_roomy_numa(snapshot, request.ask, nodes).any(axis=1)).astype(float)


FETCH_BYTES_PER_S = 1e9
"""Data transfer to a node: a little below 10 Gbit/s."""
HALF_SCORE_S = 60.0


def hold_data(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Score s / (s + 60), s the seconds of transfer saved."""
    if not request.ask.fetch:
        return np.zeros(len(nodes))
    held = np.zeros(len(snapshot.nodes))
    for content in (snapshot.contents[number] for number in request.ask.fetch):
        held[content.nodes] += content.bytes
    seconds = held[nodes] / FETCH_BYTES_PER_S
    return seconds / (seconds + HALF_SCORE_S)


WeightedScores = tuple[tuple[Callable[[Snapshot, RequestClass, np.ndarray], np.ndarray], float], ...]

KIND_WEIGHT, SPREAD_WEIGHT = 20_000.0, 5_000.0
"""Outrank the weights of a pool, MAX_WEIGHT each at most."""
MAX_WEIGHT = 1_000


def weigh_scores(
    *,
    useful: float = 100,
    data: float = 20,
    whole: float = 8,
    full_cards: float = 4,
    links: float = 2,
    full_nodes: float = 1,
) -> WeightedScores:
    """Return scores with weights. Equal sums go to the lower node index."""
    return (
        (prefer_kind, KIND_WEIGHT),
        (keep_useful, useful),
        (keep_scarce, useful),
        (hold_data, data),
        (keep_whole, whole),
        (fill_cards, full_cards),
        (link_cards, links),
        (keep_near, links),
        (pack_nodes, full_nodes),
    )


def spread_scores(scores: WeightedScores) -> WeightedScores:
    """Return scores for a pool that spreads its work over nodes."""
    return ((spread_nodes, SPREAD_WEIGHT), *((score, weight) for score, weight in scores if score is not pack_nodes))


SCORES = weigh_scores()


class ScoreTable:
    """Node scores on one snapshot, kept current as it changes."""

    def __init__(self, snapshot: Snapshot, policy: Policy | None = None):
        self._snapshot = snapshot
        self._policy = policy or Policy()
        self._rows: dict[tuple[TaskResources, int, int, int], _ScoreRow] = {}

    def best_node(
        self, ask: TaskResources, pool: int, kinds: int, reach: int = OWN_POOL, allowed: np.ndarray | None = None
    ) -> tuple[RequestClass, int]:
        """Return the request class and its best node, -1 if none fits. allowed: [N] bool."""
        row = self._updated_row(ask, pool, kinds, reach)
        if not len(row.score):
            return row.request, -1
        score = row.score + row.scarcity_score
        if allowed is not None:
            score[~allowed] = -np.inf
        node = int(score.argmax())
        return row.request, node if score[node] > -np.inf else -1

    def choose_cards(self, request: RequestClass, node: int) -> list[int]:
        choose = self._policy.for_pool(request.pool).cards or choose_cards
        return choose(self._snapshot, request, node)

    def _updated_row(self, ask: TaskResources, pool: int, kinds: int, reach: int) -> "_ScoreRow":
        snapshot, key = self._snapshot, (ask, pool, kinds, reach)
        scores = self._policy.for_pool(pool).scores
        scores = SCORES if scores is None else scores
        row = self._rows.get(key)
        if row is None:
            request = RequestClass(ask, pool, kinds, reach)
            row = self._rows[key] = _ScoreRow(request, score_nodes(snapshot, request, snapshot.nodes, scores))
            row.scarcity_weight = sum(weight for score, weight in scores if score is keep_scarce)
        elif row.version != snapshot.version:
            stale = (snapshot.changed_at > row.version).nonzero()[0]
            row.score[stale] = score_nodes(snapshot, row.request, stale, scores)
        row.version = snapshot.version
        if row.scarcity_weight and (prices := find_prices(snapshot, pool)) is not row.prices:
            row.prices = prices
            row.scarcity_score = row.scarcity_weight * keep_scarce(snapshot, row.request, snapshot.nodes)
        return row


def score_nodes(
    snapshot: Snapshot, request: RequestClass, nodes: np.ndarray, scores: WeightedScores = SCORES
) -> np.ndarray:
    """Return each node's weighted score without `keep_scarce`, -inf where a filter rejects it."""
    total = np.full(len(nodes), -np.inf)
    fits = np.ones(len(nodes), dtype=bool)
    for allows in FILTERS:
        fits &= allows(snapshot, request, nodes)
    if fits.any():
        good = nodes if fits.all() else nodes[fits]
        each = (weight * score(snapshot, request, good) for score, weight in scores if score is not keep_scarce)
        total[fits] = sum(each)
    return total


class _ScoreRow:
    def __init__(self, request: RequestClass, score: np.ndarray):
        self.request = request
        self.score = score
        self.version = -1
        self.scarcity_weight = 0.0
        self.scarcity_score: np.ndarray | float = 0.0
        """[N] score of `keep_scarce` at these prices."""
        self.prices: NodePrices | None = None


@dataclass(frozen=True)
class ScoredSnapshot:
    """A snapshot and its score table."""

    snapshot: Snapshot
    score_table: ScoreTable
