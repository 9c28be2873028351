"""Shorter work makes way for a longer job that needs whole cards side by side, and goes on elsewhere.

Free cards are scattered where work comes and goes; who runs is never carried over, but a stop and a start are the same.
So where those who are far longer do not make room enough (`overtake`), others on the same nodes are stopped too, if
each of them finds room again: free, or held by those who are far longer.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from scheduler.core.context import Cycle
from scheduler.core.demand import Demand, build_demand
from scheduler.core.future import View
from scheduler.core.order import work_to_go
from scheduler.core.place import ANY_QUOTA, place
from scheduler.core.preempt import MayStop, for_gang, lost_work, stop_in_order
from scheduler.core.snapshot import Snapshot
from scheduler.core.table import Table
from scheduler.core.types import Ask, Placement, Role, Running, TaskPlace, Waiting


def move(cycle: Cycle, job: Waiting, demand: Demand, longer: list[Running], may_stop: MayStop) -> Sequence[Running]:
    """Whom to stop so that the job fits, those who move and those who are longer; nobody where that would not do.

    longer: whom it may stop in any case.
    """
    after, gpus = cycle.after.snapshot, [role.ask.gpus for role in job.gang]
    if not all(role.ask.whole and role.ask.gpus for role in job.gang):
        return ()
    if whole_cards(after, longer).sum() < sum(role.min * role.ask.gpus for role in job.gang):
        return ()
    able = _movable(cycle, job, longer)
    room = whole_cards(after, [*longer, *able])
    if any((room >= role.ask.gpus).sum() < role.min for role in job.gang):
        return ()
    here: defaultdict[int, list[Running]] = defaultdict(list)
    for victim in (*longer, *able):
        for node in {task.node for task in victim.tasks}:
            here[node].append(victim)
    moving = room - whole_cards(after, longer)
    nodes = sorted((int(moving[node]), node) for node in here if room[node] >= min(gpus))
    world = after.copy()
    view, gone = View(world, Table(world, cycle.policy)), dict[int, Running]()
    for _, node in nodes:  # those with the fewest cards of others first
        more = [victim for victim in here[node] if victim.job not in gone]
        gone |= {victim.job: victim for victim in stop_in_order(world, more, job, may_stop, lambda: False)}
        if victims := for_gang(view, job, demand, list(gone.values())):
            return _with_room_for_all(view, job, demand, victims, longer)
    return ()


def whole_cards(world: Snapshot, able: Sequence[Running]) -> np.ndarray:
    """[N] how many whole cards each node could have at most, were these stopped."""
    room = ((world.gpu_slices == 0)[world.card_grid] & (world.card_grid >= 0)).sum(axis=1)
    for victim in able:
        for task in victim.tasks:
            room[task.node] += len(task.cards)
    return room


def _movable(cycle: Cycle, job: Waiting, longer: Sequence[Running]) -> list[Running]:
    """Who may be moved for the job: it throws away less, counted as often as a longer one's time, and did not only just
    start.
    """
    own, others = cycle.policy.of(job.pool), {victim.job for victim in longer}
    most = work_to_go(job, own, cycle.now) / (own.stop_longer or 1.0)
    return [
        victim
        for victim in cycle.snapshot.running
        if victim.preemptible
        and victim.pool == job.pool
        and victim.priority <= job.priority
        and victim.stops < own.most_stops
        and victim.started_at < cycle.now
        and victim.job not in others | cycle.leaving
        and lost_work(victim, cycle.now) <= most
        and all(task.cards and _is_whole(task) for task in victim.tasks)
    ]


def _is_whole(task: TaskPlace) -> bool:
    return all(card.compute_percent == 100 for card in task.cards)


def _with_room_for_all(
    view: View, job: Waiting, demand: Demand, victims: Sequence[Running], longer: Sequence[Running]
) -> Sequence[Running]:
    """The victims, who are gone already, and those who are longer whose room the ones that move need; nobody where that
    would not do either.
    """
    world, gone, stay = view.snapshot, {victim.job for victim in victims}, {victim.job for victim in longer}
    rest = [victim for victim in longer if victim.job not in gone]
    for victim in rest:
        world.leave(victim)
    asks = [(job, demand)]
    for one in (_as_waiting(world, victim) for victim in victims if victim.job not in stay):
        asks.append((one, build_demand(world, one.gang, one.pool)))
    found = (place(world, view.table, one, asked, asked.kinds, ANY_QUOTA) for one, asked in asks)
    if not all(isinstance(where, Placement) for where in found):
        return ()
    return [*victims, *(victim for victim in reversed(rest) if not _comes_back(world, victim))]


def _comes_back(world: Snapshot, victim: Running) -> bool:
    """Take its old place, where nobody has it."""
    world.come_back(victim)
    gpus, nodes = [card.gpu for task in victim.tasks for card in task.cards], [task.node for task in victim.tasks]
    cards = world.gpu_free_mib[gpus], world.gpu_free_percent[gpus]
    if all((free >= 0).all() for free in (*cards, world.node_cpu_free[nodes], world.node_memory_free[nodes])):
        return True
    world.leave(victim)
    return False


def _as_waiting(world: Snapshot, victim: Running) -> Waiting:
    """The job as it will wait: for as many whole cards of the same kind on each node."""
    gang = tuple(Role("", 1, 1, _ask(world, task)) for task in victim.tasks)
    return Waiting(victim.job, victim.team, victim.user, victim.pool, victim.priority, 0.0, gang, preemptible=True)


def _ask(world: Snapshot, task: TaskPlace) -> Ask:
    kinds, kind = len(world.kind_names), int(world.gpu_kind[task.cards[0].gpu])
    preference = tuple(0 if one == kind else -1 for one in range(kinds))
    each, milli = (task.cards[0].memory_mib,) * kinds, (task.cards[0].milli,) * kinds
    return Ask(len(task.cards), True, each, (100,) * kinds, milli, preference, task.cpu_milli, task.memory_mib)
