"""State shared by the phases of one cycle: snapshot, plan and cached answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scheduler.core.model.demand import GangDemand, build_demand
from scheduler.core.model.lending import find_reach_at, find_reach_over_windows, list_borrowing_pools
from scheduler.core.model.requests import OWN_POOL
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import (
    GPU_MILLI,
    Eviction,
    Placement,
    Plan,
    Policy,
    Refusal,
    Role,
    RunningJob,
    WaitingJob,
)
from scheduler.core.placement.feasibility_when_empty import check_shape
from scheduler.core.placement.scores import ScoredSnapshot, ScoreTable
from scheduler.core.placement.victims import ChooseVictims, place_job
from scheduler.core.queueing.job_rows import JobRows
from scheduler.core.queueing.priority_order import estimate_remaining_work, measure_patience_used
from scheduler.core.queueing.release_times import TaskRows, estimate_latest_stay, estimate_stay
from scheduler.core.queueing.reservations import KnownReservations, ReservationPlan, Stay
from scheduler.core.quota.limits import (
    borrow_refusals,
    is_within_guarantee,
    spare_milli,
    team_limit_refusals,
    user_limit_refusals,
)
from scheduler.core.quota.whole_node_guarantees import CellConstraint, build_cell_constraint


@dataclass
class JobClass:
    """Results shared by jobs with equal requests in one cycle.

    blocked_from: jobs that stay so long or longer do not fit. cells_blocked_from: {team: the same, because of other
    teams' whole nodes}.
    """

    demand: GangDemand
    infeasible: list[Refusal] | None = None
    blocked_from: Stay | None = None
    blocked_by: list[Refusal] = field(default_factory=list)
    cells_blocked_from: dict[int, tuple[Stay, list[Refusal]]] = field(default_factory=dict)
    skips_line: bool = False
    """No further job of this shape can start or get a reservation."""

    def is_blocked(self, stay: Stay) -> bool:
        return self.blocked_from is not None and stay.lasts(self.blocked_from)

    def cell_refusals(self, job: WaitingJob, stay: Stay) -> list[Refusal]:
        """Return why the job did not fit, if only for other teams' whole nodes."""
        if job.preemptible or job.team not in self.cells_blocked_from:
            return []
        kept_from, refusals = self.cells_blocked_from[job.team]
        return refusals if stay.lasts(kept_from) and not self.is_blocked(stay) else []


@dataclass
class CycleMemo:
    """Cache across cycles on the same machines.

    explains: compute refusals, positions and reservations, which costs most of a cycle. known_reservations: of cycles
    that differ by no more than who waits; None: those of others may be on another cluster.
    """

    explains: bool = True
    job_classes: dict[tuple, tuple[GangDemand, list[Refusal]]] = field(default_factory=dict)
    task_rows: TaskRows = field(default_factory=TaskRows)
    job_rows: JobRows = field(default_factory=JobRows)
    known_reservations: KnownReservations | None = None


@dataclass
class WaitingRecords:
    """Records that wait: the first `in_line` for capacity, in order, others for something else.

    rows: of `JobRows`. why: the place in `reasons`. ahead: how many are ahead of each in line.
    """

    rows: np.ndarray
    why: np.ndarray
    reasons: list[list[Refusal]]
    ahead: np.ndarray
    in_line: int


class Cycle:
    def __init__(self, snapshot: Snapshot, policy: Policy, now: float, cycle_memo: CycleMemo | None = None):
        self.snapshot = snapshot
        self.policy = policy
        self.now = now
        self.plan = Plan()
        self.cycle_memo = memo = cycle_memo or CycleMemo()
        snapshot.open_windows_at(now)
        self.present_view = ScoredSnapshot(snapshot, ScoreTable(snapshot, policy))
        self.reservation_plan = ReservationPlan(self.present_view, policy, now, memo.task_rows, memo.known_reservations)
        nothing = np.zeros(0, dtype=np.int64)
        self.waiting = WaitingRecords(nothing, nothing, [], nothing, 0)
        """Filled once jobs were started."""
        self.started_elsewhere: set[int] = set()
        """Jobs with records in several pools of which one started: the others wait no more."""
        self.job_rows = self.cycle_memo.job_rows
        self.job_rows.trim(1000 + 4 * len(snapshot.waiting))
        self.making_room: dict[tuple[int, int], Refusal] = {}
        """{(job, choice): that room is being made for it there}."""
        self.leaving = {job.job for job in snapshot.running if job.leaving}
        self.making_room_for: set[int] = set()
        """Jobs for which room is being made."""
        self._empty: tuple[Snapshot, ScoreTable] | None = None
        self._classes: dict[tuple[tuple[Role, ...], int, int, int], JobClass] = {}
        self._reaches: dict[tuple[int, float, bool], tuple[int, int]] = {}
        self._class_of: dict[tuple[int, int], JobClass] = {}
        self._by_identity: dict[tuple[int, int, int, int], tuple[tuple[Role, ...], JobClass]] = {}
        self._guarantees = bool(snapshot.guarantee.any())
        self._answers: dict[tuple, Any] = {}
        self._answered_at = -1

    @cached_property
    def after_evictions(self) -> ScoredSnapshot:
        """The cluster once jobs being stopped are gone."""
        world = self.snapshot.copy()
        for job in self.snapshot.running:
            if job.leaving:
                world.remove_job(job)
        return ScoredSnapshot(world, ScoreTable(world, self.policy))

    @cached_property
    def off_pool_jobs(self) -> dict[int, int]:
        """{running job: pool whose cards it uses though no longer lent to its own}."""
        if not self.snapshot.has_lending:
            return {}
        pool, lent = self.snapshot.gpu_pool.tolist(), list_borrowing_pools(self.snapshot)
        return {
            job.job: pool[card.gpu]
            for job in self.snapshot.running
            for task in job.tasks
            for card in task.cards
            if pool[card.gpu] != job.pool and lent[card.gpu] != job.pool
        }

    def job_class(self, job: WaitingJob) -> JobClass:
        record = job.job, job.choice
        shape = self._class_of.get(record)
        if shape is None:
            shape = self._class_of[record] = self._job_class(job, *self._reaches_of(job))
        return shape

    def guest_class(self, job: WaitingJob) -> JobClass | None:
        """Return the shape on lent cards only, None if none are lent now."""
        now, at_times = self._reaches_of(job)
        return None if now == OWN_POOL else self._job_class(job, now & ~OWN_POOL, at_times)

    def _job_class(self, job: WaitingJob, reach: int, at_times: int) -> JobClass:
        same = id(job.gang), job.pool, reach, at_times  # comparing gangs is slow
        shape = self._by_identity[same][1] if same in self._by_identity else None
        if shape is None:
            alike = job.gang, job.pool, reach, at_times
            shape = self._classes.get(alike)
            if shape is None:
                known = () if self.snapshot.windows else self.cycle_memo.job_classes.get(alike, ())
                shape = self._classes[alike] = JobClass(*known or (build_demand(self.snapshot, *alike),))
            self._by_identity[same] = job.gang, shape  # keeps the gang, so that its id stays unique
        return shape

    def _reaches_of(self, job: WaitingJob) -> tuple[int, int]:
        """Return the job's reach (now, over all windows)."""
        if not self.snapshot.windows:
            return OWN_POOL, OWN_POOL
        alike = job.pool, job.cautious_s, job.preemptible
        if alike not in self._reaches:
            self._reaches[alike] = (
                find_reach_at(self.snapshot, job, self.now),
                find_reach_over_windows(self.snapshot, job),
            )
        return self._reaches[alike]

    def limit_refusals(self, job: WaitingJob) -> list[Refusal]:
        """Return the quota limits of team and user that stop the job."""
        shape = self.job_class(job)
        of_user = self._cached_until_change(
            (user_limit_refusals, job.user, id(shape)), lambda: user_limit_refusals(self.snapshot, job, shape.demand)
        )
        of_team = self._cached_until_change(
            (team_limit_refusals, job.team, id(shape)), lambda: team_limit_refusals(self.snapshot, job, shape.demand)
        )
        return of_user + of_team

    def stays_until(self, job: WaitingJob) -> float:
        """Return until when the job keeps its place from others if it starts now."""
        return estimate_stay(self.snapshot, job, self.now)

    def stay_of(self, job: WaitingJob) -> Stay:
        """Return the job's stay if it starts now. Pessimistic ends matter only while somebody drains its place."""
        until = self.stays_until(job)
        if not self.reservation_plan.has_drains:
            return Stay(until)
        return Stay(until, estimate_latest_stay(job, self.now), self.now + job.limit_s)

    def may_drain(self, job: WaitingJob) -> bool:
        """Check whether the job waited long enough to drain its place, and few enough of its pool do."""
        own = self.policy.for_pool(job.pool)
        few = self.reservation_plan.count_draining(job.pool) < own.reservations
        return few and measure_patience_used(job, own, self.now) >= own.drains_from

    def is_within_guarantee(self, job: WaitingJob) -> bool:
        if not self._guarantees:
            return False
        shape = self.job_class(job)
        return self._cached_until_change(
            (is_within_guarantee, job.team, id(shape)), lambda: is_within_guarantee(self.snapshot, job, shape.demand)
        )

    def borrow_refusals(self, job: WaitingJob) -> list[Refusal]:
        """Return why the job, beyond its team's guarantee, may not borrow."""
        if not self._guarantees:
            return []
        shape = self.job_class(job)
        return self._cached_until_change(
            (borrow_refusals, job.team, job.preemptible, id(shape)),
            lambda: borrow_refusals(self.snapshot, job, shape.demand),
        )

    def spare_milli(self, job: WaitingJob) -> int:
        shape = self.job_class(job)
        return self._cached_until_change(
            (spare_milli, job.team, job.user, id(shape)), lambda: spare_milli(self.snapshot, job, shape.demand)
        )

    def cell_constraint(self, job: WaitingJob, demand: GangDemand) -> CellConstraint | None:
        """Return the constraint by other teams' whole nodes."""
        if job.preemptible or not self.snapshot.cells:
            return None
        return self._cached_until_change(
            (build_cell_constraint, job.team, job.pool, demand.reach, bool(demand.most[GPU_MILLI])),
            lambda: build_cell_constraint(self.snapshot, job, demand),
        )

    def may_delay_reservations(self, job: WaitingJob) -> bool:
        """Check whether the job may delay reservations, because their jobs may stop it later."""
        own = self.policy.for_pool(job.pool)
        if own.stop_longer is None or not job.preemptible or self.leaving or job.stops >= own.most_stops:
            return False
        first = [
            estimate_remaining_work(other, own, self.now)
            for other in self.reservation_plan.first_in_line
            if other.pool == job.pool
        ]
        return estimate_remaining_work(job, own, self.now) > own.stop_longer * max(first, default=0.0)

    def infeasible_refusals(self, job: WaitingJob) -> list[Refusal]:
        """Return why a job of this shape could never run, even on an empty cluster."""
        shape = self.job_class(job)
        if shape.infeasible is None:
            if self._empty is None:
                empty = self.snapshot.empty_copy()
                self._empty = empty, ScoreTable(empty, self.policy)
            shape.infeasible = check_shape(*self._empty, job)
            if not self.snapshot.windows:
                self.cycle_memo.job_classes[job.gang, job.pool, *self._reaches_of(job)] = shape.demand, shape.infeasible
        return shape.infeasible

    def gets_room_elsewhere(self, job: WaitingJob) -> bool:
        """Check whether the job will start in another pool once those that leave are gone: nobody need leave here."""
        if not self.leaving or not self.reservation_plan.is_first_in_line(job):
            return False
        line = self.reservation_plan.first_in_line
        return any(
            self._gets_freed_room(other, [one for one in line[:place] if one.pool == other.pool])
            for place, other in enumerate(line)
            if other.job == job.job and other.pool != job.pool
        )

    def _gets_freed_room(self, job: WaitingJob, ahead: list[WaitingJob]) -> bool:
        """Check whether room is left for the job when those ahead of it have taken theirs."""
        if not self._places_all([job]):
            return False
        return self._places_all([*(other for other in ahead if other.job not in self.making_room_for), job])

    def _places_all(self, jobs: list[WaitingJob]) -> bool:
        """Check whether the last of the jobs has a place beside those before it, once those that leave are gone."""
        found = [(job, place_job(self.after_evictions, job, self.job_class(job).demand)) for job in jobs]
        for job, placement in reversed(found):
            if placement:
                self.after_evictions.snapshot.release(placement, job)
        return found[-1][1] is not None

    def make_room(self, job: WaitingJob, reason: str, choose: ChooseVictims) -> None:
        """Choose victims, and take the job's place in `after_evictions`."""
        demand = self.job_class(job).demand
        victims: Sequence[RunningJob] = ()
        if not place_job(self.after_evictions, job, demand):
            victims = choose(job, demand)
            if not victims:
                return
            for victim in victims:
                self.after_evictions.snapshot.remove_job(victim)
            self.leaving.update(victim.job for victim in victims)
            place_job(self.after_evictions, job, demand)
        self.making_room_for.add(job.job)
        if not self.leaving:
            return  # room exists, something else keeps it
        self.making_room[job.job, job.choice] = Refusal("making_room", {"n": len(victims) or len(self.leaving)})
        self.plan.evictions += [Eviction(victim.job, reason, job.job) for victim in victims]

    def record_start(self, placement: Placement, job: WaitingJob) -> None:
        """Record a start whose resources are already taken."""
        self.plan.starts.append(placement)
        self.reservation_plan.record_start(placement, job)
        if job.choice >= 0:
            self._leave_other_lines(job)

    def _leave_other_lines(self, job: WaitingJob) -> None:
        """Let a job that starts wait in no other pool."""
        self.started_elsewhere.add(job.job)
        if self.reservation_plan.is_first_in_line(job):
            self.plan.given_up[job.job] = self.reservation_plan.drop(job.job)

    def is_waiting(self, job: WaitingJob) -> bool:
        """Check that the job has not started in another pool."""
        return job.choice < 0 or job.job not in self.started_elsewhere

    def list_jobs_in_line(self) -> list[WaitingJob]:
        """Return the jobs that wait for capacity, in order."""
        return self.job_rows.jobs_at(self.waiting.rows[: self.waiting.in_line].tolist())

    def _cached_until_change(self, question: tuple, ask: Callable[[], Any]) -> Any:
        """Return the cached answer; recompute it once the snapshot changed."""
        if self._answered_at != self.snapshot.version:
            self._answered_at, self._answers = self.snapshot.version, {}
        if question not in self._answers:
            self._answers[question] = ask()
        return self._answers[question]
