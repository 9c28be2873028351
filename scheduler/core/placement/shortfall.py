"""Explanation of why a task does not fit, in numbers that a user can act on."""

from dataclasses import dataclass

import numpy as np

from scheduler.core.model.demand import build_demand
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
from scheduler.core.placement.topology_domains import count_most_tasks


@dataclass(frozen=True)
class Shortfall:
    """A gang did not fit: `placed` tasks did, `failed_request` was next.

    level: of the domain that all tasks must share, where only that is short of room.
    """

    placed: int
    failed_request: RequestClass
    level: str = ""


def explain_shortfall(snapshot: Snapshot, job: WaitingJob, shortfall: Shortfall) -> list[Refusal]:
    """Return the refusals of a gang that did not fit: first of the whole job, then what one task is short of."""
    need = sum(role.min for role in job.gang)
    if shortfall.level:
        return [Refusal("fits_only_apart", describe_domains(snapshot, job, shortfall))]
    whole_job = [Refusal("gang_incomplete", {"have": shortfall.placed, "need": need})] if need > 1 else []
    if shortfall.placed:
        return whole_job
    request = shortfall.failed_request
    refusals = whole_job
    if find_emptying_filter(snapshot, request) == model_unavailable.__name__:
        models = [snapshot.kind_names[kind] for kind in list_kinds(request.kinds)]
        refusals.append(Refusal("model_unavailable", {"models": models}))
    if _is_fragmented(snapshot, request):
        refusals.append(Refusal("fragmented", {}))
    return [*refusals, _no_fit_refusal(snapshot, request, need)]


def describe_domains(snapshot: Snapshot, job: WaitingJob, shortfall: Shortfall) -> dict:
    """Return the level, how many tasks must be in one domain, how many the roomiest has room for, and its name.

    best: 0 where it seems to have room for all, as its free cards are then not those that the tasks can use together.
    """
    demand = build_demand(snapshot, job.gang, job.pool, shortfall.failed_request.reach)
    room, domain = count_most_tasks(snapshot, demand, shortfall.level)
    need, number = sum(role.min for role in job.gang), int(room.argmax())
    best = int(room[number]) if room[number] < need else 0
    return {"level": shortfall.level, "need": need, "best": best, "domain": _name_domain(snapshot, domain == number)}


def _name_domain(snapshot: Snapshot, nodes: np.ndarray) -> str:
    """Return the name of the nodes' switch, or of the node that is a domain of its own."""
    first = int(nodes.argmax())
    number = int(snapshot.node_switch[first])
    if nodes.sum() > 1 and number >= 0 and snapshot.switch_names:
        return snapshot.switch_names[number]
    return snapshot.node_name(first)


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
    if ask.rdma:
        left &= snapshot.node_rdma
        if not left.any():
            return "rdma", 1, left.astype(np.int64)
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


def _no_fit_refusal(snapshot: Snapshot, request: RequestClass, tasks: int) -> Refusal:
    """Build `no_fit_now` with free amounts in all and on the best node. tasks: of the job; the amounts are one task's.

    usable: 0 if no card in service suits. beside: cards are free there, and this resource is not.
    """
    resource, amount, has = find_bottleneck(snapshot, request)
    best = int(has.max(initial=0))
    best_node = snapshot.node_name(int(has.argmax())) if best else ""
    params = {"resource": resource, "free": int(has.sum()), "ask": amount, "best_node": best_node, "best": best}
    if tasks > 1:
        params["tasks"] = tasks
    if resource != "gpus":
        return Refusal("no_fit_now", params | ({"beside": True} if request.ask.gpus else {}))
    gpus = _usable_cards(snapshot, request)
    if not len(gpus):
        return Refusal("no_fit_now", params | {"usable": 0})
    if request.ask.whole:
        parts = _count_parts_milli(snapshot, gpus)
        return Refusal("no_fit_now", params | ({"parts_gpu_milli": parts} if parts else {}))
    return Refusal("no_fit_now", params | _describe_best_card(snapshot, request, gpus))


def _count_parts_milli(snapshot: Snapshot, gpus: np.ndarray) -> int:
    """Return what is free of cards that are split now, in thousandths, as pages count it."""
    split = gpus[(snapshot.gpu_slices[gpus] > 0) & (snapshot.gpu_slices[gpus] < snapshot.gpu_max_slices[gpus])]
    free = 1000 * snapshot.gpu_free_mib[split] // np.maximum(snapshot.gpu_total_mib[split], 1)
    return int(np.minimum(free, 10 * snapshot.gpu_free_percent[split]).sum())


def _describe_best_card(snapshot: Snapshot, request: RequestClass, gpus: np.ndarray) -> dict:
    """Describe the card closest to fitting one slice: one with enough memory, where there is any."""
    kind = snapshot.gpu_kind[gpus]
    left_mib = snapshot.gpu_free_mib[gpus] - request.need_mib_by_kind[kind]
    if (left_mib >= 0).any():
        compute = snapshot.gpu_free_percent[gpus] - request.need_percent_by_kind[kind]
        full = snapshot.gpu_slices[gpus] >= snapshot.gpu_max_slices[gpus]
        gpu = int(gpus[np.lexsort((-compute, full, left_mib < 0))[0]])
    else:
        gpu = int(gpus[left_mib.argmax()])
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
