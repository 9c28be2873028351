"""Published placement rules as Policy values, as in hkust-adsl/kubernetes-scheduler-simulator."""

import numpy as np

from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Policy, TypicalRequests
from scheduler.core.placement.filters import find_fitting_cards
from scheduler.core.placement.fragmentation import (
    UNACCEPTABLE_MILLI,
    NodeStates,
    fit_cards,
    fragmentation_gain,
    fragmentation_gain_by_card,
    sigmoid,
)

MAX_CPU_MILLI, MAX_GPU_MILLI = 128_000, 8_000
"""The reference's scale: its cluster's largest node."""


def score_fgd(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Score the fragmentation decrease (FGD, ATC'23, section 4)."""
    return np.floor(100 * sigmoid(fragmentation_gain(snapshot, request, nodes, measure_by_cause) / 1000))


def choose_fgd_cards(snapshot: Snapshot, request: RequestClass, node: int) -> list[int]:
    if request.ask.whole:
        return choose_first_cards(snapshot, request, node)
    _, gpus, gain = fragmentation_gain_by_card(snapshot, request, snapshot.nodes[node : node + 1], measure_by_cause)
    return [int(gpus[np.floor(100 * sigmoid(gain / 1000)).argmax()])]


def measure_by_cause(typical: TypicalRequests, states: NodeStates) -> np.ndarray:
    """Measure fragmentation in the reference's summation order, since rounding decides ties."""
    share = typical.count / typical.of / (typical.count.sum() / typical.of)
    enough_cpu = states.cpu[:, None] >= typical.cpu_milli
    enough_cards, stranded = fit_cards(typical, states)
    kinds = typical.need[states.kind.max(axis=1)]  # equal within a node here
    no_cards, no_access = typical.gpus == 0, (kinds >= UNACCEPTABLE_MILLI) & (typical.gpus > 0)
    asks = ~no_cards & ~no_access
    causes = (
        asks & ~enough_cards & ~enough_cpu,
        asks & enough_cpu,  # too few cards, or stranded
        asks & enough_cards & ~enough_cpu,
        no_cards & enough_cpu,
        no_cards & ~enough_cpu,
        no_access,
    )
    free = states.free.sum(axis=1)[:, None]
    amount = share * np.where(asks & enough_cards & enough_cpu, stranded, free)
    sums = [np.cumsum(np.where(cause, amount, 0.0), axis=1)[:, -1] for cause in causes]
    return np.cumsum(sums, axis=0)[-1]


def score_best_fit(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Score nodes with the least CPU and GPU left."""
    cpu = snapshot.node_cpu_free[nodes] - request.ask.cpu_milli
    grid = snapshot.card_grid[nodes]
    memory, total = snapshot.gpu_free_mib[grid], np.maximum(snapshot.gpu_total_mib[grid], 1)
    gpu = np.where(grid >= 0, 1000 * memory // total, 0).sum(axis=1) - _task_milli(snapshot, request)
    return np.floor(100 * (1 - 0.5 * cpu / MAX_CPU_MILLI - 0.5 * gpu / MAX_GPU_MILLI))


def choose_best_fit_cards(snapshot: Snapshot, request: RequestClass, node: int) -> list[int]:
    gpus = _fitting_on_node(snapshot, request, node)
    return gpus[np.argsort(snapshot.gpu_free_mib[gpus], kind="stable")][: request.ask.gpus].tolist()


def choose_first_cards(snapshot: Snapshot, request: RequestClass, node: int) -> list[int]:
    return _fitting_on_node(snapshot, request, node)[: request.ask.gpus].tolist()


FGD = Policy(scores=((score_fgd, 1.0),), cards=choose_fgd_cards)
BEST_FIT = Policy(scores=((score_best_fit, 1.0),), cards=choose_best_fit_cards)


def _fitting_on_node(snapshot: Snapshot, request: RequestClass, node: int) -> np.ndarray:
    gpus, _ = snapshot.cards_on(snapshot.nodes[node : node + 1])
    return gpus[find_fitting_cards(snapshot, request, gpus)]


def _task_milli(snapshot: Snapshot, request: RequestClass) -> int:
    """Return one task's milli on the most expensive kind."""
    return request.ask.gpus * max(request.ask.need_milli, default=0)
