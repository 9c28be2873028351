"""The scheduling cycle: one pass over the queue. Read this first."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import count, repeat
from math import inf

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Plan, Policy, QueuePlace, WaitingJob
from scheduler.core.preemption.preempt import (
    evict_for_maintenance,
    evict_off_pool_jobs,
    preempt_lower_priority,
    reclaim_guarantees,
)
from scheduler.core.preemption.preempt_longer_jobs import preempt_longer_jobs
from scheduler.core.queueing.allocate import start_waiting_jobs
from scheduler.core.queueing.cycle_context import Cycle, CycleMemo
from scheduler.core.queueing.grow import grow_gangs


def run_cycle(snapshot: Snapshot, policy: Policy, now: float, cycle_memo: CycleMemo | None = None) -> Plan:
    """Decide which jobs start or stop, and why the rest waits. Deterministic; the snapshot stays unchanged."""
    cycle = Cycle(snapshot.copy(), policy, now, cycle_memo)
    waiting = start_waiting_jobs(cycle)  # start and backfill, disturbing nobody
    evict_for_maintenance(cycle)  # for maintenance
    evict_off_pool_jobs(cycle)  # cards whose lending window closed
    reclaim_guarantees(cycle)  # guarantees
    preempt_lower_priority(cycle)  # by priority
    preempt_longer_jobs(cycle, waiting)  # long jobs, if the policy says so
    grow_gangs(cycle)  # elastic gangs
    if cycle.cycle_memo.explains:
        set_queue_positions(cycle, waiting)
    return cycle.plan


Standing = tuple[WaitingJob, bool, QueuePlace]
"""A record of a job, whether it waits for capacity, and its place in that pool."""


def set_queue_positions(cycle: Cycle, line: list[WaitingJob]) -> None:
    """Number each pool's waiting jobs: the line for capacity first, then blocked ones."""
    jobs = [*line, *cycle.blocked]
    pools = Counter([job.pool for job in jobs])
    places = {pool: zip(count(1), repeat(of)) for pool, of in pools.items()}
    in_several: defaultdict[int, list[Standing]] = defaultdict(list)
    for index, job in enumerate(jobs):
        place = next(places[job.pool])
        if job.choice < 0:
            cycle.plan.positions[job.job] = place
        else:
            in_several[job.job].append((job, index < len(line), QueuePlace(job.pool, *place)))
    if in_several:
        tell_of_one_pool(cycle, in_several)


def tell_of_one_pool(cycle: Cycle, in_several: Mapping[int, list[Standing]]) -> None:
    """Tell of each job that waits in several pools what holds in the one where it is to start first.

    That is where room is being made for it, else the earliest reservation, else the fewest jobs ahead.
    """
    reserved = {(kept.job, kept.placement.choice): kept.at for kept in cycle.reservation_plan.reservations}

    def order(standing: Standing) -> tuple:
        job, in_line, place = standing
        serves = any(why.reason == "making_room" for why in cycle.refusals_of(job))
        return not serves, not in_line, reserved.get((job.job, job.choice), inf), place.position, job.choice

    for number, standings in in_several.items():
        standings.sort(key=order)
        told, _, place = standings[0]
        cycle.plan.refusals[number] = cycle.refusals_of(told)
        cycle.plan.positions[number] = place.position, place.of
        cycle.plan.places[number] = [place for _, _, place in standings]
