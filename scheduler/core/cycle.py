"""The scheduling cycle: one pass over the queue. Read this first."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from math import inf

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Plan, Policy, WaitingJob
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


Standing = tuple[bool, int, int, int, WaitingJob]
"""Of a record: whether it does not wait for capacity, about how many are ahead, choice, position, and itself."""


def set_queue_positions(cycle: Cycle, line: list[WaitingJob]) -> None:
    """Number each pool's waiting jobs: the line for capacity first, then blocked ones."""
    jobs = [*line, *cycle.blocked]
    lengths, seen = Counter([job.pool for job in jobs]), [0] * cycle.snapshot.held.shape[1]
    in_several: defaultdict[int, list[Standing]] = defaultdict(list)
    positions, in_line = cycle.plan.positions, len(line)
    for index, job in enumerate(jobs):
        pool = job.pool
        seen[pool] = position = seen[pool] + 1
        if job.choice < 0:
            positions[job.job] = position, lengths[pool]
        else:
            in_several[job.job].append((index >= in_line, position.bit_length(), job.choice, position, job))
    if in_several:
        tell_of_one_pool(cycle, in_several, lengths)


def tell_of_one_pool(cycle: Cycle, in_several: Mapping[int, list[Standing]], lengths: Mapping[int, int]) -> None:
    """Tell of each job that waits in several pools what holds in the one where it is to start first.

    That is where room is being made for it, else the earliest reservation, else where clearly fewer are ahead, else
    the one that it prefers.
    """
    reserved = {(kept.job, kept.placement.choice): kept.at for kept in cycle.reservation_plan.reservations}
    served = {job for job, _ in reserved} | cycle.making_room_for

    def order(standing: Standing) -> tuple:
        job = standing[-1]
        serves = any(why.reason == "making_room" for why in cycle.refusals_of(job))
        return not serves, standing[0], reserved.get((job.job, job.choice), inf), *standing[1:-1]

    plan = cycle.plan
    for number, standings in in_several.items():
        standings.sort(key=order if number in served else None)
        places = [(job.pool, n, lengths[job.pool]) for _, _, _, n, job in standings]
        plan.refusals[number] = cycle.refusals_of(standings[0][4])
        plan.positions[number], plan.places[number] = places[0][1:], places
