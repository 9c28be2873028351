"""Defragmentation: stop shorter jobs, which restart elsewhere, for a longer one that needs whole cards together."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from scheduler.core.model.demand import GangDemand, build_demand
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Placement, Role, RunningJob, TaskPlacement, TaskResources, WaitingJob
from scheduler.core.placement.gang_placement import UNLIMITED_QUOTA, place_gang
from scheduler.core.placement.score_table import ScoreTable
from scheduler.core.preemption.preempt import MayStop, choose_for_gang, get_lost_work, stop_until_enough
from scheduler.core.queueing.cycle_context import Cycle
from scheduler.core.queueing.priority_order import estimate_remaining_work
from scheduler.core.queueing.reservations import ScoredSnapshot


def choose_moves(
    cycle: Cycle, job: WaitingJob, demand: GangDemand, longer: list[RunningJob], may_stop: MayStop
) -> Sequence[RunningJob]:
    """Choose jobs to stop so that the job fits, empty if impossible. longer: may be stopped anyway."""
    after, gpus = cycle.after_evictions.snapshot, [role.ask.gpus for role in job.gang]
    if not all(role.ask.whole and role.ask.gpus for role in job.gang):
        return ()
    if count_whole_cards(after, longer).sum() < sum(role.min * role.ask.gpus for role in job.gang):
        return ()
    able = _list_movable(cycle, job, longer)
    room = count_whole_cards(after, [*longer, *able])
    if any((room >= role.ask.gpus).sum() < role.min for role in job.gang):
        return ()
    here: defaultdict[int, list[RunningJob]] = defaultdict(list)
    for victim in (*longer, *able):
        for node in {task.node for task in victim.tasks}:
            here[node].append(victim)
    moving = room - count_whole_cards(after, longer)
    nodes = sorted((int(moving[node]), node) for node in here if room[node] >= min(gpus))
    world = after.copy()
    view, gone = ScoredSnapshot(world, ScoreTable(world, cycle.policy)), dict[int, RunningJob]()
    for _, node in nodes:  # fewest foreign cards first
        more = [victim for victim in here[node] if victim.job not in gone]
        gone |= {victim.job: victim for victim in stop_until_enough(world, more, job, may_stop, lambda: False)}
        if victims := choose_for_gang(view, job, demand, list(gone.values())):
            return _add_longer_victims(view, job, demand, victims, longer)
    return ()


def count_whole_cards(world: Snapshot, able: Sequence[RunningJob]) -> np.ndarray:
    """Return [N] idle cards of each node if these jobs were stopped."""
    room = ((world.gpu_slices == 0)[world.card_grid] & (world.card_grid >= 0)).sum(axis=1)
    for victim in able:
        for task in victim.tasks:
            room[task.node] += len(task.cards)
    return room


def _list_movable(cycle: Cycle, job: WaitingJob, longer: Sequence[RunningJob]) -> list[RunningJob]:
    """Return jobs that may be moved, those that lose little work."""
    own, others = cycle.policy.for_pool(job.pool), {victim.job for victim in longer}
    most = estimate_remaining_work(job, own, cycle.now) / (own.stop_longer or 1.0)
    return [
        victim
        for victim in cycle.snapshot.running
        if victim.preemptible
        and victim.pool == job.pool
        and victim.priority <= job.priority
        and victim.stops < own.most_stops
        and victim.started_at < cycle.now
        and victim.job not in others | cycle.leaving
        and get_lost_work(victim, cycle.now) <= most
        and all(task.cards and _uses_whole_cards(task) for task in victim.tasks)
    ]


def _uses_whole_cards(task: TaskPlacement) -> bool:
    return all(card.compute_percent == 100 for card in task.cards)


def _add_longer_victims(
    view: ScoredSnapshot,
    job: WaitingJob,
    demand: GangDemand,
    victims: Sequence[RunningJob],
    longer: Sequence[RunningJob],
) -> Sequence[RunningJob]:
    """Add longer jobs whose room the moved ones need; empty if that fails."""
    world, gone, stay = view.snapshot, {victim.job for victim in victims}, {victim.job for victim in longer}
    rest = [victim for victim in longer if victim.job not in gone]
    for victim in rest:
        world.remove_job(victim)
    asks = [(job, demand)]
    for one in (_requeue(world, victim) for victim in victims if victim.job not in stay):
        asks.append((one, build_demand(world, one.gang, one.pool)))
    found = (place_gang(world, view.score_table, one, asked, asked.kinds, UNLIMITED_QUOTA) for one, asked in asks)
    if not all(isinstance(where, Placement) for where in found):
        return ()
    return [*victims, *(victim for victim in reversed(rest) if not _try_restore(world, victim))]


def _try_restore(world: Snapshot, victim: RunningJob) -> bool:
    """Restore the job at its old place, if free."""
    world.restore_job(victim)
    gpus, nodes = [card.gpu for task in victim.tasks for card in task.cards], [task.node for task in victim.tasks]
    cards = world.gpu_free_mib[gpus], world.gpu_free_percent[gpus]
    if all((free >= 0).all() for free in (*cards, world.node_cpu_free[nodes], world.node_memory_free[nodes])):
        return True
    world.remove_job(victim)
    return False


def _requeue(world: Snapshot, victim: RunningJob) -> WaitingJob:
    """Return the job as requeued, with the same cards per node."""
    gang = tuple(Role("", 1, 1, _task_resources(world, task)) for task in victim.tasks)
    return WaitingJob(victim.job, victim.team, victim.user, victim.pool, victim.priority, 0.0, gang, preemptible=True)


def _task_resources(world: Snapshot, task: TaskPlacement) -> TaskResources:
    kinds, kind = len(world.kind_names), int(world.gpu_kind[task.cards[0].gpu])
    preference = tuple(0 if one == kind else -1 for one in range(kinds))
    each, milli = (task.cards[0].memory_mib,) * kinds, (task.cards[0].milli,) * kinds
    return TaskResources(
        len(task.cards), True, each, (100,) * kinds, milli, preference, task.cpu_milli, task.memory_mib
    )
