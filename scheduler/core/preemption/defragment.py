"""Defragmentation: stop shorter jobs, which restart elsewhere, for a longer one that needs whole cards together."""

from collections import defaultdict
from collections.abc import Sequence

from scheduler.core.model.demand import GangDemand, build_demand
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Placement, Policy, Role, RunningJob, TaskPlacement, TaskResources, WaitingJob
from scheduler.core.placement.gang_placement import UNLIMITED_QUOTA, place_gang
from scheduler.core.placement.scores import ScoredSnapshot, ScoreTable
from scheduler.core.placement.victims import MayStop, choose_for_gang, count_whole_cards, stop_until_enough


def choose_moves(
    after: Snapshot,
    policy: Policy,
    job: WaitingJob,
    demand: GangDemand,
    longer: list[RunningJob],
    movable: Sequence[RunningJob],
    may_stop: MayStop,
) -> Sequence[RunningJob]:
    """Choose jobs to stop so that the job fits, empty if impossible.

    after: without the jobs that leave. longer: may be stopped anyway. movable: may be stopped to restart elsewhere.
    """
    gpus = [role.ask.gpus for role in job.gang]
    if not all(role.ask.whole and role.ask.gpus for role in job.gang):
        return ()
    if count_whole_cards(after, longer).sum() < sum(role.min * role.ask.gpus for role in job.gang):
        return ()
    able = [victim for victim in movable if _uses_whole_cards(victim)]
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
    view, gone = ScoredSnapshot(world, ScoreTable(world, policy)), dict[int, RunningJob]()
    for _, node in nodes:  # fewest foreign cards first
        more = [victim for victim in here[node] if victim.job not in gone]
        gone |= {victim.job: victim for victim in stop_until_enough(world, more, job, may_stop, lambda: False)}
        if victims := choose_for_gang(view, job, demand, list(gone.values())):
            return _add_longer_victims(view, job, demand, victims, longer)
    return ()


def _uses_whole_cards(job: RunningJob) -> bool:
    return all(task.cards and all(card.compute_percent == 100 for card in task.cards) for task in job.tasks)


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
