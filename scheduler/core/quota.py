"""What a job's own team, its user and its own wishes say about it, before any machine is looked at."""

import numpy as np

from scheduler.core.cells import covering, vacancy
from scheduler.core.demand import Demand
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import CPU_MILLI, GPU_MILLI, RESOURCES, Refusal, Waiting


def wish_refusals(job: Waiting, now: float) -> list[Refusal]:
    """Why the job does not want to start, whatever is free. Such a job holds up nobody else."""
    refusals = []
    if job.held:
        refusals.append(Refusal("held", {}))
    if job.not_before > now:
        refusals.append(Refusal("start_after", {"at": job.not_before}))
    return refusals


def limit_refusals(snapshot: Snapshot, job: Waiting, demand: Demand) -> list[Refusal]:
    """Limits that even the cheapest cards would break: of jobs at once, of the user, of the team and those above."""
    refusals = []
    running, most = int(snapshot.user_jobs[job.user]), int(snapshot.user_jobs_limit[job.user])
    if running >= most:
        refusals.append(Refusal("rate_policy", {"used": running, "limit": most}))
    asked = demand.least.tolist()
    used, limit = snapshot.user_held[job.user].tolist(), snapshot.user_limit[job.user].tolist()
    refusals += [Refusal("user_limit", numbers) for numbers in _beyond(used, limit, asked)]
    for team in snapshot.team_chain[job.team]:
        used, limit = snapshot.held[team, job.pool].tolist(), snapshot.limit[team, job.pool].tolist()
        for numbers in _beyond(used, limit, asked):
            refusals.append(Refusal("team_limit", {"team": snapshot.team_name(team), **numbers}))
    return refusals


def spare_milli(snapshot: Snapshot, job: Waiting, demand: Demand) -> int:
    """Thousandths of a card that the limits leave beyond the cheapest cards for the job; 0 where all cost the same."""
    if demand.most[GPU_MILLI] == demand.least[GPU_MILLI]:
        return 0
    team = snapshot.team_room(job.team, job.pool)[GPU_MILLI]
    user = snapshot.user_limit[job.user, GPU_MILLI] - snapshot.user_held[job.user, GPU_MILLI]
    return max(0, int(min(team, user) - demand.least[GPU_MILLI]))


def within_guarantee(snapshot: Snapshot, job: Waiting, demand: Demand) -> bool:
    """Would the job stay within what its team is guaranteed, on whichever kind of card it lands?

    The nearest team of the chain with a guarantee of what the job is about decides: cards for a job that asks cards,
    else CPU. Of the other resources only those count for which a guarantee is set: a team with 4 cards and no word
    about CPU may use its cards.
    """
    asked = demand.most.tolist()
    about = GPU_MILLI if asked[GPU_MILLI] else CPU_MILLI
    for team in snapshot.team_chain[job.team]:
        guarantee = snapshot.guarantee[team, job.pool].tolist()
        if guarantee[about] > 0:
            held = snapshot.held[team, job.pool].tolist()
            set_here = [ask if most else 0 for ask, most in zip(asked, guarantee, strict=True)]
            return not _beyond(held, guarantee, set_here)
    return False


def borrow_refusals(snapshot: Snapshot, job: Waiting, demand: Demand) -> list[Refusal]:
    """`borrow_denied` with the teams that may want theirs back. The job is beyond its team's guarantee.

    A job that cannot be stopped for the owners starts only where all that is held by jobs like it and all that is
    guaranteed and not held so still fit into the pool together: then whoever comes back to a guarantee finds it free or
    held by jobs that can be stopped. Whole nodes count as held, used or not. On what the pool lends or is lent nobody
    counts.
    """
    if job.preemptible or not snapshot.guarantee.any():
        return []
    about = GPU_MILLI if demand.most[GPU_MILLI] else CPU_MILLI
    chain, asked = list(snapshot.team_chain[job.team]), int(demand.least[about])
    firm = snapshot.firm[:, job.pool, about].copy()
    unused = vacancy(snapshot, job.pool) if about == GPU_MILLI else np.zeros_like(firm)
    firm += unused
    firm[chain] += max(asked - int(unused[chain].max()), 0)
    roots = _roots(snapshot)
    owed = owed_to(snapshot, job.pool, about, firm)
    wanted = (owed + unused)[roots]
    if not wanted.any() or firm[roots].sum() + owed[roots].sum() <= _capacity(snapshot, job.pool, about):
        return []
    names = [snapshot.team_name(root) for root, wants in zip(roots, wanted, strict=True) if wants]
    return [Refusal("borrow_denied", {"teams": names})]


def owed_to(snapshot: Snapshot, pool: int, about: int, firm: np.ndarray) -> np.ndarray:
    """What is guaranteed to each team and not held, [T], where `firm` is what it holds that nobody may take back."""
    return covering(snapshot, np.maximum(snapshot.guarantee[:, pool, about] - firm, 0))


def promised(snapshot: Snapshot, pool: int, firm: np.ndarray) -> int:
    """Thousandths of cards that are held for good or guaranteed."""
    roots = _roots(snapshot)
    return int(firm[roots].sum() + owed_to(snapshot, pool, GPU_MILLI, firm)[roots].sum())


def card_capacity(snapshot: Snapshot, pool: int) -> int:
    """Thousandths of cards of the pool, less those that others were lent."""
    return 1000 * int((snapshot.gpu_pool == pool).sum()) - int(snapshot.guests[pool])


def _roots(snapshot: Snapshot) -> list[int]:
    return [team for team, chain in enumerate(snapshot.team_chain) if len(chain) == 1]


def _capacity(snapshot: Snapshot, pool: int, about: int) -> int:
    if about == GPU_MILLI:
        return card_capacity(snapshot, pool)
    return int(snapshot.node_cpu_total[snapshot.node_pool == pool].sum())


def _beyond(used: list[int], limit: list[int], amounts: list[int]) -> list[dict]:
    return [
        {"resource": resource, "used": held, "limit": most, "ask": asked}
        for resource, held, most, asked in zip(RESOURCES, used, limit, amounts, strict=True)
        if asked and held + asked > most
    ]
