"""What the phases of one cycle share: the snapshot that they change, the plan, and what was worked out once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

from scheduler.core.demand import Demand, build_demand
from scheduler.core.ends import Rows
from scheduler.core.future import Future, View
from scheduler.core.keep import Keep, build_keep
from scheduler.core.lending import OWN, lent_to, reach_at, reach_at_times
from scheduler.core.order import work_to_go
from scheduler.core.possible import impossible
from scheduler.core.quota import borrow_refusals, limit_refusals, spare_milli, within_guarantee
from scheduler.core.snapshot import Snapshot
from scheduler.core.table import Table
from scheduler.core.types import GPU_MILLI, Placement, Plan, Policy, Refusal, Role, Waiting


@dataclass
class Shape:
    """What jobs that ask alike have in common in one cycle.

    never: why such a job could never run. blocked_from: one that would end then or later found no place, and nothing
    becomes free in a cycle. blocked_by: why it found none. kept_from: {team: the same, where its jobs would have found
    one but for the whole nodes of others}.
    """

    demand: Demand
    never: list[Refusal] | None = None
    blocked_from: float | None = None
    blocked_by: list[Refusal] = field(default_factory=list)
    kept_from: dict[int, tuple[float, list[Refusal]]] = field(default_factory=dict)
    passed_over: bool = False
    """No other job of this shape starts, nor would it keep a place in time."""

    def is_blocked(self, ends_at: float) -> bool:
        return self.blocked_from is not None and ends_at >= self.blocked_from

    def kept(self, job: Waiting, now: float) -> list[Refusal]:
        """Why the job found no place, where that is because others keep their nodes whole."""
        ends_at = now + job.time_s
        kept_from, refusals = self.kept_from.get(job.team, (inf, []))
        there = refusals and not job.preemptible and ends_at >= kept_from and not self.is_blocked(ends_at)
        return refusals if there else []


@dataclass
class Memory:
    """What stays from one cycle to the next of a world whose machines stay as they are, and what is asked of a cycle.

    explains: each job that waits is told why, where it stands and when it starts at the latest; else a plan has only
    what starts and what stops, the same, and costs a fraction. shapes: (demand, why such a job could never run) of all
    that ask alike, where no window changes it. rows: what those who run hold.
    """

    explains: bool = True
    shapes: dict[tuple, tuple[Demand, list[Refusal]]] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows)


class Cycle:
    def __init__(self, snapshot: Snapshot, policy: Policy, now: float, memory: Memory | None = None):
        self.snapshot = snapshot
        self.policy = policy
        self.now = now
        self.plan = Plan()
        self.memory = memory or Memory()
        snapshot.turn_to(now)
        self.present = View(snapshot, Table(snapshot, policy))
        self.future = Future(self.present, policy, now, self.memory.rows)
        self.aside: list[Waiting] = []
        """Jobs that wait for something other than capacity."""
        self.leaving = {job.job for job in snapshot.running if job.leaving}
        self.served: set[int] = set()
        """Jobs for which room is being made."""
        self._empty: tuple[Snapshot, Table] | None = None
        self._shapes: dict[tuple[tuple[Role, ...], int, int, int], Shape] = {}
        self._reaches: dict[tuple[int, float, bool], tuple[int, int]] = {}
        self._shape_of: dict[int, Shape] = {}
        self._same: dict[tuple[int, int, int, int], tuple[tuple[Role, ...], Shape]] = {}
        self._guarantees = bool(snapshot.guarantee.any())
        self._answers: dict[tuple, Any] = {}
        self._answered_at = -1

    @cached_property
    def after(self) -> View:
        """The cluster as it will be when those that are leaving are gone, for those that wait for it."""
        world = self.snapshot.copy()
        for job in self.snapshot.running:
            if job.leaving:
                world.leave(job)
        return View(world, Table(world, self.policy))

    @cached_property
    def strangers(self) -> dict[int, int]:
        """{running job: pool} of those that stand on cards of a pool that does not lend them to theirs any more."""
        if not self.snapshot.lends:
            return {}
        pool, lent = self.snapshot.gpu_pool.tolist(), lent_to(self.snapshot)
        return {
            job.job: pool[card.gpu]
            for job in self.snapshot.running
            for task in job.tasks
            for card in task.cards
            if pool[card.gpu] != job.pool and lent[card.gpu] != job.pool
        }

    def shape(self, job: Waiting) -> Shape:
        shape = self._shape_of.get(job.job)
        if shape is None:
            shape = self._shape_of[job.job] = self._shape(job, *self._reach(job))
        return shape

    def as_guest(self, job: Waiting) -> Shape | None:
        """The same on nothing but the cards that its pool is lent; None where it may not use any now."""
        now, at_times = self._reach(job)
        return None if now == OWN else self._shape(job, now & ~OWN, at_times)

    def _shape(self, job: Waiting, reach: int, at_times: int) -> Shape:
        same = id(job.gang), job.pool, reach, at_times  # a gang takes long to compare
        shape = self._same[same][1] if same in self._same else None
        if shape is None:
            alike = job.gang, job.pool, reach, at_times
            shape = self._shapes.get(alike)
            if shape is None:
                known = () if self.snapshot.windows else self.memory.shapes.get(alike, ())
                shape = self._shapes[alike] = Shape(*known or (build_demand(self.snapshot, *alike),))
            self._same[same] = job.gang, shape  # which keeps the gang, so that no other gets its id
        return shape

    def _reach(self, job: Waiting) -> tuple[int, int]:
        """(reach now, at times) of the job."""
        if not self.snapshot.windows:
            return OWN, OWN
        alike = job.pool, job.time_s, job.preemptible
        if alike not in self._reaches:
            self._reaches[alike] = reach_at(self.snapshot, job, self.now), reach_at_times(self.snapshot, job)
        return self._reaches[alike]

    def limits(self, job: Waiting) -> list[Refusal]:
        """Which limits of its team and user keep the job from starting."""
        shape = self.shape(job)
        return self._until_change(
            (limit_refusals, job.team, job.user, id(shape)), lambda: limit_refusals(self.snapshot, job, shape.demand)
        )

    def within_guarantee(self, job: Waiting) -> bool:
        if not self._guarantees:
            return False
        shape = self.shape(job)
        return self._until_change(
            (within_guarantee, job.team, id(shape)), lambda: within_guarantee(self.snapshot, job, shape.demand)
        )

    def borrowing(self, job: Waiting) -> list[Refusal]:
        """Why the job, which is beyond its team's guarantee, may not borrow."""
        if not self._guarantees:
            return []
        shape = self.shape(job)
        return self._until_change(
            (borrow_refusals, job.team, job.preemptible, id(shape)),
            lambda: borrow_refusals(self.snapshot, job, shape.demand),
        )

    def spare_milli(self, job: Waiting) -> int:
        shape = self.shape(job)
        return self._until_change(
            (spare_milli, job.team, job.user, id(shape)), lambda: spare_milli(self.snapshot, job, shape.demand)
        )

    def keep(self, job: Waiting, demand: Demand) -> Keep | None:
        """What the job leaves to the owners of whole nodes."""
        if job.preemptible or not self.snapshot.cells:
            return None
        return self._until_change(
            (build_keep, job.team, job.pool, demand.reach, bool(demand.most[GPU_MILLI])),
            lambda: build_keep(self.snapshot, job, demand),
        )

    def may_pass(self, job: Waiting) -> bool:
        """Is the job so much longer than all that keep a place in time that they may stop it again?"""
        own = self.policy.of(job.pool)
        if own.stop_longer is None or not job.preemptible or self.leaving or job.stops >= own.most_stops:
            return False
        first = [work_to_go(other, own, self.now) for other in self.future.first if other.pool == job.pool]
        return work_to_go(job, own, self.now) > own.stop_longer * max(first, default=0.0)

    def impossible(self, job: Waiting) -> list[Refusal]:
        """Why a job of this shape could never run, however empty the cluster; asked once for each shape."""
        shape = self.shape(job)
        if shape.never is None:
            if self._empty is None:
                empty = self.snapshot.emptied()
                self._empty = empty, Table(empty, self.policy)
            shape.never = impossible(*self._empty, job)
            if not self.snapshot.windows:
                self.memory.shapes[job.gang, job.pool, *self._reach(job)] = shape.demand, shape.never
        return shape.never

    def start(self, placement: Placement, job: Waiting) -> None:
        """The job's place has been taken from the snapshot."""
        self.plan.starts.append(placement)
        self.plan.refusals.pop(job.job, None)
        self.future.started(placement, job)

    def _until_change(self, question: tuple, ask: Callable[[], Any]) -> Any:
        """The answer that was found before, where nobody has taken or given back anything since."""
        if self._answered_at != self.snapshot.version:
            self._answered_at, self._answers = self.snapshot.version, {}
        if question not in self._answers:
            self._answers[question] = ask()
        return self._answers[question]

    def put_aside(self, job: Waiting, refusals: list[Refusal]) -> None:
        self.plan.refusals[job.job] = refusals
        self.aside.append(job)
