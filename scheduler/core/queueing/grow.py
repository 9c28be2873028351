"""Growth of starting elastic gangs beyond their minimum, with resources nobody waits for.

Guarantees are checked even for preemptible jobs, since a gang is stopped whole. Running gangs keep their size.
"""

from dataclasses import replace

import numpy as np

from scheduler.core.model.demand import GangDemand, build_demand
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Placement, Role, TaskPlacement, WaitingJob, sum_quota_usage
from scheduler.core.placement.gang_placement import place_gang
from scheduler.core.placement.topology_domains import find_shared_domain
from scheduler.core.queueing.cycle_context import Cycle
from scheduler.core.quota.limits import borrow_refusals, hold_refusals, is_within_guarantee, spare_milli
from scheduler.core.quota.whole_node_guarantees import build_cell_constraint


def grow_gangs(cycle: Cycle) -> None:
    """Add tasks to starting gangs, role by role, until one more does not fit."""
    starting = {start.job: start.choice for start in cycle.plan.starts}
    started = (job for job in cycle.snapshot.waiting if job.job in starting) if starting else ()
    chosen = (job for job in started if job.choice == starting[job.job])
    jobs = {job.job: job for job in chosen if any(role.max > role.min for role in job.gang)}
    if not jobs:
        return
    busy = {job.pool for job in cycle.snapshot.waiting if job.job in cycle.making_room_for}
    for index, start in enumerate(cycle.plan.starts):
        job = jobs.get(start.job)
        if job and job.pool not in busy and not _competes_for_limits(cycle, job):
            for role in job.gang:
                start = _add_tasks(cycle, job, start, role)
            cycle.plan.starts[index] = start


def _competes_for_limits(cycle: Cycle, job: WaitingJob) -> bool:
    """Check whether a startable job waits that counts against the same team or user limits."""
    chain, started = cycle.snapshot.team_chain, {start.job for start in cycle.plan.starts}
    return any(
        (other.user == job.user or (other.pool == job.pool and chain[other.team][-1] == chain[job.team][-1]))
        and other.job not in started
        and not hold_refusals(other, cycle.now)
        and not cycle.infeasible_refusals(other)
        for other in cycle.snapshot.waiting
    )


def _add_tasks(cycle: Cycle, job: WaitingJob, start: Placement, role: Role) -> Placement:
    """Return the start with as many more tasks of the role as possible."""
    demand = build_demand(cycle.snapshot, (replace(role, min=1, max=1),), job.pool)
    for _ in range(role.max - role.min):
        if not _may_add_task(cycle.snapshot, job, start, demand):
            break
        task = _place_task(cycle, job, start, demand)
        if task is None:
            break
        task = replace(task, rank=len(start.tasks))
        cycle.snapshot.release(start, job)
        start = replace(start, tasks=(*start.tasks, task))
        cycle.snapshot.allocate(start, job)
        cycle.reservation_plan.record_start(replace(start, tasks=(task,)), job)
    return start


def _may_add_task(snapshot: Snapshot, job: WaitingJob, start: Placement, one: GangDemand) -> bool:
    team, user = (
        snapshot.remaining_team_quota(job.team, job.pool),
        snapshot.user_limit[job.user] - snapshot.user_held[job.user],
    )
    if ((one.least > np.minimum(team, user)) & (one.least > 0)).any():
        return False
    if is_within_guarantee(snapshot, job, one):
        return True
    counted = replace(one, least=one.least + sum_quota_usage(start.tasks)) if job.preemptible else one
    return not borrow_refusals(snapshot, replace(job, preemptible=False), counted)


def _place_task(cycle: Cycle, job: WaitingJob, start: Placement, one: GangDemand) -> TaskPlacement | None:
    """Find a place for one task that delays nobody, in the domain that the job's tasks must share."""
    view, spare = cycle.reservation_plan.view_until(cycle.stay_of(job)), spare_milli(cycle.snapshot, job, one)
    alone = replace(job, gang=one.gang)
    keep = build_cell_constraint(cycle.snapshot, replace(alone, preemptible=False), one)
    kinds, within = one.affordable_kinds(spare), find_shared_domain(cycle.snapshot, job, start.tasks)
    found = place_gang(view.snapshot, view.score_table, alone, one, kinds, spare, keep, within)
    if not isinstance(found, Placement):
        return None
    view.snapshot.release(found, alone)
    return found.tasks[0]
