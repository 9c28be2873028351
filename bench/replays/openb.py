"""Replay of the openb trace (FGD, USENIX ATC'23): pods arrive one by one and never leave.

Cards have 1,000 "MiB", so milli are exact. Nodes are sorted by tie rank.
"""

import csv
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.core.model.demand import GangDemand, build_demand
from scheduler.core.model.snapshot import UNLIMITED, Snapshot
from scheduler.core.model.types import Policy, Role, TaskResources, TypicalRequests, WaitingJob
from scheduler.core.placement.fragmentation import UNACCEPTABLE_MILLI, RequestShape, most_frequent_requests
from scheduler.core.placement.gang_placement import place_gang
from scheduler.core.placement.scarcity import build_demand_profile
from scheduler.core.placement.scores import ScoreTable
from scheduler.core.placement.shortfall import Shortfall

CARD_MILLI = 1000
MAX_SLICES = 1000
LEARN_EVERY = 200
HISTORY_WEIGHT = 0.02
"""Weight of a historical pod relative to one that has arrived."""


@dataclass(frozen=True)
class OpenbTrace:
    """A cluster, its pods, and arrivals by seed: {seed: (pod numbers, tie rank by node)}."""

    nodes: list[dict]
    models: tuple[str, ...]
    pods: list[TaskResources]
    orders: dict[int, tuple[list[int], list[int]]]
    typical: TypicalRequests


@dataclass(frozen=True)
class PodArrival:
    """Milli of cards requested and allocated so far, after one more pod."""

    requested_milli: int
    allocated_milli: int
    placed: bool


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
    shapes = {_pod_spec(pod): _pod_shape(pod, models) for pod in rows}
    typical = most_frequent_requests((shapes[spec], specs[spec]) for spec in sorted(specs, reverse=True))
    if typical is None:
        raise ValueError(f"{workload} has no pods")
    return OpenbTrace(nodes, models, pods, orders, typical)


def build_cluster(trace: OpenbTrace, tie_ranks: list[int], typical: TypicalRequests) -> Snapshot:
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
    snapshot: Snapshot,
    asks: Iterable[TaskResources],
    policy: Policy,
    history: Iterable[TaskResources] = (),
    weight: float = 0.0,
) -> Iterator[PodArrival]:
    """Place pods in order with the scheduler's own `place`; changes the snapshot.

    Demand is learned from arrived pods and a history that counts `weight` per pod.
    """
    table = ScoreTable(snapshot, policy)
    demands: dict[TaskResources, tuple[WaitingJob, GangDemand]] = {}
    asked = given = 0
    seen: Counter[TaskResources] = Counter()
    for ask in history:
        seen[ask] += weight  # type: ignore[assignment]
    totals = (CARD_MILLI,) * len(snapshot.kind_names)
    for number, ask in enumerate(asks):
        if number % LEARN_EVERY == 0:
            snapshot.wishes = build_demand_profile(seen.items(), totals)
        seen[ask] += 1
        job, demand = demands.get(ask) or demands.setdefault(ask, _build_job(snapshot, ask))
        milli = int(demand.most[0])
        placed = not isinstance(place_gang(snapshot, table, job, demand, demand.kinds, 0), Shortfall)
        asked, given = asked + milli, given + milli * placed
        yield PodArrival(asked, given, placed)


def allocation_at(arrivals: Iterable[PodArrival], capacity_milli: int) -> dict[int, float]:
    """Return {x: mean allocation in %} where requests round to x % of capacity."""
    points: dict[int, list[float]] = {}
    for arrival in arrivals:
        points.setdefault(round(100 * arrival.requested_milli / capacity_milli), []).append(
            100 * arrival.allocated_milli / capacity_milli
        )
    return {x: sum(values) / len(values) for x, values in points.items()}


def _build_job(snapshot: Snapshot, ask: TaskResources) -> tuple[WaitingJob, GangDemand]:
    gang = (Role("pod", 1, 1, ask),)
    return WaitingJob(1, 0, 0, 0, 1, 0.0, gang), build_demand(snapshot, gang, 0)


def _pod_resources(pod: dict, models: tuple[str, ...]) -> TaskResources:
    gpus, milli = int(pod["num_gpu"]), int(pod["gpu_milli"])
    cpu, memory = int(pod["cpu_milli"]), int(pod["memory_mib"])
    if not gpus:
        return TaskResources(0, False, (), (), (), (), cpu, memory)
    wanted = set(pod["gpu_spec"].split("|")) - {""} or set(models)
    kinds = len(models)
    preference = tuple(0 if model in wanted else -1 for model in models)
    return TaskResources(
        gpus, milli == CARD_MILLI, (milli,) * kinds, (0,) * kinds, (milli,) * kinds, preference, cpu, memory
    )


def _pod_spec(pod: dict) -> tuple[int, int, int, str]:
    return int(pod["cpu_milli"]), int(pod["gpu_milli"]), int(pod["num_gpu"]), pod["gpu_spec"]


def _pod_shape(pod: dict, models: tuple[str, ...]) -> RequestShape:
    ask = _pod_resources(pod, models)
    need = tuple(ask.need_mib[kind] if rank >= 0 else UNACCEPTABLE_MILLI for kind, rank in enumerate(ask.preference))
    return ask.cpu_milli, ask.gpus, need or (UNACCEPTABLE_MILLI,) * len(models)


def _read_rows(path: Path) -> Iterator[dict]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return csv.DictReader(text.decode().splitlines())


def _parse_numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]
