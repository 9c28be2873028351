"""In which order jobs are looked at: class of priority, raised by age, then first come, first served."""

from scheduler.core.snapshot import Snapshot
from scheduler.core.types import HIGH, URGENT, Policy, Waiting


def in_order(snapshot: Snapshot, policy: Policy, now: float) -> list[Waiting]:
    """The waiting jobs, the first to be served first."""
    return sorted(snapshot.waiting, key=lambda job: (-effective_priority(job, policy, now), job.submitted_at, job.job))


def effective_priority(job: Waiting, policy: Policy, now: float) -> int:
    """The job's class, one higher for each `ageing_s` that it has waited. Age never makes a job urgent."""
    if job.priority >= URGENT:
        return job.priority
    raised = int(max(0.0, now - job.submitted_at) // policy.ageing_s)
    return min(job.priority + raised, HIGH)
