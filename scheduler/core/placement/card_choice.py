"""Choice of a node's cards for one task."""

import numpy as np

from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.topology import choose_linked_set, connectedness
from scheduler.core.placement.filters import find_fitting_cards


def choose_cards(snapshot: Snapshot, request: RequestClass, node: int) -> list[int]:
    """Return the cards for one task on a node that fits, all of the best kind.

    Whole cards: by links. Slices: near the RDMA adapters that it needs, shared cards first, then the fullest, then the
    least connected.
    """
    count = request.ask.gpus
    gpus, _ = snapshot.cards_on(snapshot.nodes[node : node + 1])
    gpus = gpus[find_fitting_cards(snapshot, request, gpus)]
    kinds = snapshot.gpu_kind[gpus]
    gpus = gpus[(np.bincount(kinds, minlength=len(snapshot.kind_names)) >= count)[kinds]]
    if not request.ask.whole:
        return _choose_shared_cards(snapshot, request, gpus, node)
    kinds = snapshot.gpu_kind[gpus]
    best = kinds[request.kind_preference[kinds].argmin()]
    return _choose_whole_cards(snapshot, request, gpus[kinds == best], node)


def sum_link_scores(snapshot: Snapshot, gpus: list[int], node: int) -> int:
    """Sum the link scores between these cards; 0 if unknown."""
    layout = snapshot.layout_of(node)
    return layout.sum_scores(_layout_places(snapshot, gpus)) if layout else 0


def sum_hca_scores(snapshot: Snapshot, gpus: list[int], node: int) -> int:
    """Sum the scores of these cards' ways to RDMA adapters; 0 if unknown."""
    layout = snapshot.layout_of(node)
    return layout.sum_hca_scores(_layout_places(snapshot, gpus)) if layout else 0


def free_share_after(snapshot: Snapshot, request: RequestClass, gpus: np.ndarray) -> np.ndarray:
    """Return the share of memory left on each card after one slice: float [len(gpus)]."""
    left = snapshot.gpu_free_mib[gpus] - request.need_mib_by_kind[snapshot.gpu_kind[gpus]]
    return left / snapshot.gpu_total_mib[gpus]


def _layout_places(snapshot: Snapshot, gpus: list[int]) -> tuple[int, ...]:
    return tuple(snapshot.layout_indices(np.array(gpus)).tolist())


def _choose_whole_cards(snapshot: Snapshot, request: RequestClass, gpus: np.ndarray, node: int) -> list[int]:
    layout, count = snapshot.layout_of(node), request.ask.gpus
    if layout is None or count == len(gpus):
        return gpus[:count].tolist()
    places = snapshot.layout_indices(gpus).tolist()
    card_at = dict(zip(places, gpus.tolist(), strict=True))
    return [card_at[place] for place in choose_linked_set(layout, tuple(places), count, request.ask.rdma)]


def _choose_shared_cards(snapshot: Snapshot, request: RequestClass, gpus: np.ndarray, node: int) -> list[int]:
    kinds = snapshot.gpu_kind[gpus]
    untouched = snapshot.gpu_slices[gpus] == 0
    columns = (
        request.kind_preference[kinds].tolist(),
        _far_from_hcas(snapshot, request, gpus, node),
        untouched.tolist(),
        free_share_after(snapshot, request, gpus).tolist(),
        _connectedness(snapshot, gpus, untouched, node),
        gpus.tolist(),
        kinds.tolist(),
    )
    cards = sorted(zip(*columns, strict=True))
    return [gpu for *_, gpu, kind in cards if kind == cards[0][-1]][: request.ask.gpus]


def _far_from_hcas(snapshot: Snapshot, request: RequestClass, gpus: np.ndarray, node: int) -> list[int]:
    layout = snapshot.layout_of(node)
    if not request.ask.rdma or layout is None or not layout.hca:
        return [0] * len(gpus)
    return [-layout.hca[place] for place in snapshot.layout_indices(gpus).tolist()]


def _connectedness(snapshot: Snapshot, gpus: np.ndarray, untouched: np.ndarray, node: int) -> list[tuple[int, int]]:
    layout = snapshot.layout_of(node)
    if layout is None:
        return [(0, 0)] * len(gpus)
    places = snapshot.layout_indices(gpus)
    whole = tuple(places[untouched].tolist())
    return [connectedness(layout, place, whole) for place in places.tolist()]
