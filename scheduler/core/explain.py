"""Why a task fits nowhere, in numbers that a person can act on."""

import numpy as np

from scheduler.core.filters import (
    FILTERS,
    count_fitting,
    eligible_cards,
    fitting_cards,
    model_unavailable,
    without_cards,
)
from scheduler.core.place import Shortfall
from scheduler.core.request import Request, kinds_in
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Refusal, Waiting


def explain_shortfall(snapshot: Snapshot, job: Waiting, shortfall: Shortfall) -> list[Refusal]:
    """The reasons of a gang that did not fit, the most telling first. The snapshot is as before the try."""
    if shortfall.have:
        need = sum(role.min for role in job.gang)
        return [Refusal("gang_incomplete", {"have": shortfall.have, "need": need})]
    request = shortfall.request
    refusals = []
    if emptying_filter(snapshot, request) == model_unavailable.__name__:
        models = [snapshot.kind_names[kind] for kind in kinds_in(request.kinds)]
        refusals.append(Refusal("model_unavailable", {"models": models}))
    if _is_fragmented(snapshot, request):
        refusals.append(Refusal("fragmented", {}))
    return [*refusals, _no_fit(snapshot, request)]


def emptying_filter(snapshot: Snapshot, request: Request) -> str:
    """The name of the first filter that, with those before it, leaves no node; "" where some node passes them all."""
    left = np.ones(len(snapshot.nodes), dtype=bool)
    for allows in FILTERS:
        left &= allows(snapshot, request, snapshot.nodes)
        if not left.any():
            return allows.__name__
    return ""


def bottleneck(snapshot: Snapshot, request: Request) -> tuple[str, int, np.ndarray]:
    """What no open node has enough of for one task: the resource, what is asked, and what each node has, int [N].

    Looked at in the order cards, CPU, memory, each only on nodes that pass those before. The resource is "" where
    nothing is short.
    """
    ask = request.ask
    left = snapshot.node_open.copy()
    if ask.gpus:
        has = np.where(left, count_fitting(snapshot, request, snapshot.nodes).max(axis=1, initial=0), 0)
        left &= has >= ask.gpus
        if not left.any():
            return "gpus", ask.gpus, has
    else:
        left &= without_cards(snapshot, request, snapshot.nodes)
    columns = (
        ("cpu_milli", ask.cpu_milli, snapshot.node_cpu_free),
        ("memory_mib", ask.memory_mib, snapshot.node_memory_free),
    )
    for resource, amount, free in columns:
        has = np.where(left, np.maximum(free, 0), 0)  # less than nothing: taken now, and kept for a maintenance
        left = left & (free >= amount)
        if not left.any():
            return resource, amount, has
    return "", 0, np.zeros(len(left), dtype=np.int64)


def _no_fit(snapshot: Snapshot, request: Request) -> Refusal:
    """resource: gpus, cpu_milli or memory_mib; free: in all; best: on the node that has most ("" where all have 0)."""
    resource, amount, has = bottleneck(snapshot, request)
    best = int(has.max(initial=0))
    best_node = snapshot.node_name(int(has.argmax())) if best else ""
    params = {"resource": resource, "free": int(has.sum()), "ask": amount, "best_node": best_node, "best": best}
    if resource == "gpus" and not request.ask.whole:
        params |= _best_card(snapshot, request)
    return Refusal("no_fit_now", params)


def _best_card(snapshot: Snapshot, request: Request) -> dict:
    """What is free on the card that comes nearest to one slice, and what the slice needs there."""
    gpus = _cards_in_reach(snapshot, request)
    if not len(gpus):
        return {
            "free_mib": 0,
            "need_mib": min((request.ask.need_mib[kind] for kind in kinds_in(request.kinds)), default=0),
        }
    kind = snapshot.gpu_kind[gpus]
    memory = (snapshot.gpu_free_mib[gpus] - request.need_mib[kind]) / np.maximum(snapshot.gpu_total_mib[gpus], 1)
    compute = (snapshot.gpu_free_percent[gpus] - request.need_percent[kind]) / 100
    full = snapshot.gpu_slices[gpus] >= snapshot.gpu_max_slices[gpus]
    gpu = int(gpus[np.lexsort((-np.minimum(memory, compute), full))[0]])
    kind = int(snapshot.gpu_kind[gpu])
    return {
        "best_node": snapshot.node_name(int(snapshot.gpu_node[gpu])),
        "free_mib": int(snapshot.gpu_free_mib[gpu]),
        "need_mib": request.ask.need_mib[kind],
        "free_percent": int(snapshot.gpu_free_percent[gpu]),
        "need_percent": request.ask.need_percent[kind],
        "slices": int(snapshot.gpu_slices[gpu]),
        "max_slices": int(snapshot.gpu_max_slices[gpu]),
    }


def _is_fragmented(snapshot: Snapshot, request: Request) -> bool:
    """Is enough free in sum on cards of one kind, while too few single cards have room?"""
    ask = request.ask
    if not ask.gpus:
        return False
    gpus = _cards_in_reach(snapshot, request)
    if fitting_cards(snapshot, request, gpus).sum() >= ask.gpus:
        return False
    if not ask.whole:
        gpus = gpus[snapshot.gpu_slices[gpus] < snapshot.gpu_max_slices[gpus]]
    for kind in kinds_in(request.kinds):
        cards = gpus[snapshot.gpu_kind[gpus] == kind]
        if len(cards) < 2:
            continue
        mib = int(snapshot.gpu_total_mib[cards[0]]) if ask.whole else ask.need_mib[kind]
        percent = 100 if ask.whole else ask.need_percent[kind]
        enough = snapshot.gpu_free_mib[cards].sum() >= ask.gpus * mib
        if enough and snapshot.gpu_free_percent[cards].sum() >= ask.gpus * percent:
            return True
    return False


def _cards_in_reach(snapshot: Snapshot, request: Request) -> np.ndarray:
    """The cards that the request may use at all, full or not, on open nodes."""
    gpus = np.arange(len(snapshot.gpu_node))
    return gpus[eligible_cards(snapshot, request, gpus) & snapshot.node_open[snapshot.gpu_node]]
