"""Cache of node scores per request class, updated only for nodes that changed."""

import numpy as np

from scheduler.core.model.lending import OWN_POOL
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Policy, TaskResources
from scheduler.core.placement.card_choice import choose_cards
from scheduler.core.placement.filters import FILTERS
from scheduler.core.placement.scarcity import NodePrices, find_prices, keep_scarce
from scheduler.core.placement.scores import SCORES, WeightedScores


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
