"""What a job's own team, its user and its own wishes say about it, before any machine is looked at."""

import numpy as np

from scheduler.core.demand import Demand
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import CPU_MILLI, GPU_MILLI, RESOURCES, Refusal, Waiting


def own_refusals(snapshot: Snapshot, job: Waiting, demand: Demand, now: float) -> list[Refusal]:
    """Why the job may not start whatever is free. Such a job holds up nobody else."""
    refusals = []
    if job.held:
        refusals.append(Refusal("held", {}))
    if job.not_before > now:
        refusals.append(Refusal("start_after", {"at": job.not_before}))
    return refusals + limit_refusals(snapshot, job, demand)


def limit_refusals(snapshot: Snapshot, job: Waiting, demand: Demand) -> list[Refusal]:
    """Limits that even the cheapest cards would break: of jobs at once, of the user, of the team and those above."""
    refusals = []
    running, most = int(snapshot.user_jobs[job.user]), int(snapshot.user_jobs_limit[job.user])
    if running >= most:
        refusals.append(Refusal("rate_policy", {"used": running, "limit": most}))
    used, limit = snapshot.user_held[job.user], snapshot.user_limit[job.user]
    refusals += [Refusal("user_limit", numbers) for numbers in _beyond(used, limit, demand.least)]
    if _passes(snapshot.team_room(job.team, job.pool), demand.least):
        return refusals
    for team in snapshot.team_chain[job.team]:
        used, limit = snapshot.held[team, job.pool], snapshot.limit[team, job.pool]
        name = snapshot.team_name(team)
        refusals += [Refusal("team_limit", {"team": name, **numbers}) for numbers in _beyond(used, limit, demand.least)]
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
    about = GPU_MILLI if demand.most[GPU_MILLI] else CPU_MILLI
    for team in snapshot.team_chain[job.team]:
        guarantee = snapshot.guarantee[team, job.pool]
        if guarantee[about] > 0:
            room = guarantee - snapshot.held[team, job.pool]
            return _passes(room, np.where(guarantee > 0, demand.most, 0))
    return False


def _passes(room: np.ndarray, amounts: np.ndarray) -> bool:
    return bool(((amounts <= room) | (amounts == 0)).all())


def _beyond(used: np.ndarray, limit: np.ndarray, amounts: np.ndarray) -> list[dict]:
    return [
        {"resource": resource, "used": int(used[i]), "limit": int(limit[i]), "ask": int(amounts[i])}
        for i, resource in enumerate(RESOURCES)
        if amounts[i] and used[i] + amounts[i] > limit[i]
    ]
