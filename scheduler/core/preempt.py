"""Make room by stopping others: a pool takes back what it lent, a team its guarantee, or a job passes those of a lower
class.

Only jobs that said so (`preemptible`) are ever stopped. Of the sets that make enough room one that loses little work is
taken: card-seconds since the last checkpoint. A job for which room is being made already stops nobody else. It is
one of the first in line, which keep a place in time: nobody behind them can take the room.
"""

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.core.context import Cycle
from scheduler.core.demand import Demand
from scheduler.core.future import View
from scheduler.core.keep import build_keep
from scheduler.core.place import ANY_QUOTA, place
from scheduler.core.quota import within_guarantee
from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.table import Table, judge
from scheduler.core.types import CPU_MILLI, GPU_MILLI, Eviction, Placement, Refusal, Running, Waiting

MOST_NODES = 64
"""So many nodes are looked at closely for one job."""

MayStop = Callable[[Snapshot, Running, Waiting], bool]
Choose = Callable[[Waiting, Demand], Sequence[Running]]


def take_back(cycle: Cycle) -> None:
    """Jobs stop those of another pool that their own lends nothing any more."""
    if pools := set(cycle.strangers.values()):
        owners = [job for job in cycle.future.first if job.pool in pools]
        _make_room(cycle, owners, "window_closed", lambda world, victim, job: victim.pool != job.pool)


def reclaim(cycle: Cycle) -> None:
    """Jobs within their team's guarantee stop jobs of teams that hold more than theirs."""
    owners = [job for job in cycle.future.first if cycle.within_guarantee(job)]
    for may_stop in (is_borrowed, is_partly_borrowed, is_in_the_way):  # the next only where these do not do
        _make_room(cycle, owners, "reclaimed", may_stop, _is_within)


def preempt(cycle: Cycle) -> None:
    """Jobs stop those of a lower class, but not what another team is guaranteed."""
    able = [job for job in cycle.future.first if cycle.policy.of(job.pool).preempt]
    _make_room(cycle, able, "preempted", is_lower)


def is_borrowed(world: Snapshot, victim: Running, job: Waiting) -> bool:
    """Without the victim, would its team and each above it still hold all that they are guaranteed?"""
    chain = list(world.team_chain[victim.team])
    if job.team in chain or victim.pool != job.pool:
        return False
    rest, guarantee = world.held[chain, victim.pool] - victim.amounts, world.guarantee[chain, victim.pool]
    return bool(((guarantee == 0) | (rest >= guarantee)).all())


def is_partly_borrowed(world: Snapshot, victim: Running, job: Waiting) -> bool:
    """Or do they hold more than that, so that the victim, once it waits, is one that would borrow?"""
    if is_borrowed(world, victim, job):
        return True
    chain = list(world.team_chain[victim.team])
    if job.team in chain or victim.pool != job.pool:
        return False
    about = GPU_MILLI if victim.amounts[GPU_MILLI] else CPU_MILLI
    held, guarantee = world.held[chain, victim.pool, about], world.guarantee[chain, victim.pool, about]
    return bool(((guarantee == 0) | (held > guarantee)).all())


def is_in_the_way(world: Snapshot, victim: Running, job: Waiting) -> bool:
    """Or, where whole nodes are guaranteed: does the victim fill none, while nobody will move the job for one?

    What is guaranteed to the victim's team it finds elsewhere: all that is guaranteed fits into the pool together.
    """
    if is_partly_borrowed(world, victim, job):
        return True
    sizes = {cell.cards for cell in world.cells if cell.pool == job.pool}
    stays = not job.preemptible or all(role.ask.gpus in sizes for role in job.gang)
    scattered = victim.pool == job.pool and all(len(task.cards) not in sizes for task in victim.tasks)
    return bool(sizes) and stays and scattered


def is_lower(world: Snapshot, victim: Running, job: Waiting) -> bool:
    if victim.priority >= job.priority or victim.pool != job.pool:
        return False
    return victim.team == job.team or is_borrowed(world, victim, job)


def lost_work(victim: Running, now: float) -> float:
    """Card-seconds that a stop now throws away; work without a card counts as a hundredth of one."""
    return max(now - victim.saved_at, 0.0) * max(victim.amounts[GPU_MILLI] / 1000, 0.01)


def _is_within(cycle: Cycle, job: Waiting) -> bool:
    """Is the job within the guarantee still, with those before it for whom room is being made?"""
    return within_guarantee(cycle.after.snapshot, job, cycle.shape(job).demand)


def _make_room(
    cycle: Cycle,
    first: list[Waiting],
    reason: str,
    may_stop: MayStop,
    may_ask: Callable[[Cycle, Waiting], bool] = lambda cycle, job: True,
) -> None:
    for job in first:
        if job.job not in cycle.served and may_ask(cycle, job):
            closed = cycle.future.closed(cycle.now + job.time_s)
            for task in closed:
                cycle.after.snapshot.take_task(task)
            serve(cycle, job, reason, lambda job, demand: choose_victims(cycle, job, demand, may_stop))
            for task in closed:
                cycle.after.snapshot.give_back_task(task)


def serve(cycle: Cycle, job: Waiting, reason: str, choose: Choose) -> None:
    """Choose whom to stop, and take the job's place in the world after, so that the next sees what is left of it."""
    demand = cycle.shape(job).demand
    victims: Sequence[Running] = ()
    if not _take_place(cycle.after, job, demand):
        victims = choose(job, demand)
        if not victims:
            return
        for victim in victims:
            cycle.after.snapshot.leave(victim)
        cycle.leaving.update(victim.job for victim in victims)
        _take_place(cycle.after, job, demand)
    cycle.served.add(job.job)
    if not cycle.leaving:
        return  # there is room already, and something else keeps it
    cycle.plan.refusals[job.job].insert(0, Refusal("making_room", {"n": len(victims) or len(cycle.leaving)}))
    cycle.plan.evictions += [Eviction(victim.job, reason, job.job) for victim in victims]


def choose_victims(cycle: Cycle, job: Waiting, demand: Demand, may_stop: MayStop) -> Sequence[Running]:
    """Whom to stop so that the job fits, none where even all who may be stopped would not do."""
    able = [
        victim
        for victim in cycle.snapshot.running
        if victim.preemptible
        and job.pool in (victim.pool, cycle.strangers.get(victim.job))
        and victim.job not in cycle.leaving
    ]
    if not able:
        return ()
    able.sort(key=lambda victim: (lost_work(victim, cycle.now), -victim.started_at, victim.job))
    world = cycle.after.snapshot.copy()
    gone = stop_in_order(world, able, job, may_stop, lambda: False)
    if sum(role.min for role in job.gang) > 1:
        return for_gang(View(world, Table(world, cycle.policy)), job, demand, gone)
    return _on_one_node(world, cycle, job, demand, gone, may_stop)


def for_gang(view: View, job: Waiting, demand: Demand, gone: list[Running]) -> Sequence[Running]:
    """Let those whose stop costs most come back while the gang still fits. `gone` have left the world."""
    if not _fits(view, job, demand):
        return ()
    victims = list(gone)
    for victim in reversed(gone):
        view.snapshot.come_back(victim)
        if _fits(view, job, demand):
            victims.remove(victim)
        else:
            view.snapshot.leave(victim)
    return victims


def _on_one_node(
    world: Snapshot, cycle: Cycle, job: Waiting, demand: Demand, gone: list[Running], may_stop: MayStop
) -> Sequence[Running]:
    """The cheapest set on any one node. `gone` have left the world."""
    request = Request(job.gang[0].ask, job.pool, demand.kinds[0], demand.reach)
    fits = judge(world, request, world.nodes) > -np.inf
    if keep := build_keep(world, job, demand):
        fits &= keep.choices(request.ask, request.kinds)[-1]
    fitting = world.nodes[fits]
    for victim in gone:
        world.come_back(victim)
    here: dict[int, list[Running]] = {node: [] for node in fitting.tolist()}
    for victim in gone:
        for node in {task.node for task in victim.tasks} & here.keys():
            here[node].append(victim)

    def cost(victims: list[Running]) -> float:
        return sum(lost_work(victim, cycle.now) for victim in victims)

    cheapest = sorted(here, key=lambda node: cost(here[node]))[:MOST_NODES]
    return min((least_on(world, request, node, here[node], job, may_stop) for node in cheapest), key=cost, default=())


def least_on(
    world: Snapshot, request: Request, node: int, able: list[Running], job: Waiting, may_stop: MayStop
) -> list[Running]:
    """Stop the cheapest until the request fits on the node, then let back who was not needed, the dearest first.

    able: the cheapest first. Nobody where all of them would not do.
    """
    nodes = world.nodes[node : node + 1]

    def fits() -> bool:
        return bool(judge(world, request, nodes)[0] > -np.inf)

    victims = stop_in_order(world, able, job, may_stop, fits)
    enough = fits()
    for victim in reversed(victims.copy()):
        world.come_back(victim)
        if fits():
            victims.remove(victim)
        else:
            world.leave(victim)
    for victim in victims:
        world.come_back(victim)
    return victims if enough else []


def stop_in_order(
    world: Snapshot, able: list[Running], job: Waiting, may_stop: MayStop, enough: Callable[[], bool]
) -> list[Running]:
    """Stop each that may be stopped once those before it are gone, until it is enough."""
    gone = []
    for victim in able:
        if enough():
            break
        if may_stop(world, victim, job):
            world.leave(victim)
            gone.append(victim)
    return gone


def _take_place(view: View, job: Waiting, demand: Demand) -> Placement | None:
    keep = build_keep(view.snapshot, job, demand)
    result = place(view.snapshot, view.table, job, demand, demand.kinds, ANY_QUOTA, keep)
    return result if isinstance(result, Placement) else None


def _fits(view: View, job: Waiting, demand: Demand) -> bool:
    placement = _take_place(view, job, demand)
    if placement:
        view.snapshot.give_back(placement, job)
    return placement is not None
