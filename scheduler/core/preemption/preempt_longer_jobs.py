"""Preemption of far longer jobs by shorter ones of the same class (`Policy.stop_longer`).

A victim must be longer by the factor plus the work its stop loses. Much longer jobs may ignore reservations, because
they can be stopped again.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import islice

import numpy as np

from scheduler.core.model.demand import GangDemand
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import RunningJob, WaitingJob
from scheduler.core.placement.scores import ScoredSnapshot, ScoreTable
from scheduler.core.placement.victims import (
    choose_for_gang,
    choose_on_node,
    count_whole_cards,
    get_lost_work,
    is_fully_borrowed,
    stop_until_enough,
)
from scheduler.core.preemption.defragment import choose_moves
from scheduler.core.queueing.cycle_context import Cycle
from scheduler.core.queueing.priority_order import estimate_remaining_work

MAX_NODES_TRIED = 16
"""Nodes examined per task."""


def preempt_longer_jobs(cycle: Cycle) -> None:
    """Let jobs in line stop far longer ones."""
    if not cycle.policy.preempts_longer:
        return
    # If nobody is leaving, jobs that fit wait for earlier ones.
    if cycle.making_room_for and not cycle.leaving:
        cycle.after_evictions = ScoredSnapshot(world := cycle.snapshot.copy(), ScoreTable(world, cycle.policy))
    longest, made = _LongestJobs(cycle), set(cycle.making_room_for if cycle.leaving else ())
    vain: dict[tuple[int, int], float] = {}
    for job in cycle.list_jobs_in_line():
        alike, work = (
            (id(cycle.job_class(job)), job.team),
            estimate_remaining_work(job, cycle.policy.for_pool(job.pool), cycle.now),
        )
        if (
            job.job in cycle.making_room_for
            or cycle.gets_room_elsewhere(job)
            or work >= vain.get(alike, np.inf)
            or not _gets_freed_room(cycle, job, made)
        ):
            continue
        cycle.make_room(job, "overtaken", longest.choose_victims)
        if job.job in cycle.making_room_for:
            made.add(job.job)
        else:
            vain[alike] = work


def is_far_longer(cycle: Cycle, victim: RunningJob, job: WaitingJob) -> bool:
    """Check whether stopping the victim gains more time than it loses."""
    own = cycle.policy.for_pool(job.pool)
    if own.stop_longer is None or victim.stops >= own.most_stops or victim.priority > job.priority:
        return False
    least = own.stop_longer * estimate_remaining_work(job, own, cycle.now) + get_lost_work(victim, cycle.now)
    return estimate_remaining_work(victim, own, cycle.now) > least


def _gets_freed_room(cycle: Cycle, job: WaitingJob, made: set[int]) -> bool:
    """Check whether the job would get the freed room. made: jobs for which room is being made."""
    if cycle.policy.for_pool(job.pool).stop_longer is None:
        return False
    first = [
        other.job for other in cycle.reservation_plan.first_in_line if other.pool == job.pool and other.job not in made
    ]
    return first[:1] == [job.job] or cycle.may_delay_reservations(job)


class _LongestJobs:
    """Preemptible jobs, longest first."""

    def __init__(self, cycle: Cycle):
        self._cycle = cycle

    @cached_property
    def _candidates(self) -> list[tuple[float, RunningJob]]:
        policy, now = self._cycle.policy, self._cycle.now
        able = (job for job in self._cycle.snapshot.running if job.preemptible and job.job not in self._cycle.leaving)
        each = ((estimate_remaining_work(job, policy.for_pool(job.pool), now), job) for job in able)
        return sorted(each, key=lambda known: (-known[0], known[1].job))

    @cached_property
    def _work_by_job(self) -> dict[int, float]:
        return {job.job: work for work, job in self._candidates}

    def choose_victims(self, job: WaitingJob, demand: GangDemand) -> Sequence[RunningJob]:
        """Choose the jobs to stop, empty if impossible."""
        able = self._far_longer_than(job)
        if sum(role.min for role in job.gang) > 1:
            victims = self._choose_for_gang(job, demand, able)
        else:
            victims = self._choose_on_one_node(job, demand, able)
        return victims or self._choose_moves(job, demand, able)

    def _choose_moves(self, job: WaitingJob, demand: GangDemand, able: list[RunningJob]) -> Sequence[RunningJob]:
        cycle, movable = self._cycle, _list_movable(self._cycle, job, able)
        return choose_moves(cycle.after_evictions.snapshot, cycle.policy, job, demand, able, movable, _may_stop)

    def _far_longer_than(self, job: WaitingJob) -> list[RunningJob]:
        cycle, able = self._cycle, []
        least = cycle.policy.for_pool(job.pool).stop_longer or 1.0
        work = least * estimate_remaining_work(job, cycle.policy.for_pool(job.pool), cycle.now)
        for left, victim in self._candidates:
            if left <= work:
                break
            if victim.pool == job.pool and victim.job not in cycle.leaving and is_far_longer(cycle, victim, job):
                able.append(victim)
        return able

    def _choose_for_gang(self, job: WaitingJob, demand: GangDemand, able: list[RunningJob]) -> Sequence[RunningJob]:
        room = count_whole_cards(self._cycle.after_evictions.snapshot, able)
        if not able or any((room >= role.ask.gpus).sum() < role.min for role in job.gang if role.ask.whole):
            return ()
        world = self._cycle.after_evictions.snapshot.copy()
        gone = stop_until_enough(world, able, job, _may_stop, lambda: False)
        return choose_for_gang(ScoredSnapshot(world, ScoreTable(world, self._cycle.policy)), job, demand, gone)

    def _choose_on_one_node(self, job: WaitingJob, demand: GangDemand, able: list[RunningJob]) -> Sequence[RunningJob]:
        world = self._cycle.after_evictions.snapshot
        request = RequestClass(job.gang[0].ask, job.pool, demand.kinds[0], demand.reach)
        here: defaultdict[int, list[RunningJob]] = defaultdict(list)
        for victim in able:
            for node in {task.node for task in victim.tasks}:
                here[node].append(victim)
        room = count_whole_cards(world, able)
        nodes = [node for node in here if not request.ask.whole or room[node] >= request.ask.gpus]
        nodes.sort(key=lambda node: (self._sum_harm(here[node][:1]), node))
        found = (choose_on_node(world, request, node, here[node], job, _may_stop) for node in nodes)
        return min(islice(filter(None, found), MAX_NODES_TRIED), key=self._sum_harm, default=())

    def _sum_harm(self, victims: Sequence[RunningJob]) -> float:
        return sum(1.0 / self._work_by_job[victim.job] for victim in victims)


def _list_movable(cycle: Cycle, job: WaitingJob, longer: Sequence[RunningJob]) -> list[RunningJob]:
    """Return jobs that may restart elsewhere, those that lose little work."""
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
    ]


def _may_stop(world: Snapshot, victim: RunningJob, job: WaitingJob) -> bool:
    return victim.team == job.team or is_fully_borrowed(world, victim, job)
