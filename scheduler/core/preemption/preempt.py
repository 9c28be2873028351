"""Preemption: closed lending windows, reclaimed guarantees, and priority.

Stops preemptible jobs that lose few card-seconds. Only jobs with a reservation get room, so that nobody takes it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.core.model.demand import GangDemand
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import CPU_MILLI, GPU_MILLI, Eviction, Placement, Refusal, RunningJob, WaitingJob
from scheduler.core.placement.gang_placement import UNLIMITED_QUOTA, place_gang
from scheduler.core.placement.score_table import ScoreTable, score_nodes
from scheduler.core.queueing.cycle_context import Cycle
from scheduler.core.queueing.reservations import ScoredSnapshot
from scheduler.core.quota.cell_limits import build_cell_constraint
from scheduler.core.quota.limits import is_within_guarantee

MAX_NODES_TRIED = 64
"""Nodes examined per job."""

MayStop = Callable[[Snapshot, RunningJob, WaitingJob], bool]
ChooseVictims = Callable[[WaitingJob, GangDemand], Sequence[RunningJob]]


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
    _make_room_for_each(cycle, able, "preempted", is_lower_priority)


def is_fully_borrowed(world: Snapshot, victim: RunningJob, job: WaitingJob) -> bool:
    """Check whether the victim's teams keep their whole guarantee without it."""
    chain = list(world.team_chain[victim.team])
    if job.team in chain or victim.pool != job.pool:
        return False
    rest, guarantee = world.held[chain, victim.pool] - victim.quota_usage, world.guarantee[chain, victim.pool]
    return bool(((guarantee == 0) | (rest >= guarantee)).all())


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


def get_lost_work(victim: RunningJob, now: float) -> float:
    """Return the card-seconds lost by a stop now; CPU-only work counts as 0.01 card."""
    return max(now - victim.saved_at, 0.0) * max(victim.quota_usage[GPU_MILLI] / 1000, 0.01)


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
        if job.job not in cycle.making_room_for and may_ask(cycle, job):
            closed = cycle.reservation_plan.maintenance_tasks(cycle.now + job.time_s)
            for task in closed:
                cycle.after_evictions.snapshot.allocate_task(task)
            make_room(cycle, job, reason, lambda job, demand: choose_victims(cycle, job, demand, may_stop))
            for task in closed:
                cycle.after_evictions.snapshot.release_task(task)


def make_room(cycle: Cycle, job: WaitingJob, reason: str, choose: ChooseVictims) -> None:
    """Choose victims, and take the job's place in `cycle.after`."""
    demand = cycle.job_class(job).demand
    victims: Sequence[RunningJob] = ()
    if not _place_job(cycle.after_evictions, job, demand):
        victims = choose(job, demand)
        if not victims:
            return
        for victim in victims:
            cycle.after_evictions.snapshot.remove_job(victim)
        cycle.leaving.update(victim.job for victim in victims)
        _place_job(cycle.after_evictions, job, demand)
    cycle.making_room_for.add(job.job)
    if not cycle.leaving:
        return  # room exists, something else keeps it
    cycle.plan.refusals[job.job].insert(0, Refusal("making_room", {"n": len(victims) or len(cycle.leaving)}))
    cycle.plan.evictions += [Eviction(victim.job, reason, job.job) for victim in victims]


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
    return _choose_cheapest_node(world, cycle, job, demand, gone, may_stop)


def choose_for_gang(
    view: ScoredSnapshot, job: WaitingJob, demand: GangDemand, gone: list[RunningJob]
) -> Sequence[RunningJob]:
    """Restore the most expensive victims while the gang still fits."""
    if not _fits(view, job, demand):
        return ()
    victims = list(gone)
    for victim in reversed(gone):
        view.snapshot.restore_job(victim)
        if _fits(view, job, demand):
            victims.remove(victim)
        else:
            view.snapshot.remove_job(victim)
    return victims


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

    def cost(victims: list[RunningJob]) -> float:
        return sum(get_lost_work(victim, cycle.now) for victim in victims)

    cheapest = sorted(here, key=lambda node: cost(here[node]))[:MAX_NODES_TRIED]
    return min(
        (choose_on_node(world, request, node, here[node], job, may_stop) for node in cheapest), key=cost, default=()
    )


def choose_on_node(
    world: Snapshot, request: RequestClass, node: int, able: list[RunningJob], job: WaitingJob, may_stop: MayStop
) -> list[RunningJob]:
    """Stop the cheapest jobs until the request fits, then restore those not needed."""
    nodes = world.nodes[node : node + 1]

    def fits() -> bool:
        return bool(score_nodes(world, request, nodes)[0] > -np.inf)

    victims = stop_until_enough(world, able, job, may_stop, fits)
    enough = fits()
    for victim in reversed(victims.copy()):
        world.restore_job(victim)
        if fits():
            victims.remove(victim)
        else:
            world.remove_job(victim)
    for victim in victims:
        world.restore_job(victim)
    return victims if enough else []


def stop_until_enough(
    world: Snapshot, able: list[RunningJob], job: WaitingJob, may_stop: MayStop, enough: Callable[[], bool]
) -> list[RunningJob]:
    """Stop jobs that may be stopped, in order, until enough."""
    gone = []
    for victim in able:
        if enough():
            break
        if may_stop(world, victim, job):
            world.remove_job(victim)
            gone.append(victim)
    return gone


def _place_job(view: ScoredSnapshot, job: WaitingJob, demand: GangDemand) -> Placement | None:
    keep = build_cell_constraint(view.snapshot, job, demand)
    result = place_gang(view.snapshot, view.score_table, job, demand, demand.kinds, UNLIMITED_QUOTA, keep)
    return result if isinstance(result, Placement) else None


def _fits(view: ScoredSnapshot, job: WaitingJob, demand: GangDemand) -> bool:
    placement = _place_job(view, job, demand)
    if placement:
        view.snapshot.release(placement, job)
    return placement is not None
