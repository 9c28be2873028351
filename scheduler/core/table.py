"""Request class x node: what filters and scores said, computed once and again only for nodes that changed since."""

import numpy as np

from scheduler.core.cards import choose_cards
from scheduler.core.filters import FILTERS
from scheduler.core.lending import OWN
from scheduler.core.request import Request
from scheduler.core.scarcity import Prices, find_prices, keep_scarce
from scheduler.core.scores import SCORES, Scores
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Ask, Policy


class Table:
    """Belongs to one snapshot and follows it as it takes and gives back."""

    def __init__(self, snapshot: Snapshot, policy: Policy | None = None):
        self._snapshot = snapshot
        self._policy = policy or Policy()
        self._rows: dict[tuple[Ask, int, int, int], _Row] = {}

    def best_node(
        self, ask: Ask, pool: int, kinds: int, reach: int = OWN, allowed: np.ndarray | None = None
    ) -> tuple[Request, int]:
        """The request class, and the node with the best score, or -1 where none fits. allowed: [N] bool, only these."""
        row = self._row(ask, pool, kinds, reach)
        if not len(row.score):
            return row.request, -1
        score = row.score + row.scarce
        if allowed is not None:
            score[~allowed] = -np.inf
        node = int(score.argmax())
        return row.request, node if score[node] > -np.inf else -1

    def choose_cards(self, request: Request, node: int) -> list[int]:
        """The cards for one task on a node that fits."""
        choose = self._policy.of(request.pool).cards or choose_cards
        return choose(self._snapshot, request, node)

    def _row(self, ask: Ask, pool: int, kinds: int, reach: int) -> "_Row":
        snapshot, key = self._snapshot, (ask, pool, kinds, reach)
        scores = self._policy.of(pool).scores
        scores = SCORES if scores is None else scores
        row = self._rows.get(key)
        if row is None:
            request = Request(ask, pool, kinds, reach)
            row = self._rows[key] = _Row(request, judge(snapshot, request, snapshot.nodes, scores))
            row.scarce_weight = sum(weight for score, weight in scores if score is keep_scarce)
        elif row.version != snapshot.version:
            stale = (snapshot.changed_at > row.version).nonzero()[0]
            row.score[stale] = judge(snapshot, row.request, stale, scores)
        row.version = snapshot.version
        if row.scarce_weight and (prices := find_prices(snapshot, pool)) is not row.prices:
            row.prices = prices
            row.scarce = row.scarce_weight * keep_scarce(snapshot, row.request, snapshot.nodes)
        return row


def judge(snapshot: Snapshot, request: Request, nodes: np.ndarray, scores: Scores = SCORES) -> np.ndarray:
    """The weighted score of each node, -inf where a filter says no: float [len(nodes)]. Less `keep_scarce`, which does
    not follow the state of a node and is added for all of them when prices change.
    """
    total = np.full(len(nodes), -np.inf)
    fits = np.ones(len(nodes), dtype=bool)
    for allows in FILTERS:
        fits &= allows(snapshot, request, nodes)
    if fits.any():
        good = nodes if fits.all() else nodes[fits]
        each = (weight * score(snapshot, request, good) for score, weight in scores if score is not keep_scarce)
        total[fits] = sum(each)
    return total


class _Row:
    def __init__(self, request: Request, score: np.ndarray):
        self.request = request
        self.score = score
        self.version = -1
        self.scarce_weight = 0.0
        self.scarce: np.ndarray | float = 0.0
        """[N] what `keep_scarce` says at these prices."""
        self.prices: Prices | None = None
