"""Start queued jobs in priority order, with EASY backfilling around several reservations.

Jobs within their team's guarantee come first. Jobs that wait for their own limits hold up nobody; those that wait for
capacity stand in line, and the first get reservations (`Policy.reservations`).

A job that waits in several pools stands in the line of each, as if it waited there alone, and may hold a reservation in
each, so that nobody overtakes it anywhere. It starts in the pool that it prefers of those where its turn has come.
"""

from collections.abc import Iterator
from functools import cached_property
from math import inf, isfinite

import numpy as np

from scheduler.core.model.demand import find_largest_role
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.types import Placement, Refusal, WaitingJob
from scheduler.core.placement.gang_placement import place_gang
from scheduler.core.placement.shortfall import Shortfall, explain_shortfall
from scheduler.core.queueing.cycle_context import Cycle, JobClass
from scheduler.core.queueing.job_rows import JobColumns
from scheduler.core.queueing.maintenance import build_maintenance_refusal, is_upcoming_maintenance
from scheduler.core.queueing.priority_order import order_jobs
from scheduler.core.queueing.release_times import UNKNOWN_S
from scheduler.core.queueing.reservations import MAINTENANCE_JOB, NO_STAY, Stay
from scheduler.core.queueing.waiting_lines import EqualJobResults, WaitingLines, join_line
from scheduler.core.quota.limits import hold_refusals
from scheduler.core.quota.whole_node_guarantees import CellConstraint


def start_waiting_jobs(cycle: Cycle) -> None:
    """Start jobs that disturb nobody, and set the others aside, in order."""
    lines = WaitingLines(cycle)
    owners, borrowers = _split_by_guarantee(cycle)
    beyond: list[WaitingJob] = []
    for job in _list_undecided(cycle, owners, lines):
        if cycle.is_within_guarantee(job):
            _start_or_queue(cycle, lines, job, cycle.job_class(job), [])
        else:
            beyond.append(job)
    if beyond:
        borrowers = cycle.job_rows.columns_of([*borrowers.jobs, *beyond])
    for job in _list_undecided(cycle, borrowers, lines):
        shape = cycle.job_class(job)
        if not shape.skips_line:
            _start_or_queue(cycle, lines, job, shape, cycle.borrow_refusals(job))
    if cycle.cycle_memo.explains:
        for kept in cycle.reservation_plan.reservations:  # the earliest first
            if kept.job != MAINTENANCE_JOB and isfinite(kept.at):
                cycle.plan.reserved_at.setdefault(kept.job, kept.at)
            if kept.by is not None and kept.by < UNKNOWN_S:
                cycle.plan.starts_by[kept.job] = kept.by
    cycle.waiting = lines.list_waiting()


def _list_undecided(cycle: Cycle, jobs: JobColumns, lines: WaitingLines) -> Iterator[WaitingJob]:
    """Yield jobs in order, without those that started elsewhere or wait as an equal one before them."""
    known, choices = EqualJobResults(cycle, lines), PreferredPools(cycle, jobs)
    for turn in order_jobs(cycle.snapshot, jobs, cycle.policy, cycle.now, choices, known):
        if turn.number in choices.unsettled:
            choices.note_turn(turn.job)
        lines.begin_turn(turn)
        if turn.number not in cycle.started_elsewhere and not known.reuse(turn):
            yield turn.job
            known.remember_result(turn)
    lines.end_order(len(jobs.jobs))


class PreferredPools:
    """Records of jobs that wait in several pools, whose turn has not come yet."""

    def __init__(self, cycle: Cycle, jobs: JobColumns):
        self._cycle = cycle
        self._jobs = jobs
        self._came: set[tuple[int, int]] = set()
        """{(job, choice)} whose turn came."""
        several = (jobs.choice >= 0).nonzero()[0]
        _, first = np.unique(jobs.shape[several], return_index=True)
        self._open: list[int] = several[np.sort(first)].tolist()
        """The place of a record of each shape that still fitted somewhere when last looked at."""
        self._looked_at = -1
        self.unsettled: set[int] = set(jobs.number[several].tolist())
        """Jobs of such shapes."""

    @cached_property
    def _by_job(self) -> tuple[np.ndarray, np.ndarray]:
        """Places of all records, by job, and the job of each."""
        order = self._jobs.number.argsort(kind="stable")
        return order, self._jobs.number[order]

    def _records_of(self, number: int) -> list[WaitingJob]:
        order, numbers = self._by_job
        first, end = numbers.searchsorted((number, number + 1))
        return [self._jobs.jobs[at] for at in order[first:end].tolist()]

    def list_unsettled(self) -> set[int]:
        """Return the jobs that wait in several pools and have a shape that still fits somewhere.

        Within a cycle, room only shrinks.
        """
        version = self._cycle.snapshot.version
        if self._open and self._looked_at != version:
            self._looked_at = version
            still = [at for at in self._open if self._still_fits(self._jobs.jobs[at])]
            if len(still) < len(self._open):
                self._open = still
                suits = np.isin(self._jobs.shape, self._jobs.shape[still]) & (self._jobs.choice >= 0)
                self.unsettled = set(self._jobs.number[suits].tolist())
        return self.unsettled

    def _still_fits(self, job: WaitingJob) -> bool:
        shape = self._cycle.job_class(job)
        return shape.blocked_from != NO_STAY and _find_room(self._cycle, job, shape)[1]

    def depends(self, job: WaitingJob) -> bool:
        """Check whether the job may still start in a pool that it prefers to this one."""
        return (
            job.job in self.list_unsettled()
            and self._cycle.is_waiting(job)
            and any(
                other.choice < job.choice
                and (other.job, other.choice) not in self._came
                and _may_start(self._cycle, other)
                for other in self._records_of(job.job)
            )
        )

    def note_turn(self, job: WaitingJob) -> None:
        """Note that the record's turn has come."""
        self._came.add((job.job, job.choice))


def _may_start(cycle: Cycle, job: WaitingJob) -> bool:
    """Check whether the job could start if its turn came now."""
    shape = cycle.job_class(job)
    if shape.blocked_from == NO_STAY or hold_refusals(job, cycle.now) or cycle.limit_refusals(job):
        return False
    if cycle.borrow_refusals(job) and not cycle.is_within_guarantee(job) and not cycle.guest_class(job):
        return False
    return not shape.is_blocked(_reckoned_stay(cycle, job)) and not _fits_nowhere(cycle, job, shape)


def _reckoned_stay(cycle: Cycle, job: WaitingJob) -> Stay:
    """Return the job's stay, none if it may delay reservations."""
    return Stay(cycle.now) if cycle.may_delay_reservations(job) else cycle.stay_of(job)


def _split_by_guarantee(cycle: Cycle) -> tuple[JobColumns, JobColumns]:
    """Split the queue into (within the team's guarantee, others)."""
    queue = cycle.job_rows.columns_of(cycle.snapshot.waiting)
    _, first, alike = np.unique(queue.team_alike, return_index=True, return_inverse=True)
    within = np.array([cycle.is_within_guarantee(queue.jobs[at]) for at in first.tolist()], dtype=bool)[alike]
    return queue.take(within), queue.take(~within)


def _start_or_queue(
    cycle: Cycle, lines: WaitingLines, job: WaitingJob, shape: JobClass, borrow_refusals: list[Refusal]
) -> None:
    """Start the job, block it, or queue it for capacity."""
    refusals = hold_refusals(job, cycle.now) + cycle.limit_refusals(job)
    if not refusals and borrow_refusals and (placement := _place_on_lent_cards(cycle, job)):
        cycle.record_start(placement, job)
    elif refusals:
        lines.block(refusals + borrow_refusals)
    elif borrow_refusals:
        lines.block(_shortfall_beside_borrowing(cycle, job, shape) + borrow_refusals)
    elif placement := _place_without_delay(cycle, job, shape):
        cycle.record_start(placement, job)
    elif never := cycle.infeasible_refusals(job):
        lines.block(list(never))
    elif (kept := shape.cell_refusals(job, cycle.stay_of(job))) and not cycle.is_within_guarantee(job):
        lines.block(kept)
    else:
        join_line(cycle, lines, job, shape, lines.line_of(job, shape))


def _shortfall_beside_borrowing(cycle: Cycle, job: WaitingJob, shape: JobClass) -> list[Refusal]:
    """Return what would keep a job that may not borrow, too: no free resources are called promised where none are free.

    Nothing where a `time` would help, since that alone would not.
    """
    if not cycle.cycle_memo.explains:
        return []
    view, kinds = cycle.reservation_plan.view_until(cycle.stay_of(job)), shape.demand.kinds
    for role, suits in zip(job.gang, kinds, strict=True):
        if role.min and view.score_table.best_node(role.ask, job.pool, suits, shape.demand.reach)[1] < 0:
            _place_without_delay(cycle, job, shape)
            return [why for why in shape.blocked_by if not _is_ended_by_time(why)]
    return []


def _is_ended_by_time(refusal: Refusal) -> bool:
    return refusal.reason == "reserved_for_larger" or is_upcoming_maintenance(refusal)


def _place_on_lent_cards(cycle: Cycle, job: WaitingJob) -> Placement | None:
    """Place the job on lent cards only, which count against no guarantee."""
    shape = cycle.guest_class(job)
    return _place_without_delay(cycle, job, shape) if shape else None


def _place_without_delay(cycle: Cycle, job: WaitingJob, shape: JobClass) -> Placement | None:
    """Place the job where it delays no reservation, or record that there is no such place."""
    stay = _reckoned_stay(cycle, job)
    if _is_known_blocked(cycle, job, shape, stay) or shape.cell_refusals(job, cycle.stay_of(job)):
        return None
    spare, keep = cycle.spare_milli(job), cycle.cell_constraint(job, shape.demand)
    kinds = shape.demand.affordable_kinds(spare)
    if (
        cycle.reservation_plan.has_pending()
        and not keep
        and kinds == shape.demand.kinds
        and _fits_nowhere(cycle, job, shape)
    ):
        return None  # without computing pending reservations
    view = cycle.reservation_plan.view_for(job, stay)
    result = place_gang(view.snapshot, view.score_table, job, shape.demand, kinds, spare, keep)
    if isinstance(result, Placement):
        if view is not cycle.present_view:
            cycle.snapshot.allocate(result, job)
        return result
    if keep and _fits_without_cells(keep, cycle, job, shape, kinds, spare):
        shape.cells_blocked_from[job.team] = stay, [keep.refusal()]
        return None
    if kinds == shape.demand.kinds:
        shape.blocked_from = NO_STAY if view is cycle.present_view else stay
    if not cycle.cycle_memo.explains:
        return None
    if view is not cycle.present_view:
        result = place_gang(cycle.snapshot, cycle.present_view.score_table, job, shape.demand, kinds, spare)
    if isinstance(result, Placement):
        cycle.snapshot.release(result, job)
        shape.blocked_by = _maintenance_refusals(cycle, job, shape, kinds, spare) or [_kept_refusal(cycle, stay)]
    else:
        shape.blocked_by = explain_shortfall(cycle.snapshot, job, result)
    return None


def _is_known_blocked(cycle: Cycle, job: WaitingJob, shape: JobClass, stay: Stay) -> bool:
    """Check whether such jobs do not fit; what kept others may be a reservation of this one's in another pool."""
    own = shape.blocked_from != NO_STAY and cycle.reservation_plan.is_first_in_line(job)
    return shape.is_blocked(stay) and not own


def _fits_nowhere(cycle: Cycle, job: WaitingJob, shape: JobClass) -> bool:
    """Check whether the largest task fits nowhere, even without reservations."""
    request, fits = _find_room(cycle, job, shape)
    if fits:
        return False
    shape.blocked_from = NO_STAY
    if cycle.cycle_memo.explains:
        shape.blocked_by = explain_shortfall(cycle.snapshot, job, Shortfall(0, request))
    return True


def _find_room(cycle: Cycle, job: WaitingJob, shape: JobClass) -> tuple[RequestClass, bool]:
    """Return (request of the largest task, whether it fits somewhere)."""
    index = find_largest_role(job.gang)
    role, kinds = job.gang[index], shape.demand.kinds[index]
    request, node = cycle.present_view.score_table.best_node(role.ask, job.pool, kinds, shape.demand.reach)
    return request, node >= 0 or not role.min


def _fits_without_cells(
    cell_constraint: CellConstraint, cycle: Cycle, job: WaitingJob, shape: JobClass, kinds: tuple[int, ...], spare: int
) -> bool:
    view = cycle.reservation_plan.view_until(cycle.stay_of(job))
    result = place_gang(view.snapshot, view.score_table, job, shape.demand, kinds, spare)
    if not isinstance(result, Placement):
        return False
    view.snapshot.release(result, job)
    return True


def _maintenance_refusals(
    cycle: Cycle, job: WaitingJob, shape: JobClass, kinds: tuple[int, ...], spare: int
) -> list[Refusal]:
    """Return refusals if only maintenance keeps the job from starting."""
    closings = cycle.reservation_plan.maintenance_before(cycle.stays_until(job))
    if not closings:
        return []
    closed = [task for closing in closings for task in closing.placement.tasks]
    for task in closed:
        cycle.snapshot.allocate_task(task)
    result = place_gang(cycle.snapshot, cycle.present_view.score_table, job, shape.demand, kinds, spare)
    if isinstance(result, Placement):
        cycle.snapshot.release(result, job)
        refusals = []
    else:
        # Only this: what would be free without those machines stands beside numbers of what is free now.
        refusals = [build_maintenance_refusal(cycle.snapshot, job, closings, cycle.now)]
    for task in closed:
        cycle.snapshot.release_task(task)
    return refusals


def _kept_refusal(cycle: Cycle, stay: Stay) -> Refusal:
    """Return the refusal for room reserved before the job would end, or drained and thus closed to it."""
    kept = [one for one in cycle.reservation_plan.reservations if one.job != MAINTENANCE_JOB]
    closed = None if kept and kept[0].at < stay.ends_at else next((one for one in kept if one.is_closed_to(stay)), None)
    at = closed.at if closed else kept[0].at if kept else inf
    told = {"at": at} if isfinite(at) else {}
    return Refusal("reserved_for_larger", told | {"drained": True} if closed else told)
