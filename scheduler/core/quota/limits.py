"""Quota: limits, guarantees and borrowing of teams and users."""

import numpy as np

from scheduler.core.model.demand import GangDemand
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import CPU_MILLI, GPU_MILLI, RESOURCES, Refusal, WaitingJob
from scheduler.core.quota.cells import roll_up_teams, unused_by_team


def hold_refusals(job: WaitingJob, now: float) -> list[Refusal]:
    """Return why the job does not want to start now (held, other jobs before it, start time)."""
    refusals = []
    if job.held:
        refusals.append(Refusal("held", {}))
    if job.after:
        refusals.append(Refusal("dependency", {"jobs": list(job.after)}))
    if job.not_before > now:
        refusals.append(Refusal("start_after", {"at": job.not_before}))
    return refusals


def limit_refusals(snapshot: Snapshot, job: WaitingJob, demand: GangDemand) -> list[Refusal]:
    """Return limits exceeded even on the cheapest cards."""
    return user_limit_refusals(snapshot, job, demand) + team_limit_refusals(snapshot, job, demand)


def user_limit_refusals(snapshot: Snapshot, job: WaitingJob, demand: GangDemand) -> list[Refusal]:
    refusals = []
    running, most = int(snapshot.user_jobs[job.user]), int(snapshot.user_jobs_limit[job.user])
    if running >= most:
        refusals.append(Refusal("rate_policy", {"used": running, "limit": most}))
    used, limit = snapshot.user_held[job.user].tolist(), snapshot.user_limit[job.user].tolist()
    found = _exceeded_limits(used, limit, demand.least.tolist())
    return refusals + [Refusal("user_limit", numbers) for numbers in found]


def find_limited_users(snapshot: Snapshot, demand: GangDemand) -> np.ndarray:
    """Return of each user, bool [U], whether `user_limit_refusals` of a job with this demand names something."""
    over = (snapshot.user_held + demand.least > snapshot.user_limit) & (demand.least > 0)
    return over.any(axis=1) | (snapshot.user_jobs >= snapshot.user_jobs_limit)


def team_limit_refusals(snapshot: Snapshot, job: WaitingJob, demand: GangDemand) -> list[Refusal]:
    refusals = []
    for team in snapshot.team_chain[job.team]:
        used, limit = snapshot.held[team, job.pool].tolist(), snapshot.limit[team, job.pool].tolist()
        for numbers in _exceeded_limits(used, limit, demand.least.tolist()):
            refusals.append(Refusal("team_limit", {"team": snapshot.team_name(team), **numbers}))
    return refusals


def spare_milli(snapshot: Snapshot, job: WaitingJob, demand: GangDemand) -> int:
    """Return the milli left by limits beyond the cheapest cards."""
    if demand.costs_the_same:
        return 0
    team = snapshot.remaining_team_quota(job.team, job.pool)[GPU_MILLI]
    user = snapshot.user_limit[job.user, GPU_MILLI] - snapshot.user_held[job.user, GPU_MILLI]
    return max(0, int(min(team, user) - demand.least[GPU_MILLI]))


def is_within_guarantee(snapshot: Snapshot, job: WaitingJob, demand: GangDemand) -> bool:
    """Check whether the job stays within its team's guarantee.

    The nearest team with a guarantee for its main resource (cards, else CPU) decides.
    """
    asked = demand.most.tolist()
    about = GPU_MILLI if asked[GPU_MILLI] else CPU_MILLI
    for team in snapshot.team_chain[job.team]:
        guarantee = snapshot.guarantee[team, job.pool].tolist()
        if guarantee[about] > 0:
            held = snapshot.held[team, job.pool].tolist()
            set_here = [ask if most else 0 for ask, most in zip(asked, guarantee, strict=True)]
            return not _exceeded_limits(held, guarantee, set_here)
    return False


def borrow_refusals(snapshot: Snapshot, job: WaitingJob, demand: GangDemand) -> list[Refusal]:
    """Return `borrow_denied` with the teams that may want theirs back.

    A non-preemptible job may borrow only while all such usage plus unused guarantees fit into the pool, so that owners
    always find theirs free or reclaimable.
    """
    if job.preemptible or not snapshot.guarantee.any():
        return []
    about = GPU_MILLI if demand.most[GPU_MILLI] else CPU_MILLI
    chain, asked = list(snapshot.team_chain[job.team]), int(demand.least[about])
    firm = snapshot.firm[:, job.pool, about].copy()
    unused = unused_by_team(snapshot, job.pool) if about == GPU_MILLI else np.zeros_like(firm)
    firm += unused
    firm[chain] += max(asked - int(unused[chain].max()), 0)
    roots = _root_teams(snapshot)
    owed = unused_guarantees(snapshot, job.pool, about, firm)
    wanted = (owed + unused)[roots]
    if not wanted.any() or firm[roots].sum() + owed[roots].sum() <= _pool_capacity(snapshot, job.pool, about):
        return []
    names = [snapshot.team_name(root) for root, wants in zip(roots, wanted, strict=True) if wants]
    return [Refusal("borrow_denied", {"teams": names})]


def unused_guarantees(snapshot: Snapshot, pool: int, resource: int, firm: np.ndarray) -> np.ndarray:
    """Return each team's guarantee not covered by firm usage, [T]."""
    return roll_up_teams(snapshot, np.maximum(snapshot.guarantee[:, pool, resource] - firm, 0))


def committed_milli(snapshot: Snapshot, pool: int, firm: np.ndarray) -> int:
    """Return the milli of cards in firm use or guaranteed."""
    roots = _root_teams(snapshot)
    return int(firm[roots].sum() + unused_guarantees(snapshot, pool, GPU_MILLI, firm)[roots].sum())


def card_capacity_milli(snapshot: Snapshot, pool: int) -> int:
    return 1000 * int((snapshot.gpu_pool == pool).sum()) - int(snapshot.guests[pool])


def _root_teams(snapshot: Snapshot) -> list[int]:
    return [team for team, chain in enumerate(snapshot.team_chain) if len(chain) == 1]


def _pool_capacity(snapshot: Snapshot, pool: int, resource: int) -> int:
    if resource == GPU_MILLI:
        return card_capacity_milli(snapshot, pool)
    return int(snapshot.node_cpu_total[snapshot.node_pool == pool].sum())


def _exceeded_limits(used: list[int], limit: list[int], amounts: list[int]) -> list[dict]:
    return [
        {"resource": resource, "used": held, "limit": most, "ask": asked}
        for resource, held, most, asked in zip(RESOURCES, used, limit, amounts, strict=True)
        if asked and held + asked > most
    ]
