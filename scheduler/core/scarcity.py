"""What a card and CPU are worth on each shape of node, if what is usually asked keeps coming until all is taken.

A job that could run anywhere pays for taking what others need who have no choice: cards of a model that is asked by
name, or the CPU beside cards where little of it is. The prices are dual variables of a fluid plan "who goes where":
demand is spread over the shapes that accept it, the cheaper the more, and a shape that gets more than it has becomes
dearer (subgradient steps on the dual of the transport problem, smoothed as in mirror descent; cf. bid prices in revenue
management, Talluri and van Ryzin 1998). A price is a share of a card. Where all nodes are alike nothing has a price.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Ask, Wishes

MOST_WISHES = 256
CPU_STEP_MILLI = 2000
"""Wishes whose CPU differs by less are one."""
STEPS, STEP, SOFTNESS = 100, 0.03, 0.02
"""How often prices move, by how much of a card where a shape is asked for twice what it has, and at which difference of
price e times as many go to the cheaper one."""
LASTS, LASTS_PER_NODE = 200, 0.125
"""Prices are worked out anew after so many changes; of a large cluster each change moves less."""
WEIGHT = 150.0
"""Hundredths for a price of one card: six times what a card that becomes useless costs (`keep_useful`), for what is not
used may still be, and who has no choice waits for certain."""


@dataclass(frozen=True)
class Prices:
    """Of the nodes of one pool, at one version of the snapshot. cards: [N] price of a card. cpu: [N] of a thousandth
    of a core."""

    version: int
    cards: np.ndarray
    cpu: np.ndarray


def build_wishes(history: Iterable[tuple[Ask, float]], totals_mib: tuple[int, ...]) -> Wishes | None:
    """What asks of a history want of cards and CPU, and where. totals_mib: [K] what each kind of card sells."""
    alike: Counter[tuple[tuple[bool, ...], int, int]] = Counter()
    for ask, tasks in history:
        accepts = tuple(rank >= 0 for rank in ask.preference) or (True,) * len(totals_mib)
        cpu = ask.cpu_milli // CPU_STEP_MILLI * CPU_STEP_MILLI + CPU_STEP_MILLI // 2
        alike[accepts, _milli(ask, totals_mib), cpu] += tasks  # type: ignore[assignment]
    if not alike:
        return None
    chosen = sorted(alike.items(), key=lambda item: (-item[1] * (item[0][1] + 1), item[0]))[:MOST_WISHES]
    accepts_all, milli, cpus = zip(*(wish for wish, _ in chosen), strict=True)
    return Wishes(np.array([count for _, count in chosen]), np.array(cpus), np.array(milli), np.array(accepts_all))


def keep_scarce(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """Between -1 and 0: what the request takes of a node at its prices, in whole hundredths, so that small differences
    do not scatter what is alike."""
    prices = find_prices(snapshot, request.pool)
    if prices is None:
        return np.zeros(len(nodes))
    ask = request.ask
    milli = max((need for need, may in zip(ask.need_milli, request.accepts, strict=True) if may), default=0)
    cost = ask.gpus * milli / 1000 * prices.cards[nodes] + ask.cpu_milli * prices.cpu[nodes]
    return -np.minimum(np.floor(WEIGHT * cost), 100) / 100


def find_prices(snapshot: Snapshot, pool: int) -> Prices | None:
    """None where nobody knows what is usually asked, or all nodes of the pool are alike."""
    if snapshot.wishes is None:
        return None
    known = snapshot.prices.get(pool)
    if known is None or snapshot.version >= known.version + max(LASTS, LASTS_PER_NODE * len(snapshot.nodes)):
        known = snapshot.prices[pool] = _find(snapshot, pool, snapshot.wishes)
    return known if known.cards.any() or known.cpu.any() else None


def _find(snapshot: Snapshot, pool: int, wishes: Wishes) -> Prices:
    nodes, shape, kinds = _shapes(snapshot, pool)
    cards, cpu = np.zeros(len(snapshot.nodes)), np.zeros(len(snapshot.nodes))
    if len(kinds) > 1:
        per_card = snapshot.node_cpu_total[nodes].sum() / max((snapshot.gpu_pool == pool).sum(), 1)
        free_cards, free_cpu = _free(snapshot, pool, nodes, shape, len(kinds), per_card)
        of_cards, of_cpu = _solve(wishes, kinds, free_cards, free_cpu, per_card)
        cards[nodes], cpu[nodes] = of_cards[shape], of_cpu[shape] / per_card
    return Prices(snapshot.version, cards, cpu)


def _shapes(snapshot: Snapshot, pool: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(nodes with cards of the pool, the shape of each, [S, K] which kinds a shape has)."""
    of_pool = snapshot.gpu_pool == pool
    has = np.zeros((len(snapshot.nodes), len(snapshot.kind_names)), dtype=np.int64)
    np.add.at(has, (snapshot.gpu_node[of_pool], snapshot.gpu_kind[of_pool]), 1)
    nodes = np.flatnonzero(has.sum(axis=1))
    looks = np.column_stack((has[nodes], snapshot.node_cpu_total[nodes]))
    shapes, shape = _unique_rows(looks)
    return nodes, shape, shapes[:, :-1] > 0


def _unique_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows that differ, ascending; for each row which of these it is): `np.unique` takes six times as long."""
    order = np.lexsort(rows.T[::-1])
    ascending = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (ascending[1:] != ascending[:-1]).any(axis=1)
    which = np.empty(len(rows), dtype=np.int64)
    which[order] = np.cumsum(new) - 1
    return ascending[new], which


def _free(
    snapshot: Snapshot, pool: int, nodes: np.ndarray, shape: np.ndarray, shapes: int, per_card: float
) -> tuple[np.ndarray, np.ndarray]:
    """[S] free cards, and free CPU in what a card has of it on average."""
    shape_of = np.full(len(snapshot.nodes), -1)
    shape_of[nodes] = shape
    open_nodes = nodes[snapshot.node_open[nodes]]
    ours = (snapshot.gpu_pool == pool) & snapshot.gpu_open & snapshot.node_open[snapshot.gpu_node]
    part = np.minimum(snapshot.gpu_free_mib / np.maximum(snapshot.gpu_total_mib, 1), snapshot.gpu_free_percent / 100)
    cards = np.bincount(shape_of[snapshot.gpu_node[ours]], part[ours], minlength=shapes)
    cpu = np.bincount(shape_of[open_nodes], snapshot.node_cpu_free[open_nodes] / per_card, minlength=shapes)
    return cards, cpu


def _solve(
    wishes: Wishes, kinds: np.ndarray, free_cards: np.ndarray, free_cpu: np.ndarray, per_card: float
) -> tuple[np.ndarray, np.ndarray]:
    """[S] prices of a card, and of the CPU that a card has on average, when demand fills all cards that are free.

    Work without cards gets the CPU that work with cards leaves.
    """
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
        of_cards = _moved(of_cards, (count * milli) @ share, free_cards)
        of_cpu = _moved(of_cpu, (count * cpu) @ share, free_cpu)
        if step >= STEPS // 2:
            sums += of_cards, of_cpu
    sums /= STEPS - STEPS // 2
    return sums[0], sums[1]


def _moved(prices: np.ndarray, asked: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Up where more is asked than is free, down where less is; at most by a STEP, between nothing and a card."""
    return np.clip(prices + STEP * np.clip(asked / np.maximum(free, 1e-3) - 1, -1, 1), 0, 1)


def _milli(ask: Ask, totals_mib: tuple[int, ...]) -> int:
    """Thousandths of a card that the ask takes in all, on the kind on which it takes least."""
    each = (
        1000 if ask.whole else max(1000 * mib // max(total, 1), 10 * percent)
        for mib, percent, rank, total in zip(ask.need_mib, ask.need_percent, ask.preference, totals_mib, strict=True)
        if rank >= 0
    )
    return ask.gpus * min(each, default=0) if ask.gpus else 0
