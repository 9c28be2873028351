"""Filters: which nodes can take one task. Their names are reason codes.

A filter is `(snapshot, request, nodes) -> bool [len(nodes)]`.
"""

import numpy as np

from scheduler.core.model.requests import OWN_POOL, RequestClass, acceptable_kinds_mask
from scheduler.core.model.snapshot import Snapshot


def model_unavailable(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Keep nodes with a free card of the requested models."""
    if not snapshot.pool_kinds[request.pool] & ~acceptable_kinds_mask(request.ask) or not request.ask.gpus:
        return np.ones(len(nodes), dtype=bool)
    return count_fitting_cards(snapshot, request, nodes).sum(axis=1) > 0


def no_fit_now(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Keep open nodes with enough cards, CPU and memory together."""
    ask = request.ask
    fits = find_open_nodes(snapshot, request, nodes)
    fits &= (snapshot.node_cpu_free[nodes] >= ask.cpu_milli) & (snapshot.node_memory_free[nodes] >= ask.memory_mib)
    if not ask.gpus:
        return fits & allows_cpu_only(snapshot, request, nodes)
    return fits & (count_fitting_cards(snapshot, request, nodes).max(axis=1, initial=0) >= ask.gpus)


FILTERS = (model_unavailable, no_fit_now)


def find_open_nodes(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Check which nodes take new work and have what a task needs of a node itself: bool [len(nodes)]."""
    fits = snapshot.node_open[nodes]
    return fits & snapshot.node_rdma[nodes] if request.ask.rdma else fits


def allows_cpu_only(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Keep nodes allowed for CPU-only tasks."""
    allowed = snapshot.node_pool[nodes] == request.pool
    if request.ask.beside_cards:
        allowed |= np.isin(nodes, snapshot.gpu_node[snapshot.gpu_pool == request.pool])
    return allowed


def count_fitting_cards(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Count each node's fitting cards by kind: int [len(nodes), K]."""
    gpus, owner = snapshot.cards_on(nodes)
    fits = find_fitting_cards(snapshot, request, gpus)
    kinds = len(snapshot.kind_names)
    cell = owner[fits] * kinds + snapshot.gpu_kind[gpus[fits]]
    return np.bincount(cell, minlength=len(nodes) * kinds).reshape(len(nodes), kinds)


def find_fitting_cards(snapshot: Snapshot, request: RequestClass, gpus: np.ndarray) -> np.ndarray:
    """Check which cards have room for one share: bool [len(gpus)]."""
    if request.ask.whole:
        free = (snapshot.gpu_slices[gpus] == 0) & (snapshot.gpu_free_percent[gpus] == 100)
        free &= snapshot.gpu_free_mib[gpus] == snapshot.gpu_total_mib[gpus]
    else:
        kind = snapshot.gpu_kind[gpus]
        free = snapshot.gpu_free_mib[gpus] >= request.need_mib_by_kind[kind]
        free &= snapshot.gpu_free_percent[gpus] >= request.need_percent_by_kind[kind]
        free &= snapshot.gpu_slices[gpus] < snapshot.gpu_max_slices[gpus]
    return free & find_eligible_cards(snapshot, request, gpus)


def find_fitting_grid(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Return `find_fitting_cards` by node: bool [len(nodes), C], padded with False."""
    grid = snapshot.card_grid[nodes]
    return (grid >= 0) & find_fitting_cards(snapshot, request, grid.ravel()).reshape(grid.shape)


def find_eligible_cards(snapshot: Snapshot, request: RequestClass, gpus: np.ndarray) -> np.ndarray:
    """Check which cards the request may use, full or not: bool [len(gpus)]."""
    eligible = find_cards_in_reach(snapshot, request, gpus)
    eligible &= snapshot.gpu_open[gpus]
    eligible &= request.accepts[snapshot.gpu_kind[gpus]]
    if request.ask.rdma:
        eligible &= snapshot.node_rdma[snapshot.gpu_node[gpus]]
    return eligible if request.ask.whole else eligible & (snapshot.gpu_max_slices[gpus] > 1)


def find_cards_in_reach(snapshot: Snapshot, request: RequestClass, gpus: np.ndarray) -> np.ndarray:
    """Check which cards belong to the request's pool or are lent to it: bool [len(gpus)]."""
    own = snapshot.gpu_pool[gpus] == request.pool
    if request.reach == OWN_POOL:
        return own
    lent = np.isin(snapshot.gpu_window[gpus], request.lending_windows)
    return own | lent if request.reach & OWN_POOL else lent
