"""The openb cluster (FGD, USENIX ATC'23): pods arrive one at a time, never leave, and are not tried again.

Cards sell 1,000 "MiB", so that a pod's thousandths of a card are exact. The nodes stand in the order of their ranks for
ties, so that the lowest rank wins among equals.
"""

import csv
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.core.demand import Demand, build_demand
from scheduler.core.fragmentation import NEVER, Shape, most_frequent
from scheduler.core.place import Shortfall, place
from scheduler.core.scarcity import build_wishes
from scheduler.core.snapshot import UNLIMITED, Snapshot
from scheduler.core.table import Table
from scheduler.core.types import Ask, Policy, Role, Typical, Waiting

CARD = 1000
MANY_SLICES = 1000
LEARNS_EVERY = 200
HISTORY_COUNTS = 0.02
"""A pod of another list's history tells so much less than one that has arrived: 8,152 count as much as 163."""


@dataclass(frozen=True)
class Trace:
    """A cluster, its pods by their row number, and the arrivals of each seed: {seed: (pod numbers, tie rank by node)}.

    typical: its most frequent specs, told apart and put in order as the reference does: by the text of the model list,
    and of equals the larger first.
    """

    nodes: list[dict]
    models: tuple[str, ...]
    pods: list[Ask]
    orders: dict[int, tuple[list[int], list[int]]]
    typical: Typical


@dataclass(frozen=True)
class Arrival:
    """What was asked and what was given of the cluster's cards, in thousandths of a card, after one more pod."""

    asked_milli: int
    given_milli: int
    placed: bool


def load_trace(folder: Path, workload: str) -> Trace:
    """Raises FileNotFoundError where the folder lacks the workload's files."""
    nodes = list(_rows(folder / "nodes.csv"))
    models = tuple(sorted({node["gpu_model"] for node in nodes}))
    rows = list(_rows(folder / f"pods_{workload}.csv.gz"))
    pods = [_ask(pod, models) for pod in rows]
    specs = Counter(_spec(pod) for pod in rows)
    (path,) = folder.glob(f"order_{workload}_*.csv.gz")
    orders = {int(row["seed"]): (_numbers(row["pod_indices"]), _numbers(row["node_tie_rank"])) for row in _rows(path)}
    shapes = {_spec(pod): _shape(pod, models) for pod in rows}
    typical = most_frequent((shapes[spec], specs[spec]) for spec in sorted(specs, reverse=True))
    if typical is None:
        raise ValueError(f"{workload} has no pods")
    return Trace(nodes, models, pods, orders, typical)


def build_cluster(trace: Trace, tie_ranks: list[int], typical: Typical) -> Snapshot:
    """The empty cluster, of which `typical` is usually asked."""
    nodes = [node for _, node in sorted(zip(tie_ranks, trace.nodes, strict=True), key=lambda pair: pair[0])]
    counts = [int(node["gpus"]) for node in nodes]
    cards, quota = sum(counts), (1, 1, 3)
    cpu, memory = [int(node["cpu_milli"]) for node in nodes], [int(node["memory_mib"]) for node in nodes]
    arrays: dict[str, Any] = {
        "gpu_node": np.repeat(np.arange(len(nodes)), counts),
        "gpu_pool": [0] * cards,
        "gpu_kind": np.repeat([trace.models.index(node["gpu_model"]) for node in nodes], counts),
        "gpu_total_mib": [CARD] * cards,
        "gpu_free_mib": [CARD] * cards,
        "gpu_free_percent": [100] * cards,
        "gpu_slices": [0] * cards,
        "gpu_max_slices": [MANY_SLICES] * cards,
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


def replay(
    snapshot: Snapshot, asks: Iterable[Ask], policy: Policy, history: Iterable[Ask] = (), weight: float = 0.0
) -> Iterator[Arrival]:
    """Offer each pod to the scheduler's own `place`. Changes the snapshot.

    What is asked of which models is known from a history, of which each pod counts `weight`, and from the pods that
    have arrived by then; it is looked at anew after every `LEARNS_EVERY` pods.
    """
    table = Table(snapshot, policy)
    demands: dict[Ask, tuple[Waiting, Demand]] = {}
    asked = given = 0
    seen: Counter[Ask] = Counter()
    for ask in history:
        seen[ask] += weight  # type: ignore[assignment]
    totals = (CARD,) * len(snapshot.kind_names)
    for number, ask in enumerate(asks):
        if number % LEARNS_EVERY == 0:
            snapshot.wishes = build_wishes(seen.items(), totals)
        seen[ask] += 1
        job, demand = demands.get(ask) or demands.setdefault(ask, _job(snapshot, ask))
        milli = int(demand.most[0])
        placed = not isinstance(place(snapshot, table, job, demand, demand.kinds, 0), Shortfall)
        asked, given = asked + milli, given + milli * placed
        yield Arrival(asked, given, placed)


def allocation_at(arrivals: Iterable[Arrival], capacity_milli: int) -> dict[int, float]:
    """{x: mean allocation in % of the cards over the arrivals at which the requests round to x %}."""
    points: dict[int, list[float]] = {}
    for arrival in arrivals:
        points.setdefault(round(100 * arrival.asked_milli / capacity_milli), []).append(
            100 * arrival.given_milli / capacity_milli
        )
    return {x: sum(values) / len(values) for x, values in points.items()}


def _job(snapshot: Snapshot, ask: Ask) -> tuple[Waiting, Demand]:
    gang = (Role("pod", 1, 1, ask),)
    return Waiting(1, 0, 0, 0, 1, 0.0, gang), build_demand(snapshot, gang, 0)


def _ask(pod: dict, models: tuple[str, ...]) -> Ask:
    """A pod without cards asks nothing of any kind; one with a model list accepts only those, all alike."""
    gpus, milli = int(pod["num_gpu"]), int(pod["gpu_milli"])
    cpu, memory = int(pod["cpu_milli"]), int(pod["memory_mib"])
    if not gpus:
        return Ask(0, False, (), (), (), (), cpu, memory)
    wanted = set(pod["gpu_spec"].split("|")) - {""} or set(models)
    kinds = len(models)
    preference = tuple(0 if model in wanted else -1 for model in models)
    return Ask(gpus, milli == CARD, (milli,) * kinds, (0,) * kinds, (milli,) * kinds, preference, cpu, memory)


def _spec(pod: dict) -> tuple[int, int, int, str]:
    return int(pod["cpu_milli"]), int(pod["gpu_milli"]), int(pod["num_gpu"]), pod["gpu_spec"]


def _shape(pod: dict, models: tuple[str, ...]) -> Shape:
    ask = _ask(pod, models)
    need = tuple(ask.need_mib[kind] if rank >= 0 else NEVER for kind, rank in enumerate(ask.preference))
    return ask.cpu_milli, ask.gpus, need or (NEVER,) * len(models)


def _rows(path: Path) -> Iterator[dict]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return csv.DictReader(text.decode().splitlines())


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]
