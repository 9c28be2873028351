"""Explanation of why a task does not fit, in numbers that a user can act on."""

from dataclasses import dataclass

import numpy as np

from scheduler.core.model.requests import RequestClass, list_kinds
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Refusal, WaitingJob
from scheduler.core.placement.filters import (
    FILTERS,
    allows_cpu_only,
    count_fitting_cards,
    find_eligible_cards,
    find_fitting_cards,
    model_unavailable,
)


@dataclass(frozen=True)
class Shortfall:
    """A gang did not fit: `placed` tasks did, `failed_request` was next."""

    placed: int
    failed_request: RequestClass


def explain_shortfall(snapshot: Snapshot, job: WaitingJob, shortfall: Shortfall) -> list[Refusal]:
    """Return the refusals of a gang that did not fit, most informative first."""
    if shortfall.placed:
        need = sum(role.min for role in job.gang)
        return [Refusal("gang_incomplete", {"have": shortfall.placed, "need": need})]
    request = shortfall.failed_request
    refusals = []
    if find_emptying_filter(snapshot, request) == model_unavailable.__name__:
        models = [snapshot.kind_names[kind] for kind in list_kinds(request.kinds)]
        refusals.append(Refusal("model_unavailable", {"models": models}))
    if _is_fragmented(snapshot, request):
        refusals.append(Refusal("fragmented", {}))
    return [*refusals, _no_fit_refusal(snapshot, request)]


def find_emptying_filter(snapshot: Snapshot, request: RequestClass) -> str:
    """Return the name of the filter that leaves no node, "" if some node passes all."""
    left = np.ones(len(snapshot.nodes), dtype=bool)
    for allows in FILTERS:
        left &= allows(snapshot, request, snapshot.nodes)
        if not left.any():
            return allows.__name__
    return ""


def find_bottleneck(snapshot: Snapshot, request: RequestClass) -> tuple[str, int, np.ndarray]:
    """Return what is short for one task: (resource, request, int [N] free), "" if nothing."""
    ask = request.ask
    left = snapshot.node_open.copy()
    if ask.gpus:
        has = np.where(left, count_fitting_cards(snapshot, request, snapshot.nodes).max(axis=1, initial=0), 0)
        left &= has >= ask.gpus
        if not left.any():
            return "gpus", ask.gpus, has
    else:
        left &= allows_cpu_only(snapshot, request, snapshot.nodes)
    columns = (
        ("cpu_milli", ask.cpu_milli, snapshot.node_cpu_free),
        ("memory_mib", ask.memory_mib, snapshot.node_memory_free),
    )
    for resource, amount, free in columns:
        has = np.where(left, np.maximum(free, 0), 0)  # negative under maintenance
        left = left & (free >= amount)
        if not left.any():
            return resource, amount, has
    return "", 0, np.zeros(len(left), dtype=np.int64)


def _no_fit_refusal(snapshot: Snapshot, request: RequestClass) -> Refusal:
    """Build `no_fit_now` with free amounts in all and on the best node."""
    resource, amount, has = find_bottleneck(snapshot, request)
    best = int(has.max(initial=0))
    best_node = snapshot.node_name(int(has.argmax())) if best else ""
    params = {"resource": resource, "free": int(has.sum()), "ask": amount, "best_node": best_node, "best": best}
    if resource == "gpus" and not request.ask.whole:
        params |= _describe_best_card(snapshot, request)
    return Refusal("no_fit_now", params)


def _describe_best_card(snapshot: Snapshot, request: RequestClass) -> dict:
    """Describe the card closest to fitting one slice."""
    gpus = _usable_cards(snapshot, request)
    if not len(gpus):
        return {
            "free_mib": 0,
            "need_mib": min((request.ask.need_mib[kind] for kind in list_kinds(request.kinds)), default=0),
        }
    kind = snapshot.gpu_kind[gpus]
    left_mib = snapshot.gpu_free_mib[gpus] - request.need_mib_by_kind[kind]
    memory = left_mib / np.maximum(snapshot.gpu_total_mib[gpus], 1)
    compute = (snapshot.gpu_free_percent[gpus] - request.need_percent_by_kind[kind]) / 100
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


def _is_fragmented(snapshot: Snapshot, request: RequestClass) -> bool:
    ask = request.ask
    if not ask.gpus:
        return False
    gpus = _usable_cards(snapshot, request)
    if find_fitting_cards(snapshot, request, gpus).sum() >= ask.gpus:
        return False
    if not ask.whole:
        gpus = gpus[snapshot.gpu_slices[gpus] < snapshot.gpu_max_slices[gpus]]
    for kind in list_kinds(request.kinds):
        cards = gpus[snapshot.gpu_kind[gpus] == kind]
        if len(cards) < 2:
            continue
        mib = int(snapshot.gpu_total_mib[cards[0]]) if ask.whole else ask.need_mib[kind]
        percent = 100 if ask.whole else ask.need_percent[kind]
        enough = snapshot.gpu_free_mib[cards].sum() >= ask.gpus * mib
        if enough and snapshot.gpu_free_percent[cards].sum() >= ask.gpus * percent:
            return True
    return False


def _usable_cards(snapshot: Snapshot, request: RequestClass) -> np.ndarray:
    gpus = np.arange(len(snapshot.gpu_node))
    return gpus[find_eligible_cards(snapshot, request, gpus) & snapshot.node_open[snapshot.gpu_node]]
