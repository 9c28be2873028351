"""Preemption: maintenance, closed lending windows, reclaimed guarantees, and priority.

Stops preemptible jobs that lose few card-seconds. Only jobs with a reservation get room, so that nobody takes it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.core.model.demand import GangDemand
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import CPU_MILLI, GPU_MILLI, Eviction, RunningJob, WaitingJob
from scheduler.core.placement.scores import ScoredSnapshot, ScoreTable, score_nodes
from scheduler.core.placement.victims import (
    MayStop,
    choose_for_gang,
    choose_on_node,
    count_whole_cards,
    get_lost_work,
    is_fully_borrowed,
    stop_until_enough,
)
from scheduler.core.queueing.cycle_context import Cycle
from scheduler.core.queueing.maintenance import list_maintenance_evictions
from scheduler.core.queueing.priority_order import get_started_priority
from scheduler.core.quota.limits import is_within_guarantee
from scheduler.core.quota.whole_node_guarantees import build_cell_constraint

MAX_NODES_TRIED = 64
"""Nodes examined per job."""
MAX_NODES_CLEARED = 16
"""Nodes examined per job where the cheapest victims are scattered, which finds out less at once."""


def evict_for_maintenance(cycle: Cycle) -> None:
    """Stop preemptible jobs on nodes that are drained, or whose maintenance has begun and says so."""
    for job in list_maintenance_evictions(cycle.snapshot, cycle.snapshot.running, cycle.now):
        if job.job not in cycle.leaving:
            cycle.plan.evictions.append(Eviction(job.job, "maintenance"))
            cycle.after_evictions.snapshot.remove_job(job)
            cycle.leaving.add(job.job)


def evict_off_pool_jobs(cycle: Cycle) -> None:
    """Stop jobs of other pools whose lending window has closed."""
    if pools := set(cycle.off_pool_jobs.values()):
        owners = [job for job in cycle.reservation_plan.first_in_line if job.pool in pools]
        _make_room_for_each(cycle, owners, "window_closed", lambda world, victim, job: victim.pool != job.pool)


def reclaim_guarantees(cycle: Cycle) -> None:
    """Let jobs within their team's guarantee stop jobs of teams beyond theirs."""
    owners = [job for job in cycle.reservation_plan.first_in_line if cycle.is_within_guarantee(job)]
    for may_stop in (is_fully_borrowed, is_partly_borrowed, blocks_whole_node):  # stronger only if needed
        _make_room_for_each(cycle, owners, "reclaimed", may_stop, _is_still_within_guarantee)


def preempt_lower_priority(cycle: Cycle) -> None:
    """Let jobs stop lower-class ones, but not what another team is guaranteed."""
    able = [job for job in cycle.reservation_plan.first_in_line if cycle.policy.for_pool(job.pool).preempt]
    _make_room_for_each(
        cycle,
        able,
        "preempted",
        lambda world, victim, job: is_lower_priority(world, victim, job) and _started_lower(cycle, victim, job),
    )


def is_partly_borrowed(world: Snapshot, victim: RunningJob, job: WaitingJob) -> bool:
    """Check whether the victim's teams use more than their guarantee."""
    if is_fully_borrowed(world, victim, job):
        return True
    chain = list(world.team_chain[victim.team])
    if job.team in chain or victim.pool != job.pool:
        return False
    about = GPU_MILLI if victim.quota_usage[GPU_MILLI] else CPU_MILLI
    held, guarantee = world.held[chain, victim.pool, about], world.guarantee[chain, victim.pool, about]
    return bool(((guarantee == 0) | (held > guarantee)).all())


def blocks_whole_node(world: Snapshot, victim: RunningJob, job: WaitingJob) -> bool:
    """Check whether the victim fills no whole node while the job needs a guaranteed one."""
    if is_partly_borrowed(world, victim, job):
        return True
    sizes = {cell.cards for cell in world.cells if cell.pool == job.pool}
    stays = not job.preemptible or all(role.ask.gpus in sizes for role in job.gang)
    scattered = victim.pool == job.pool and all(len(task.cards) not in sizes for task in victim.tasks)
    return bool(sizes) and stays and scattered


def is_lower_priority(world: Snapshot, victim: RunningJob, job: WaitingJob) -> bool:
    if victim.priority >= job.priority or victim.pool != job.pool:
        return False
    return victim.team == job.team or is_fully_borrowed(world, victim, job)


def _started_lower(cycle: Cycle, victim: RunningJob, job: WaitingJob) -> bool:
    """Check that the victim's class, which its wait had raised, is lower: who waited long is not stopped at once."""
    return get_started_priority(victim, cycle.policy.for_pool(victim.pool), cycle.now) < job.priority


def _is_still_within_guarantee(cycle: Cycle, job: WaitingJob) -> bool:
    """Check the guarantee again, counting jobs being served."""
    return is_within_guarantee(cycle.after_evictions.snapshot, job, cycle.job_class(job).demand)


def _make_room_for_each(
    cycle: Cycle,
    first: list[WaitingJob],
    reason: str,
    may_stop: MayStop,
    may_ask: Callable[[Cycle, WaitingJob], bool] = lambda cycle, job: True,
) -> None:
    for job in first:
        if job.job in cycle.making_room_for or cycle.gets_room_elsewhere(job):
            continue
        if may_ask(cycle, job):
            closed = cycle.reservation_plan.maintenance_tasks(cycle.stays_until(job))
            for task in closed:
                cycle.after_evictions.snapshot.allocate_task(task)
            cycle.make_room(job, reason, lambda job, demand: choose_victims(cycle, job, demand, may_stop))
            for task in closed:
                cycle.after_evictions.snapshot.release_task(task)


def choose_victims(cycle: Cycle, job: WaitingJob, demand: GangDemand, may_stop: MayStop) -> Sequence[RunningJob]:
    """Choose jobs to stop so that the job fits, empty if impossible."""
    able = [
        victim
        for victim in cycle.snapshot.running
        if victim.preemptible
        and job.pool in (victim.pool, cycle.off_pool_jobs.get(victim.job))
        and victim.job not in cycle.leaving
    ]
    if not able:
        return ()
    able.sort(key=lambda victim: (get_lost_work(victim, cycle.now), -victim.started_at, victim.job))
    world = cycle.after_evictions.snapshot.copy()
    gone = stop_until_enough(world, able, job, may_stop, lambda: False)
    if sum(role.min for role in job.gang) > 1:
        return choose_for_gang(ScoredSnapshot(world, ScoreTable(world, cycle.policy)), job, demand, gone)
    cheapest = _choose_cheapest_node(world, cycle, job, demand, gone, may_stop)
    return cheapest or (gone and _choose_by_node(world, cycle, job, demand, able, may_stop))


def _choose_by_node(
    world: Snapshot, cycle: Cycle, job: WaitingJob, demand: GangDemand, able: list[RunningJob], may_stop: MayStop
) -> Sequence[RunningJob]:
    """Return the cheapest set on one node where the cheapest victims of all are scattered: a team gives back so much.

    able: by the work that they lose.
    """
    request = RequestClass(job.gang[0].ask, job.pool, demand.kinds[0], demand.reach)
    fits = np.ones(len(world.nodes), dtype=bool)
    if request.ask.whole:
        fits = count_whole_cards(world, able) >= request.ask.gpus
    if keep := build_cell_constraint(world, job, demand):
        fits &= keep.node_choices(request.ask, request.kinds)[-1]
    here: dict[int, list[RunningJob]] = {}
    for victim in able:
        for node in {task.node for task in victim.tasks if fits[task.node]}:
            here.setdefault(node, []).append(victim)
    found = (choose_on_node(world, request, node, here[node], job, may_stop) for node in list(here)[:MAX_NODES_CLEARED])
    return min(filter(None, found), key=lambda victims: _measure_cost(victims, cycle.now), default=())


def _choose_cheapest_node(
    world: Snapshot, cycle: Cycle, job: WaitingJob, demand: GangDemand, gone: list[RunningJob], may_stop: MayStop
) -> Sequence[RunningJob]:
    """Return the cheapest set on one node."""
    request = RequestClass(job.gang[0].ask, job.pool, demand.kinds[0], demand.reach)
    fits = score_nodes(world, request, world.nodes) > -np.inf
    if keep := build_cell_constraint(world, job, demand):
        fits &= keep.node_choices(request.ask, request.kinds)[-1]
    fitting = world.nodes[fits]
    for victim in gone:
        world.restore_job(victim)
    here: dict[int, list[RunningJob]] = {node: [] for node in fitting.tolist()}
    for victim in gone:
        for node in {task.node for task in victim.tasks} & here.keys():
            here[node].append(victim)

    cheapest = sorted(here, key=lambda node: _measure_cost(here[node], cycle.now))[:MAX_NODES_TRIED]
    found = (choose_on_node(world, request, node, here[node], job, may_stop) for node in cheapest)
    return min(found, key=lambda victims: _measure_cost(victims, cycle.now), default=())


def _measure_cost(victims: Sequence[RunningJob], now: float) -> tuple[float, float]:
    """Return the work lost; where that is equal, as with checkpoints, those that ran least have to leave."""
    return sum(get_lost_work(victim, now) for victim in victims), sum(now - victim.started_at for victim in victims)
