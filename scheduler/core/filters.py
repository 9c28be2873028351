"""Which nodes can take one task of a request now. A filter's name is the reason code when it leaves no node.

A filter is `(snapshot, request, nodes) -> bool [len(nodes)]`. To add one: write it, add it to FILTERS, give it a world.
"""

import numpy as np

from scheduler.core.lending import OWN
from scheduler.core.request import Request, acceptable_kinds
from scheduler.core.snapshot import Snapshot


def model_unavailable(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """Nodes with at least one card of the models asked for that has room. Asks that leave no model out pass."""
    if not snapshot.pool_kinds[request.pool] & ~acceptable_kinds(request.ask) or not request.ask.gpus:
        return np.ones(len(nodes), dtype=bool)
    return count_fitting(snapshot, request, nodes).sum(axis=1) > 0


def no_fit_now(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """Nodes that are open and have the cards, the CPU and the memory together."""
    ask = request.ask
    fits = snapshot.node_open[nodes]
    fits &= (snapshot.node_cpu_free[nodes] >= ask.cpu_milli) & (snapshot.node_memory_free[nodes] >= ask.memory_mib)
    if not ask.gpus:
        return fits & without_cards(snapshot, request, nodes)
    return fits & (count_fitting(snapshot, request, nodes).max(axis=1, initial=0) >= ask.gpus)


FILTERS = (model_unavailable, no_fit_now)


def without_cards(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """Nodes on which a task that asks for no card may be at all: those whose home is its pool, and beside tasks with
    cards also those that have any of the pool's.
    """
    allowed = snapshot.node_pool[nodes] == request.pool
    if request.ask.beside_cards:
        allowed |= np.isin(nodes, snapshot.gpu_node[snapshot.gpu_pool == request.pool])
    return allowed


def count_fitting(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """How many cards of each kind on each node can take one share of the request: int [len(nodes), K]."""
    gpus, owner = snapshot.cards_of(nodes)
    fits = fitting_cards(snapshot, request, gpus)
    kinds = len(snapshot.kind_names)
    cell = owner[fits] * kinds + snapshot.gpu_kind[gpus[fits]]
    return np.bincount(cell, minlength=len(nodes) * kinds).reshape(len(nodes), kinds)


def fitting_cards(snapshot: Snapshot, request: Request, gpus: np.ndarray) -> np.ndarray:
    """Which of these cards have room for one share of the request: bool [len(gpus)]."""
    if request.ask.whole:
        free = (snapshot.gpu_slices[gpus] == 0) & (snapshot.gpu_free_percent[gpus] == 100)
        free &= snapshot.gpu_free_mib[gpus] == snapshot.gpu_total_mib[gpus]
    else:
        kind = snapshot.gpu_kind[gpus]
        free = snapshot.gpu_free_mib[gpus] >= request.need_mib[kind]
        free &= snapshot.gpu_free_percent[gpus] >= request.need_percent[kind]
        free &= snapshot.gpu_slices[gpus] < snapshot.gpu_max_slices[gpus]
    return free & eligible_cards(snapshot, request, gpus)


def fitting_grid(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """The same node by node: bool [len(nodes), C], the cards in their order, false where a node has no more."""
    grid = snapshot.card_grid[nodes]
    return (grid >= 0) & fitting_cards(snapshot, request, grid.ravel()).reshape(grid.shape)


def eligible_cards(snapshot: Snapshot, request: Request, gpus: np.ndarray) -> np.ndarray:
    """Which of these cards the request may use at all, full or not: healthy, in reach, its kinds, shared if a slice."""
    eligible = in_reach(snapshot, request, gpus)
    eligible &= snapshot.gpu_open[gpus]
    eligible &= request.accepts[snapshot.gpu_kind[gpus]]
    return eligible if request.ask.whole else eligible & (snapshot.gpu_max_slices[gpus] > 1)


def in_reach(snapshot: Snapshot, request: Request, gpus: np.ndarray) -> np.ndarray:
    """Which of these cards are of the request's pool, or lent to it for as long as it takes: bool [len(gpus)]."""
    own = snapshot.gpu_pool[gpus] == request.pool
    if request.reach == OWN:
        return own
    lent = np.isin(snapshot.gpu_window[gpus], request.windows)
    return own | lent if request.reach & OWN else lent
