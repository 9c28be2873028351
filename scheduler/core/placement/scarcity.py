"""Shadow prices of cards and CPU by node shape, under the usual demand.

Jobs pay for taking what others cannot do without. Prices, in cards, are dual variables of a transport problem, found by
smoothed subgradient steps.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import DemandProfile, TaskResources

MAX_DEMAND_CLASSES = 256
CPU_STEP_MILLI = 2000
"""Rounding of CPU, so that similar demands merge."""
STEPS, STEP, SOFTNESS = 100, 0.03, 0.02
"""Iterations; price change, in cards, where demand is twice the supply; price difference at which e times as many jobs
go to the cheaper shape."""
REPRICE_AFTER, REPRICE_AFTER_PER_NODE = 200, 0.125
"""Changes of the snapshot after which prices are recomputed; more in large clusters, where each matters less."""
PRICE_WEIGHT = 150.0
"""Score hundredths per price of one card: six times the cost of a card made useless (`keep_useful`), because jobs with
no other choice certainly have to wait."""


@dataclass(frozen=True)
class NodePrices:
    """Prices of one pool's nodes. cards: [N] per card. cpu: [N] per milli of a core."""

    version: int
    cards: np.ndarray
    cpu: np.ndarray


def build_demand_profile(
    history: Iterable[tuple[TaskResources, float]], totals_mib: tuple[int, ...]
) -> DemandProfile | None:
    """Aggregate a history of requests into demand by kind. totals_mib: [K] memory of each kind."""
    alike: Counter[tuple[tuple[bool, ...], int, int]] = Counter()
    for ask, tasks in history:
        accepts = tuple(rank >= 0 for rank in ask.preference) or (True,) * len(totals_mib)
        cpu = ask.cpu_milli // CPU_STEP_MILLI * CPU_STEP_MILLI + CPU_STEP_MILLI // 2
        alike[accepts, _least_milli(ask, totals_mib), cpu] += tasks  # type: ignore[assignment]
    if not alike:
        return None
    chosen = sorted(alike.items(), key=lambda item: (-item[1] * (item[0][1] + 1), item[0]))[:MAX_DEMAND_CLASSES]
    accepts_all, milli, cpus = zip(*(wish for wish, _ in chosen), strict=True)
    return DemandProfile(
        np.array([count for _, count in chosen]), np.array(cpus), np.array(milli), np.array(accepts_all)
    )


def keep_scarce(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Score -1 to 0: the request's cost at the node's prices, rounded so that small differences do not scatter work."""
    prices = find_prices(snapshot, request.pool)
    if prices is None:
        return np.zeros(len(nodes))
    ask = request.ask
    milli = max((need for need, may in zip(ask.need_milli, request.accepts, strict=True) if may), default=0)
    cost = ask.gpus * milli / 1000 * prices.cards[nodes] + ask.cpu_milli * prices.cpu[nodes]
    return -np.minimum(np.floor(PRICE_WEIGHT * cost), 100) / 100


def find_prices(snapshot: Snapshot, pool: int) -> NodePrices | None:
    """Return the pool's prices, None if all nodes are equal."""
    if snapshot.wishes is None:
        return None
    known = snapshot.prices.get(pool)
    if known is None or snapshot.version >= known.version + max(
        REPRICE_AFTER, REPRICE_AFTER_PER_NODE * len(snapshot.nodes)
    ):
        known = snapshot.prices[pool] = _compute_prices(snapshot, pool, snapshot.wishes)
    return known if known.cards.any() or known.cpu.any() else None


def _compute_prices(snapshot: Snapshot, pool: int, wishes: DemandProfile) -> NodePrices:
    nodes, shape, kinds = _node_shapes(snapshot, pool)
    cards, cpu = np.zeros(len(snapshot.nodes)), np.zeros(len(snapshot.nodes))
    if len(kinds) > 1:
        per_card = snapshot.node_cpu_total[nodes].sum() / max((snapshot.gpu_pool == pool).sum(), 1)
        free_cards, free_cpu = _free_by_shape(snapshot, pool, nodes, shape, len(kinds), per_card)
        of_cards, of_cpu = _solve_prices(wishes, kinds, free_cards, free_cpu, per_card)
        cards[nodes], cpu[nodes] = of_cards[shape], of_cpu[shape] / per_card
    return NodePrices(snapshot.version, cards, cpu)


def _node_shapes(snapshot: Snapshot, pool: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (nodes with cards, shape of each, [S, K] kinds)."""
    of_pool = snapshot.gpu_pool == pool
    has = np.zeros((len(snapshot.nodes), len(snapshot.kind_names)), dtype=np.int64)
    np.add.at(has, (snapshot.gpu_node[of_pool], snapshot.gpu_kind[of_pool]), 1)
    nodes = np.flatnonzero(has.sum(axis=1))
    looks = np.column_stack((has[nodes], snapshot.node_cpu_total[nodes]))
    shapes, shape = _unique_rows(looks)
    return nodes, shape, shapes[:, :-1] > 0


def _unique_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (distinct rows, index of each row in them); six times as fast as `np.unique`."""
    order = np.lexsort(rows.T[::-1])
    ascending = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (ascending[1:] != ascending[:-1]).any(axis=1)
    which = np.empty(len(rows), dtype=np.int64)
    which[order] = np.cumsum(new) - 1
    return ascending[new], which


def _free_by_shape(
    snapshot: Snapshot, pool: int, nodes: np.ndarray, shape: np.ndarray, shapes: int, per_card: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return [S] free cards, and free CPU in units of a card's average."""
    shape_of = np.full(len(snapshot.nodes), -1)
    shape_of[nodes] = shape
    open_nodes = nodes[snapshot.node_open[nodes]]
    ours = (snapshot.gpu_pool == pool) & snapshot.gpu_open & snapshot.node_open[snapshot.gpu_node]
    part = np.minimum(snapshot.gpu_free_mib / np.maximum(snapshot.gpu_total_mib, 1), snapshot.gpu_free_percent / 100)
    cards = np.bincount(shape_of[snapshot.gpu_node[ours]], part[ours], minlength=shapes)
    cpu = np.bincount(shape_of[open_nodes], snapshot.node_cpu_free[open_nodes] / per_card, minlength=shapes)
    return cards, cpu


def _solve_prices(
    wishes: DemandProfile, kinds: np.ndarray, free_cards: np.ndarray, free_cpu: np.ndarray, per_card: float
) -> tuple[np.ndarray, np.ndarray]:
    """Compute [S] prices of a card and of its average CPU, if demand fills all free cards."""
    of_cards, of_cpu = np.zeros(len(kinds)), np.zeros(len(kinds))
    milli, cpu = wishes.milli / 1000, wishes.cpu_milli / per_card
    fits = (wishes.accepts @ kinds.T > 0) & (free_cards > 0)
    asked = fits.any(axis=1) & (np.maximum(milli, cpu) > 0)
    milli, cpu, fits, count = milli[asked], cpu[asked], fits[asked], wishes.count[asked].astype(float)
    demand = (count * milli).sum()
    if not demand:
        return of_cards, of_cpu
    count *= free_cards.sum() / demand
    with_cards = milli > 0
    left, rest = free_cpu.sum() - (count * cpu)[with_cards].sum(), (count * cpu)[~with_cards].sum()
    count[~with_cards] *= min(max(left / rest, 0.0), 1.0) if rest else 0.0
    size = np.maximum(milli, cpu)
    sums = np.zeros((2, len(kinds)))
    for step in range(STEPS):
        price = np.where(fits, (np.outer(milli, of_cards) + np.outer(cpu, of_cpu)) / size[:, None], np.inf)
        share = np.exp((price.min(axis=1, keepdims=True) - price) / SOFTNESS) * free_cards
        share /= share.sum(axis=1, keepdims=True)
        of_cards = _step_prices(of_cards, (count * milli) @ share, free_cards)
        of_cpu = _step_prices(of_cpu, (count * cpu) @ share, free_cpu)
        if step >= STEPS // 2:
            sums += of_cards, of_cpu
    sums /= STEPS - STEPS // 2
    return sums[0], sums[1]


def _step_prices(prices: np.ndarray, asked: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Raise prices where demand exceeds supply, else lower them."""
    return np.clip(prices + STEP * np.clip(asked / np.maximum(free, 1e-3) - 1, -1, 1), 0, 1)


def _least_milli(ask: TaskResources, totals_mib: tuple[int, ...]) -> int:
    """Return the milli of cards a task takes on its cheapest kind."""
    each = (
        1000 if ask.whole else max(1000 * mib // max(total, 1), 10 * percent)
        for mib, percent, rank, total in zip(ask.need_mib, ask.need_percent, ask.preference, totals_mib, strict=True)
        if rank >= 0
    )
    return ask.gpus * min(each, default=0) if ask.gpus else 0
