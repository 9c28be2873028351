"""Replay of the openb trace (FGD, USENIX ATC'23): pods arrive one by one and never leave.

Cards have 1,000 "MiB", so milli are exact. Nodes are sorted by tie rank.
"""

import csv
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.core.model.demand import GangDemand, build_demand
from scheduler.core.model.snapshot import UNLIMITED, Snapshot
from scheduler.core.model.types import Policy, Role, TaskResources, TypicalRequests, WaitingJob
from scheduler.core.placement.fragmentation import UNACCEPTABLE_MILLI, RequestShape, most_frequent_requests
from scheduler.core.placement.gang_placement import place_gang
from scheduler.core.placement.scores import ScoreTable
from scheduler.core.placement.shortfall import Shortfall
from scheduler.core.placement.usual_requests import RequestHistory

PodSpec = tuple[int, int, int, str]
"""CPU milli, milli of a card, cards, accepted models."""
CARD_MILLI = 1000
MAX_SLICES = 1000


@dataclass(frozen=True)
class OpenbTrace:
    """A cluster, its pods, and arrivals by seed: {seed: (pod numbers, tie rank by node)}."""

    nodes: list[dict]
    models: tuple[str, ...]
    pods: list[TaskResources]
    orders: dict[int, tuple[list[int], list[int]]]
    specs: Counter[PodSpec]

    @cached_property
    def typical(self) -> TypicalRequests:
        """What FGD takes for typical: the most frequent specs of the list itself."""
        shapes = ((_spec_shape(spec, self.models), self.specs[spec]) for spec in sorted(self.specs, reverse=True))
        typical = most_frequent_requests(shapes)
        assert typical is not None, "a list without pods"
        return typical


@dataclass(frozen=True)
class PodArrival:
    """Milli of cards requested and allocated so far, after one more pod."""

    requested_milli: int
    allocated_milli: int
    placed: bool


def join_traces(first: OpenbTrace, then: OpenbTrace, share: float) -> OpenbTrace:
    """Offer pods of the first list until they ask for `share` of the cluster's cards, then the other's.

    Ties are broken as in the first. typical: of both lists, each as long as it is.
    """
    enough = share * CARD_MILLI * sum(int(node["gpus"]) for node in first.nodes)
    orders = {}
    for seed, (pods, ranks) in first.orders.items():
        asked = accumulate(first.pods[pod].gpus * max(first.pods[pod].need_milli, default=0) for pod in pods)
        begun = sum(1 for milli in asked if milli < enough) + 1
        orders[seed] = [*pods[:begun], *(len(first.pods) + pod for pod in then.orders[seed][0])], ranks
    specs = first.specs + then.specs
    return OpenbTrace(first.nodes, first.models, [*first.pods, *then.pods], orders, specs)


def load_trace(folder: Path, workload: str) -> OpenbTrace:
    """Load a workload. Raises FileNotFoundError."""
    nodes = list(_read_rows(folder / "nodes.csv"))
    models = tuple(sorted({node["gpu_model"] for node in nodes}))
    rows = list(_read_rows(folder / f"pods_{workload}.csv.gz"))
    pods = [_pod_resources(pod, models) for pod in rows]
    specs = Counter(_pod_spec(pod) for pod in rows)
    (path,) = folder.glob(f"order_{workload}_*.csv.gz")
    orders = {
        int(row["seed"]): (_parse_numbers(row["pod_indices"]), _parse_numbers(row["node_tie_rank"]))
        for row in _read_rows(path)
    }
    return OpenbTrace(nodes, models, pods, orders, specs)


def build_cluster(trace: OpenbTrace, tie_ranks: list[int], typical: TypicalRequests | None = None) -> Snapshot:
    """Build the empty cluster with these typical requests."""
    nodes = [node for _, node in sorted(zip(tie_ranks, trace.nodes, strict=True), key=lambda pair: pair[0])]
    counts = [int(node["gpus"]) for node in nodes]
    cards, quota = sum(counts), (1, 1, 3)
    cpu, memory = [int(node["cpu_milli"]) for node in nodes], [int(node["memory_mib"]) for node in nodes]
    arrays: dict[str, Any] = {
        "gpu_node": np.repeat(np.arange(len(nodes)), counts),
        "gpu_pool": [0] * cards,
        "gpu_kind": np.repeat([trace.models.index(node["gpu_model"]) for node in nodes], counts),
        "gpu_total_mib": [CARD_MILLI] * cards,
        "gpu_free_mib": [CARD_MILLI] * cards,
        "gpu_free_percent": [100] * cards,
        "gpu_slices": [0] * cards,
        "gpu_max_slices": [MAX_SLICES] * cards,
        "gpu_open": [True] * cards,
        "node_pool": [0] * len(nodes),
        "node_cpu_free": cpu,
        "node_memory_free": memory,
        "node_open": [True] * len(nodes),
        "node_cpu_total": cpu,
        "node_memory_total": memory,
        "held": np.zeros(quota),
        "guarantee": np.zeros(quota),
        "limit": np.full(quota, UNLIMITED),
        "weight": [[1]],
        "user_held": np.zeros((1, 3)),
        "user_limit": np.full((1, 3), UNLIMITED),
        "user_jobs": [0],
        "user_jobs_limit": [UNLIMITED],
    }
    return Snapshot(**arrays, team_chain=((0,),), kind_names=trace.models, typical=typical)


def replay_pods(
    snapshot: Snapshot, asks: Iterable[TaskResources], policy: Policy, history: RequestHistory | None = None
) -> Iterator[PodArrival]:
    """Place pods in order with the scheduler's own `place`; changes the snapshot.

    history: of the pods before these; what is usual is then learnt as in production. Without it nothing is learnt.
    """
    table = ScoreTable(snapshot, policy)
    demands: dict[TaskResources, tuple[WaitingJob, GangDemand]] = {}
    asked = given = 0
    for ask in asks:
        job, demand = demands.get(ask) or demands.setdefault(ask, _build_job(snapshot, ask))
        if history is not None:
            history.add(job.gang)  # who waits counts already
            if history.teach(snapshot):
                table = ScoreTable(snapshot, policy)
        milli = int(demand.most[0])
        placed = not isinstance(place_gang(snapshot, table, job, demand, demand.kinds, 0), Shortfall)
        asked, given = asked + milli, given + milli * placed
        yield PodArrival(asked, given, placed)


def build_history(snapshot: Snapshot, pods: Iterable[TaskResources]) -> RequestHistory:
    """pods: oldest first."""
    history = RequestHistory((CARD_MILLI,) * len(snapshot.kind_names))
    for pod in pods:
        history.add(_build_gang(pod))
    return history


def allocation_at(arrivals: Iterable[PodArrival], capacity_milli: int) -> dict[int, float]:
    """Return {x: mean allocation in %} where requests round to x % of capacity."""
    points: dict[int, list[float]] = {}
    for arrival in arrivals:
        points.setdefault(round(100 * arrival.requested_milli / capacity_milli), []).append(
            100 * arrival.allocated_milli / capacity_milli
        )
    return {x: sum(values) / len(values) for x, values in points.items()}


def _build_job(snapshot: Snapshot, ask: TaskResources) -> tuple[WaitingJob, GangDemand]:
    gang = _build_gang(ask)
    return WaitingJob(1, 0, 0, 0, 1, 0.0, gang), build_demand(snapshot, gang, 0)


def _build_gang(ask: TaskResources) -> tuple[Role, ...]:
    return (Role("pod", 1, 1, ask),)


def _pod_spec(pod: dict) -> PodSpec:
    return int(pod["cpu_milli"]), int(pod["gpu_milli"]), int(pod["num_gpu"]), pod["gpu_spec"]


def _pod_resources(pod: dict, models: tuple[str, ...]) -> TaskResources:
    return _spec_resources(_pod_spec(pod), int(pod["memory_mib"]), models)


def _spec_resources(spec: PodSpec, memory: int, models: tuple[str, ...]) -> TaskResources:
    cpu, milli, gpus, accepted = spec
    if not gpus:
        return TaskResources(0, False, (), (), (), (), cpu, memory)
    wanted = set(accepted.split("|")) - {""} or set(models)
    kinds = len(models)
    preference = tuple(0 if model in wanted else -1 for model in models)
    return TaskResources(
        gpus, milli == CARD_MILLI, (milli,) * kinds, (0,) * kinds, (milli,) * kinds, preference, cpu, memory
    )


def _spec_shape(spec: PodSpec, models: tuple[str, ...]) -> RequestShape:
    ask = _spec_resources(spec, 0, models)
    need = tuple(ask.need_mib[kind] if rank >= 0 else UNACCEPTABLE_MILLI for kind, rank in enumerate(ask.preference))
    return ask.cpu_milli, ask.gpus, need or (UNACCEPTABLE_MILLI,) * len(models)


def _read_rows(path: Path) -> Iterator[dict]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return csv.DictReader(text.decode().splitlines())


def _parse_numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]
