"""Topology domains: the groups of nodes, a switch or a single node, in which the tasks of a job are kept together."""

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.core.model.demand import GangDemand, find_largest_role
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import NODE, Role, TaskPlacement, WaitingJob
from scheduler.core.placement.filters import allows_cpu_only, find_eligible_cards, find_open_nodes


def number_domains(snapshot: Snapshot, level: str) -> np.ndarray:
    """Return the domain of each node: int [N]. A node whose switch is not known is a domain of its own."""
    if level == NODE:
        return snapshot.nodes
    unknown = snapshot.node_switch.max(initial=-1) + 1 + snapshot.nodes
    return np.where(snapshot.node_switch >= 0, snapshot.node_switch, unknown)


def find_shared_domain(snapshot: Snapshot, job: WaitingJob, tasks: Sequence[TaskPlacement]) -> np.ndarray | None:
    """Return the nodes that another task of a placed job may use: bool [N], None for all."""
    rule = job.gang[0].place
    if rule is None or not rule.same:
        return None
    domain = number_domains(snapshot, rule.same)
    return domain == domain[tasks[0].node]


def list_domains(
    snapshot: Snapshot,
    demand: GangDemand,
    kinds: tuple[int, ...],
    level: str,
    within: np.ndarray | None,
    join: bool = False,
) -> Iterator[np.ndarray]:
    """Yield the domains that may have room for the whole gang, as nodes: bool [N] each; the fullest of them first.

    Those that have room on a kind of card that the job prefers come before. None with enough room is missing.
    join: then several domains together, the emptiest first, from as few on as may do; all nodes at last.
    """
    domain, room = _count_room(snapshot, demand, kinds, level, within)
    tasks = np.array([each.sum(axis=1) for each in room])
    need = np.array([role.min for role in demand.gang])[:, None]
    largest = find_largest_role(demand.gang)
    rank = _rank_by_kind(demand.gang[largest], room[largest])
    enough = np.logical_and.reduce(tasks >= need)
    for number in np.lexsort((tasks[largest], rank)).tolist():
        if enough[number]:
            yield domain == number
    if not join:
        return
    emptiest = np.argsort(-tasks[largest], kind="stable")
    together = np.logical_and.reduce(tasks[:, emptiest].cumsum(axis=1) >= need) & tasks[:, emptiest].any(axis=0)
    for last in np.flatnonzero(together).tolist():
        yield np.isin(domain, emptiest[: last + 1])
    yield np.ones(len(domain), dtype=bool) if within is None else within


def count_most_tasks(snapshot: Snapshot, demand: GangDemand, level: str) -> tuple[np.ndarray, np.ndarray]:
    """Return how many of the gang's tasks may fit each domain at most, and the domain of each node."""
    domain, room = _count_room(snapshot, demand, demand.kinds, level, None)
    tasks = [np.minimum(each.sum(axis=1), role.min) for each, role in zip(room, demand.gang, strict=True)]
    return np.sum(tasks, axis=0), domain


def _count_room(
    snapshot: Snapshot, demand: GangDemand, kinds: tuple[int, ...], level: str, within: np.ndarray | None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the domain of each node, and for each role at most how many of its tasks fit where: int [domains, K]."""
    domain = number_domains(snapshot, level)
    count = int(domain.max(initial=-1)) + 1
    room = []
    for role, allowed in zip(demand.gang, kinds, strict=True):
        on_node = _count_tasks(snapshot, RequestClass(role.ask, demand.pool, allowed, demand.reach))
        if within is not None:
            on_node[~within] = 0
        tasks = np.zeros((count, on_node.shape[1]), dtype=np.int64)
        np.add.at(tasks, domain, on_node)
        room.append(tasks)
    return domain, room


def _count_tasks(snapshot: Snapshot, request: RequestClass) -> np.ndarray:
    """Return at most how many such tasks fit each node on cards of each kind: int [N, K], [N, 1] without cards."""
    ask, nodes = request.ask, snapshot.nodes
    beside = np.full(len(nodes), np.iinfo(np.int64).max)
    for free, amount in ((snapshot.node_cpu_free, ask.cpu_milli), (snapshot.node_memory_free, ask.memory_mib)):
        beside = np.minimum(beside, np.maximum(free, 0) // max(amount, 1))
    beside = np.where(find_open_nodes(snapshot, request, nodes), beside, 0)
    if not ask.gpus:
        return np.where(allows_cpu_only(snapshot, request, nodes), beside, 0)[:, None]
    shares = np.zeros((len(nodes), len(snapshot.kind_names)), dtype=np.int64)
    np.add.at(shares, (snapshot.gpu_node, snapshot.gpu_kind), _count_shares(snapshot, request))
    return np.minimum(shares // ask.gpus, beside[:, None])


def _count_shares(snapshot: Snapshot, request: RequestClass) -> np.ndarray:
    """Return how many shares as a task needs fit each card: int [G]."""
    gpus = np.arange(len(snapshot.gpu_node))
    eligible = find_eligible_cards(snapshot, request, gpus)
    if request.ask.whole:
        return np.where(eligible & (snapshot.gpu_slices == 0), 1, 0)
    kind = snapshot.gpu_kind
    shares = np.minimum(
        snapshot.gpu_free_mib // np.maximum(request.need_mib_by_kind[kind], 1),
        snapshot.gpu_free_percent // np.maximum(request.need_percent_by_kind[kind], 1),
    )
    shares = np.minimum(shares, snapshot.gpu_max_slices - snapshot.gpu_slices)
    return np.where(eligible, np.maximum(shares, 0), 0)


def _rank_by_kind(role: Role, tasks: np.ndarray) -> np.ndarray:
    """Return the preference of the best kind on which all tasks of the role may fit each domain: [domains]."""
    none = len(role.ask.preference)
    rank = np.full(len(tasks), none)
    for kind, preference in enumerate(role.ask.preference):
        if preference >= 0:
            rank = np.where(tasks[:, kind] >= role.min, np.minimum(rank, preference), rank)
    return rank
