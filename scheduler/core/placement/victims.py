"""Victims: the running jobs that cost least to stop so that a waiting one fits. All on a snapshot, at no fixed time."""

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.core.model.demand import GangDemand
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import GPU_MILLI, Placement, RunningJob, WaitingJob
from scheduler.core.placement.gang_placement import UNLIMITED_QUOTA, place_gang
from scheduler.core.placement.scores import ScoredSnapshot, score_nodes
from scheduler.core.quota.whole_node_guarantees import build_cell_constraint

MayStop = Callable[[Snapshot, RunningJob, WaitingJob], bool]
ChooseVictims = Callable[[WaitingJob, GangDemand], Sequence[RunningJob]]


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


def is_fully_borrowed(world: Snapshot, victim: RunningJob, job: WaitingJob) -> bool:
    """Check whether the victim's teams keep their whole guarantee without it."""
    chain = list(world.team_chain[victim.team])
    if job.team in chain or victim.pool != job.pool:
        return False
    rest, guarantee = world.held[chain, victim.pool] - victim.quota_usage, world.guarantee[chain, victim.pool]
    return bool(((guarantee == 0) | (rest >= guarantee)).all())


def get_lost_work(victim: RunningJob, now: float) -> float:
    """Return the card-seconds lost by a stop now; CPU-only work counts as 0.01 card."""
    return max(now - victim.saved_at, 0.0) * max(victim.quota_usage[GPU_MILLI] / 1000, 0.01)


def count_whole_cards(world: Snapshot, able: Sequence[RunningJob]) -> np.ndarray:
    """Return [N] idle cards of each node if these jobs were stopped."""
    room = ((world.gpu_slices == 0)[world.card_grid] & (world.card_grid >= 0)).sum(axis=1)
    for victim in able:
        for task in victim.tasks:
            room[task.node] += len(task.cards)
    return room


def place_job(view: ScoredSnapshot, job: WaitingJob, demand: GangDemand) -> Placement | None:
    keep = build_cell_constraint(view.snapshot, job, demand)
    result = place_gang(view.snapshot, view.score_table, job, demand, demand.kinds, UNLIMITED_QUOTA, keep)
    return result if isinstance(result, Placement) else None


def _fits(view: ScoredSnapshot, job: WaitingJob, demand: GangDemand) -> bool:
    placement = place_job(view, job, demand)
    if placement:
        view.snapshot.release(placement, job)
    return placement is not None
