"""Which cards of a node one task takes."""

import numpy as np

from scheduler.core.filters import fitting_cards
from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import best_set, loneliness


def choose_cards(snapshot: Snapshot, request: Request, node: int) -> list[int]:
    """The cards for one task on a node that passed the filters, all of the best kind that has enough.

    Whole cards: by their links (`topology.best_set`). Slices: shared cards first, of these the fullest; where that says
    nothing the card whose absence hurts the whole ones least, so that groups with fast links stay whole.
    """
    count = request.ask.gpus
    gpus, _ = snapshot.cards_of(snapshot.nodes[node : node + 1])
    gpus = gpus[fitting_cards(snapshot, request, gpus)]
    kinds = snapshot.gpu_kind[gpus]
    gpus = gpus[(np.bincount(kinds, minlength=len(snapshot.kind_names)) >= count)[kinds]]
    if not request.ask.whole:
        return _shared_cards(snapshot, request, gpus, node)
    kinds = snapshot.gpu_kind[gpus]
    best = kinds[request.rank[kinds].argmin()]
    return _linked_cards(snapshot, gpus[kinds == best], node, count)


def link_score(snapshot: Snapshot, gpus: list[int], node: int) -> int:
    """The sum of the link scores between these cards; 0 where the node's links are not known."""
    layout = snapshot.layout_of(node)
    return layout.score(tuple(snapshot.place_on_node(np.array(gpus)).tolist())) if layout else 0


def left_on(snapshot: Snapshot, request: Request, gpus: np.ndarray) -> np.ndarray:
    """The share of each card's memory that stays free after one slice of the request: float [len(gpus)]."""
    left = snapshot.gpu_free_mib[gpus] - request.need_mib[snapshot.gpu_kind[gpus]]
    return left / snapshot.gpu_total_mib[gpus]


def _linked_cards(snapshot: Snapshot, gpus: np.ndarray, node: int, count: int) -> list[int]:
    layout = snapshot.layout_of(node)
    if layout is None or count == len(gpus):
        return gpus[:count].tolist()
    places = snapshot.place_on_node(gpus).tolist()
    card_at = dict(zip(places, gpus.tolist(), strict=True))
    return [card_at[place] for place in best_set(layout, tuple(places), count)]


def _shared_cards(snapshot: Snapshot, request: Request, gpus: np.ndarray, node: int) -> list[int]:
    kinds = snapshot.gpu_kind[gpus]
    untouched = snapshot.gpu_slices[gpus] == 0
    columns = (
        request.rank[kinds].tolist(),
        untouched.tolist(),
        left_on(snapshot, request, gpus).tolist(),
        _loneliness(snapshot, gpus, untouched, node),
        gpus.tolist(),
        kinds.tolist(),
    )
    cards = sorted(zip(*columns, strict=True))
    return [gpu for *_, gpu, kind in cards if kind == cards[0][-1]][: request.ask.gpus]


def _loneliness(snapshot: Snapshot, gpus: np.ndarray, untouched: np.ndarray, node: int) -> list[tuple[int, int]]:
    layout = snapshot.layout_of(node)
    if layout is None:
        return [(0, 0)] * len(gpus)
    places = snapshot.place_on_node(gpus)
    whole = tuple(places[untouched].tolist())
    return [loneliness(layout, place, whole) for place in places.tolist()]
