"""Published placement rules as Policy values, run by the same `place()`: what our own policy is compared with.

Both are as in hkust-adsl/kubernetes-scheduler-simulator (`pkg/simulator/plugin`): scores are whole numbers up to 100,
the first of equal nodes and of equal cards wins.
"""

import numpy as np

from scheduler.core.filters import fitting_cards
from scheduler.core.fragmentation import NEVER, States, card_fit, gain_of_cards, sigmoid, useful_gain
from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Policy, Typical

MOST_CPU_MILLI, MOST_GPU_MILLI = 128_000, 8_000
"""By which the reference scales: the largest node of its cluster."""


def fgd_score(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """Fragmentation gradient descent (ATC'23, section 4): how much fragmentation falls."""
    return np.floor(100 * sigmoid(useful_gain(snapshot, request, nodes, by_cause) / 1000))


def fgd_cards(snapshot: Snapshot, request: Request, node: int) -> list[int]:
    if request.ask.whole:
        return first_cards(snapshot, request, node)
    _, gpus, gain = gain_of_cards(snapshot, request, snapshot.nodes[node : node + 1], by_cause)
    return [int(gpus[np.floor(100 * sigmoid(gain / 1000)).argmax()])]


def by_cause(typical: Typical, states: States) -> np.ndarray:
    """Our measure, added up in the order of the reference (`pkg/utils/frag.go`): for each cause over the typical asks,
    then over the causes. The last bits decide between 49 and 50 where nothing changes.
    """
    share = typical.count / typical.of / (typical.count.sum() / typical.of)
    enough_cpu = states.cpu[:, None] >= typical.cpu_milli
    enough_cards, stranded = card_fit(typical, states)
    kinds = typical.need[states.kind.max(axis=1)]  # all cards of a node are alike here
    no_cards, no_access = typical.gpus == 0, (kinds >= NEVER) & (typical.gpus > 0)
    asks = ~no_cards & ~no_access
    causes = (
        asks & ~enough_cards & ~enough_cpu,
        asks & enough_cpu,  # too few cards, and what is stranded where there are enough
        asks & enough_cards & ~enough_cpu,
        no_cards & enough_cpu,
        no_cards & ~enough_cpu,
        no_access,
    )
    free = states.free.sum(axis=1)[:, None]
    amount = share * np.where(asks & enough_cards & enough_cpu, stranded, free)
    sums = [np.cumsum(np.where(cause, amount, 0.0), axis=1)[:, -1] for cause in causes]
    return np.cumsum(sums, axis=0)[-1]


def best_fit_score(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """The less CPU and GPU the node has left, the better."""
    cpu = snapshot.node_cpu_free[nodes] - request.ask.cpu_milli
    grid = snapshot.card_grid[nodes]
    memory, total = snapshot.gpu_free_mib[grid], np.maximum(snapshot.gpu_total_mib[grid], 1)
    gpu = np.where(grid >= 0, 1000 * memory // total, 0).sum(axis=1) - _gpu_milli(snapshot, request)
    return np.floor(100 * (1 - 0.5 * cpu / MOST_CPU_MILLI - 0.5 * gpu / MOST_GPU_MILLI))


def best_fit_cards(snapshot: Snapshot, request: Request, node: int) -> list[int]:
    gpus = _fitting(snapshot, request, node)
    return gpus[np.argsort(snapshot.gpu_free_mib[gpus], kind="stable")][: request.ask.gpus].tolist()


def first_cards(snapshot: Snapshot, request: Request, node: int) -> list[int]:
    return _fitting(snapshot, request, node)[: request.ask.gpus].tolist()


FGD = Policy(scores=((fgd_score, 1.0),), cards=fgd_cards)
BEST_FIT = Policy(scores=((best_fit_score, 1.0),), cards=best_fit_cards)


def _fitting(snapshot: Snapshot, request: Request, node: int) -> np.ndarray:
    gpus, _ = snapshot.cards_of(snapshot.nodes[node : node + 1])
    return gpus[fitting_cards(snapshot, request, gpus)]


def _gpu_milli(snapshot: Snapshot, request: Request) -> int:
    """What one task asks in all, on the dearest kind."""
    return request.ask.gpus * max(request.ask.need_milli, default=0)
