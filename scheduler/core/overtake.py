"""Short work stops far longer work of its class, where the pool's policy says so (`Policy.stop_longer`).

How long is told as in the order of the line: card-seconds to go, discounted by age. Only who is so many times as long,
and by more than what its stop throws away, is stopped, and only so often: then more time is gained than lost. Who waits
behind the first in line, and is so much longer than they, need not leave them their places in time, for they may stop
it again (`may_pass`). Where those who are longer do not make room enough, shorter work moves (`move`).
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import islice

import numpy as np

from scheduler.core.context import Cycle
from scheduler.core.demand import Demand
from scheduler.core.future import View
from scheduler.core.move import move, whole_cards
from scheduler.core.order import work_to_go
from scheduler.core.preempt import for_gang, is_borrowed, least_on, lost_work, serve, stop_in_order
from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.table import Table
from scheduler.core.types import Running, Waiting

MOST_TRIES = 16
"""So many nodes are looked at closely for one task."""


def overtake(cycle: Cycle, line: list[Waiting]) -> None:
    """Each in line that would get the room stops who is far longer. Of jobs that ask alike a longer one need not try
    where a shorter one found nobody.
    """
    if not cycle.policy.overtakes:
        return
    # Where nobody leaves, who would fit waits for those before it, and is not to take what they may need.
    if cycle.served and not cycle.leaving:
        cycle.after = View(world := cycle.snapshot.copy(), Table(world, cycle.policy))
    longest, made = _Longest(cycle), set(cycle.served if cycle.leaving else ())
    vain: dict[tuple[int, int], float] = {}
    for job in line:
        alike, work = (id(cycle.shape(job)), job.team), work_to_go(job, cycle.policy.of(job.pool), cycle.now)
        if job.job in cycle.served or work >= vain.get(alike, np.inf) or not _has_a_turn(cycle, job, made):
            continue
        serve(cycle, job, "overtaken", longest.choose)
        if job.job in cycle.served:
            made.add(job.job)
        else:
            vain[alike] = work


def is_longer(cycle: Cycle, victim: Running, job: Waiting) -> bool:
    """Is the victim so much longer that its stop gains more than it throws away, and was it stopped less often?"""
    own = cycle.policy.of(job.pool)
    if own.stop_longer is None or victim.stops >= own.most_stops or victim.priority > job.priority:
        return False
    least = own.stop_longer * work_to_go(job, own, cycle.now) + lost_work(victim, cycle.now)
    return work_to_go(victim, own, cycle.now) > least


def _has_a_turn(cycle: Cycle, job: Waiting, made: set[int]) -> bool:
    """Would it get the room that is made? Who has to leave others their places in time would not. made: for whom room
    is being made: these are in nobody's way.
    """
    if cycle.policy.of(job.pool).stop_longer is None:
        return False
    first = [other.job for other in cycle.future.first if other.pool == job.pool and other.job not in made]
    return first[:1] == [job.job] or cycle.may_pass(job)


class _Longest:
    """Whom the jobs of one cycle may stop, those first that have most to go: they mind a short wait least."""

    def __init__(self, cycle: Cycle):
        self._cycle = cycle

    @cached_property
    def _able(self) -> list[tuple[float, Running]]:
        policy, now = self._cycle.policy, self._cycle.now
        able = (job for job in self._cycle.snapshot.running if job.preemptible and job.job not in self._cycle.leaving)
        each = ((work_to_go(job, policy.of(job.pool), now), job) for job in able)
        return sorted(each, key=lambda known: (-known[0], known[1].job))

    @cached_property
    def _work(self) -> dict[int, float]:
        return {job.job: work for work, job in self._able}

    def choose(self, job: Waiting, demand: Demand) -> Sequence[Running]:
        """Nobody where even all would not do, and nobody could move."""
        able = self._longer(job)
        if sum(role.min for role in job.gang) > 1:
            victims = self._for_gang(job, demand, able)
        else:
            victims = self._on_one_node(job, demand, able)
        return victims or move(self._cycle, job, demand, able, _may_stop)

    def _longer(self, job: Waiting) -> list[Running]:
        """The longest first."""
        cycle, able = self._cycle, []
        least = cycle.policy.of(job.pool).stop_longer or 1.0
        work = least * work_to_go(job, cycle.policy.of(job.pool), cycle.now)
        for left, victim in self._able:
            if left <= work:
                break
            if victim.pool == job.pool and victim.job not in cycle.leaving and is_longer(cycle, victim, job):
                able.append(victim)
        return able

    def _for_gang(self, job: Waiting, demand: Demand, able: list[Running]) -> Sequence[Running]:
        room = whole_cards(self._cycle.after.snapshot, able)
        if not able or any((room >= role.ask.gpus).sum() < role.min for role in job.gang if role.ask.whole):
            return ()
        world = self._cycle.after.snapshot.copy()
        gone = stop_in_order(world, able, job, _may_stop, lambda: False)
        return for_gang(View(world, Table(world, self._cycle.policy)), job, demand, gone)

    def _on_one_node(self, job: Waiting, demand: Demand, able: list[Running]) -> Sequence[Running]:
        world = self._cycle.after.snapshot
        request = Request(job.gang[0].ask, job.pool, demand.kinds[0], demand.reach)
        here: defaultdict[int, list[Running]] = defaultdict(list)
        for victim in able:
            for node in {task.node for task in victim.tasks}:
                here[node].append(victim)
        room = whole_cards(world, able)
        nodes = [node for node in here if not request.ask.whole or room[node] >= request.ask.gpus]
        nodes.sort(key=lambda node: (self._harm(here[node][:1]), node))
        found = (least_on(world, request, node, here[node], job, _may_stop) for node in nodes)
        return min(islice(filter(None, found), MOST_TRIES), key=self._harm, default=())

    def _harm(self, victims: Sequence[Running]) -> float:
        return sum(1.0 / self._work[victim.job] for victim in victims)


def _may_stop(world: Snapshot, victim: Running, job: Waiting) -> bool:
    return victim.team == job.team or is_borrowed(world, victim, job)
