"""The scheduling cycle: one pass over the queue. Read this first."""

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Placement, Plan, Policy
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
from scheduler.core.queueing.queue_positions import tell_queue_positions


def run_cycle(snapshot: Snapshot, policy: Policy, now: float, cycle_memo: CycleMemo | None = None) -> Plan:
    """Decide which jobs start or stop, and why the rest waits. Deterministic; the snapshot stays unchanged."""
    cycle = Cycle(snapshot.copy(), policy, now, cycle_memo)
    start_waiting_jobs(cycle)  # start and backfill, disturbing nobody
    evict_for_maintenance(cycle)  # for maintenance
    evict_off_pool_jobs(cycle)  # cards whose lending window closed
    reclaim_guarantees(cycle)  # guarantees
    preempt_lower_priority(cycle)  # by priority
    preempt_longer_jobs(cycle)  # long jobs, if the policy says so
    grow_gangs(cycle)  # elastic gangs
    if cycle.cycle_memo.explains:
        tell_queue_positions(cycle)
    return cycle.plan


def find_starts(snapshot: Snapshot, policy: Policy, now: float, cycle_memo: CycleMemo) -> list[Placement]:
    """Decide only which jobs start, as `run_cycle` does: in its first phase, and the later ones start none."""
    cycle = Cycle(snapshot.copy(), policy, now, cycle_memo)
    start_waiting_jobs(cycle)
    return cycle.plan.starts
