"""Placement of a gang on nodes and cards: all tasks or none."""

from typing import NamedTuple

import numpy as np

from scheduler.core.model.demand import GangDemand, extra_milli, find_largest_role, task_size
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import CardShare, Placement, Role, TaskPlacement, TaskResources, WaitingJob
from scheduler.core.placement.numa_choice import choose_numa
from scheduler.core.placement.scores import ScoreTable
from scheduler.core.placement.shortfall import Shortfall
from scheduler.core.placement.topology_domains import list_domains
from scheduler.core.quota.whole_node_guarantees import CellConstraint

UNLIMITED_QUOTA = 2**62
"""`spare_milli` if limits do not matter."""


def place_gang(
    snapshot: Snapshot,
    table: ScoreTable,
    job: WaitingJob,
    demand: GangDemand,
    kinds: tuple[int, ...],
    spare_milli: int,
    cell_constraint: CellConstraint | None = None,
    within: np.ndarray | None = None,
) -> Placement | Shortfall:
    """Place all tasks and take their resources, or leave the snapshot unchanged.

    spare_milli: quota beyond the cheapest kinds. within: the only nodes that it may use, bool [N]. Greedy, largest
    tasks first; retried with a failed role first. A job that must share a domain is tried in each that may have room.
    """
    gang = _Gang(snapshot, table, job, demand, kinds, spare_milli, cell_constraint)
    rule = job.gang[0].place
    if rule is None:
        return gang.place(within)
    if not rule.same:
        return gang.place_close(rule.prefer, within)
    for nodes in list_domains(snapshot, demand, kinds, rule.same, within):
        if isinstance(result := gang.place_close(rule.prefer, nodes), Placement):
            return result
    apart = gang.place(within)
    if isinstance(apart, Shortfall):
        return apart
    snapshot.release(apart, job)
    index = find_largest_role(job.gang)
    return Shortfall(0, RequestClass(job.gang[index].ask, job.pool, kinds[index], demand.reach), rule.same)


class _Gang(NamedTuple):
    """What is placed, and what of; see `place_gang`."""

    snapshot: Snapshot
    table: ScoreTable
    job: WaitingJob
    demand: GangDemand
    kinds: tuple[int, ...]
    spare_milli: int
    cell_constraint: CellConstraint | None

    def place_close(self, level: str, within: np.ndarray | None) -> Placement | Shortfall:
        """Place it in one domain of the level if one has room, else in few. level: "" for anywhere."""
        if not level:
            return self.place(within)
        for nodes in list_domains(self.snapshot, self.demand, self.kinds, level, within, join=True):
            if isinstance(result := self.place(nodes), Placement):
                return result
        return result

    def place(self, within: np.ndarray | None) -> Placement | Shortfall:
        """Place it on these nodes, None for all."""
        order = _largest_first(self.job.gang)
        result = self._place_in_order(order, within)
        if isinstance(result, Shortfall) and result.placed and len(self.job.gang) > 1:
            missing = order[result.placed][0]
            again = self._place_in_order(sorted(order, key=lambda task: task[0] != missing), within)
            return again if isinstance(again, Placement) else result
        return result

    def _place_in_order(self, order: list[tuple[int, int]], within: np.ndarray | None) -> Placement | Shortfall:
        snapshot, table, job, demand, kinds, spare_milli, cell_constraint = self
        taken: list[TaskPlacement] = []
        for index, rank in order:
            role = job.gang[index]
            now = kinds[index] & demand.affordable_kinds(spare_milli)[index]
            request, node = _best_node(table, role.ask, job.pool, now, demand.reach, cell_constraint, within)
            if node < 0:
                for task in reversed(taken):
                    snapshot.release_task(task)
                return Shortfall(len(taken), request)
            chosen = table.choose_cards(request, node) if role.ask.gpus else []
            task = _build_task(snapshot, request, role, rank, node, chosen)
            snapshot.allocate_task(task)
            taken.append(task)
            cell_constraint = cell_constraint.with_task(task) if cell_constraint and task.cards else cell_constraint
            if task.cards:
                kind = int(snapshot.gpu_kind[task.cards[0].gpu])
                spare_milli -= extra_milli(role.ask, demand.kinds[index], kind)
        tasks = tuple(sorted(taken, key=lambda task: task.rank))
        snapshot.charge_quota(tasks, job)
        return Placement(job.job, tasks, job.choice)


def _best_node(
    table: ScoreTable,
    ask: TaskResources,
    pool: int,
    kinds: int,
    reach: int,
    cell_constraint: CellConstraint | None,
    within: np.ndarray | None,
) -> tuple[RequestClass, int]:
    found = RequestClass(ask, pool, kinds, reach), -1
    for allowed in cell_constraint.node_choices(ask, kinds) if cell_constraint else (None,):
        if within is not None:
            allowed = within if allowed is None else allowed & within
        found = table.best_node(ask, pool, kinds, reach, allowed)
        if found[1] >= 0:
            break
    return found


def _largest_first(gang: tuple[Role, ...]) -> list[tuple[int, int]]:
    """Return (role index, rank) of each task, hardest to place first."""
    order = [index for index, role in enumerate(gang) for _ in range(role.min)]
    tasks = [(index, rank) for rank, index in enumerate(order)]
    if len(gang) == 1:
        return tasks
    return sorted(tasks, key=lambda task: (task_size(gang[task[0]]), -task[1]), reverse=True)


def _build_task(
    snapshot: Snapshot, request: RequestClass, role: Role, rank: int, node: int, chosen: list[int]
) -> TaskPlacement:
    cards = tuple(_card_share(snapshot, request, gpu) for gpu in chosen)
    near = choose_numa(snapshot, role.ask, node, chosen)
    return TaskPlacement(role.name, rank, node, cards, role.ask.cpu_milli, role.ask.memory_mib, near)


def _card_share(snapshot: Snapshot, request: RequestClass, gpu: int) -> CardShare:
    ask, kind = request.ask, int(snapshot.gpu_kind[gpu])
    if ask.whole:
        return CardShare(gpu, int(snapshot.gpu_total_mib[gpu]), 100, ask.need_milli[kind])
    return CardShare(gpu, ask.need_mib[kind], ask.need_percent[kind], ask.need_milli[kind])
