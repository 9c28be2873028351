"""Elastic gangs: let those that start now have more than their least, where that disturbs nobody.

Last in a cycle, when all who wait have been looked at. A task beyond the least comes where the limits leave room, where
nobody who waits keeps a place, and where nobody else is guaranteed it, whether the job may be stopped or not: it is
stopped whole, and what it holds within its own guarantee would protect the rest. Nobody grows in a pool in which others
are being stopped to make room, nor while somebody waits who shares a limit. A gang that runs keeps its size.
"""

from dataclasses import replace

import numpy as np

from scheduler.core.context import Cycle
from scheduler.core.demand import Demand, build_demand
from scheduler.core.keep import build_keep
from scheduler.core.place import place
from scheduler.core.quota import borrow_refusals, spare_milli, wish_refusals, within_guarantee
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Placement, Role, TaskPlace, Waiting, amounts_of


def grow(cycle: Cycle) -> None:
    """Each that starts in turn, role by role, until one more task does not fit."""
    starting = {start.job for start in cycle.plan.starts}
    started = (job for job in cycle.snapshot.waiting if job.job in starting) if starting else ()
    jobs = {job.job: job for job in started if any(role.max > role.min for role in job.gang)}
    if not jobs:
        return
    busy = {job.pool for job in cycle.snapshot.waiting if job.job in cycle.served}
    for index, start in enumerate(cycle.plan.starts):
        job = jobs.get(start.job)
        if job and job.pool not in busy and not _is_shared(cycle, job):
            for role in job.gang:
                start = _with_more(cycle, job, start, role)
            cycle.plan.starts[index] = start


def _is_shared(cycle: Cycle, job: Waiting) -> bool:
    """Does somebody wait who could start but for others, and counts against the limits of the same team or person?"""
    chain, started = cycle.snapshot.team_chain, {start.job for start in cycle.plan.starts}
    return any(
        (other.user == job.user or (other.pool == job.pool and chain[other.team][-1] == chain[job.team][-1]))
        and other.job not in started
        and not wish_refusals(other, cycle.now)
        and not cycle.impossible(other)
        for other in cycle.snapshot.waiting
    )


def _with_more(cycle: Cycle, job: Waiting, start: Placement, role: Role) -> Placement:
    """The start with as many more tasks of the role as may be. They are ranked behind all others."""
    demand = build_demand(cycle.snapshot, (replace(role, min=1, max=1),), job.pool)
    for _ in range(role.max - role.min):
        if not _may_have(cycle.snapshot, job, start, demand):
            break
        task = _place_one(cycle, job, demand)
        if task is None:
            break
        task = replace(task, rank=len(start.tasks))
        cycle.snapshot.give_back(start, job)
        start = replace(start, tasks=(*start.tasks, task))
        cycle.snapshot.take(start, job)
        cycle.future.started(replace(start, tasks=(task,)), job)
    return start


def _may_have(snapshot: Snapshot, job: Waiting, start: Placement, one: Demand) -> bool:
    """May the job have one task more, by its limits and the guarantees of all?"""
    team, user = snapshot.team_room(job.team, job.pool), snapshot.user_limit[job.user] - snapshot.user_held[job.user]
    if ((one.least > np.minimum(team, user)) & (one.least > 0)).any():
        return False
    if within_guarantee(snapshot, job, one):
        return True
    counted = replace(one, least=one.least + amounts_of(start.tasks)) if job.preemptible else one
    return not borrow_refusals(snapshot, replace(job, preemptible=False), counted)


def _place_one(cycle: Cycle, job: Waiting, one: Demand) -> TaskPlace | None:
    """Where one task delays nobody, with nothing taken."""
    view, spare = cycle.future.view(cycle.now + job.time_s), spare_milli(cycle.snapshot, job, one)
    alone = replace(job, gang=one.gang)
    keep = build_keep(cycle.snapshot, replace(alone, preemptible=False), one)
    found = place(view.snapshot, view.table, alone, one, one.affordable(spare), spare, keep)
    if not isinstance(found, Placement):
        return None
    view.snapshot.give_back(found, alone)
    return found.tasks[0]
