"""Start queued jobs in priority order, with EASY backfilling around several reservations.

Jobs within their team's guarantee come first. Jobs that wait for their own limits hold up nobody; those that wait for
capacity stand in line, and the first get reservations (`Policy.reservations`).

A job that waits in several pools stands in the line of each, as if it waited there alone, and may hold a reservation in
each, so that nobody overtakes it anywhere. It starts in the pool that it prefers of those where its turn has come.
"""

from collections import Counter, defaultdict
from math import inf, isfinite

from scheduler.core.model.types import GPU_MILLI, Placement, Refusal, WaitingJob
from scheduler.core.placement.gang_placement import place_gang, task_size
from scheduler.core.placement.shortfall import Shortfall, explain_shortfall
from scheduler.core.queueing.cycle_context import Cycle, JobClass
from scheduler.core.queueing.maintenance import build_maintenance_refusal, is_upcoming_maintenance
from scheduler.core.queueing.priority_order import order_jobs
from scheduler.core.queueing.reservations import MAINTENANCE_JOB
from scheduler.core.quota.limits import hold_refusals
from scheduler.core.quota.whole_node_guarantees import CellConstraint

MAX_OWNER_RESERVATIONS = 64
"""Reservations per line while room is being made, for jobs within their team's guarantee."""


def start_waiting_jobs(cycle: Cycle) -> list[WaitingJob]:
    """Start jobs that disturb nobody, and return those that wait for capacity, in order."""
    usual = max(own.reservations for own in cycle.policy.pools or (cycle.policy,))
    lines = WaitingLines(len(cycle.snapshot.kind_names), max(usual, MAX_OWNER_RESERVATIONS))
    waiting: list[WaitingJob] = []
    owners, borrowers = _split_by_guarantee(cycle)
    known, choices = EqualJobResults(cycle, lines, waiting), PreferredPools(cycle, owners)
    for job in order_jobs(cycle.snapshot, owners, cycle.policy, cycle.now, choices.may_start_first):
        if choices.is_started(job) or known.reuse(job):
            continue
        if not cycle.is_within_guarantee(job):
            borrowers.append(job)
        elif not _start_or_block(cycle, lines, job, cycle.job_class(job), []):
            waiting.append(job)
        known.remember_result(job)
    known, choices = EqualJobResults(cycle, lines, waiting), PreferredPools(cycle, borrowers)
    for job in order_jobs(cycle.snapshot, borrowers, cycle.policy, cycle.now, choices.may_start_first):
        if choices.is_started(job) or known.reuse(job):
            continue
        shape = cycle.job_class(job)
        if shape.skips_line:
            cycle.set_refusals(job, [])
        elif not _start_or_block(cycle, lines, job, shape, cycle.borrow_refusals(job)):
            waiting.append(job)
        known.remember_result(job)
    if cycle.cycle_memo.explains:
        for kept in cycle.reservation_plan.reservations:  # the earliest first
            if kept.job != MAINTENANCE_JOB and isfinite(kept.at):
                cycle.plan.reserved_at.setdefault(kept.job, kept.at)
    if cycle.started_elsewhere:
        cycle.blocked = [job for job in cycle.blocked if cycle.is_waiting(job)]
        waiting = [job for job in waiting if cycle.is_waiting(job)]
    return waiting


class PreferredPools:
    """Records of jobs that wait in several pools, whose turn has not come yet."""

    def __init__(self, cycle: Cycle, jobs: list[WaitingJob]):
        self._cycle = cycle
        self._records: defaultdict[int, list[WaitingJob]] = defaultdict(list)
        self._to_come: dict[int, int] = {}
        """{job: bit mask of its choices}."""
        for job in jobs:
            if job.choice >= 0:
                self._records[job.job].append(job)
                self._to_come[job.job] = self._to_come.get(job.job, 0) | 1 << job.choice
        self._alike = {(id(job.gang), job.pool): job for records in self._records.values() for job in records}
        """A record of each shape in each pool."""
        self._looked_at = -1
        self._all_full = False

    def may_start_first(self, job: WaitingJob) -> bool:
        """Check whether the job may still start in a pool that it prefers to this one."""
        if self._is_full():
            return False
        to_come = self._to_come[job.job]
        if not to_come & ((1 << job.choice) - 1):
            return False
        return self._cycle.is_waiting(job) and any(
            other.choice < job.choice and to_come >> other.choice & 1 and _may_start(self._cycle, other)
            for other in self._records[job.job]
        )

    def _is_full(self) -> bool:
        """Check whether nothing of any shape fits anywhere any more. Within a cycle, room only shrinks."""
        version = self._cycle.snapshot.version
        if not self._all_full and self._looked_at != version:
            self._looked_at = version
            shapes = ((job, self._cycle.job_class(job)) for job in self._alike.values())
            self._all_full = all(
                shape.blocked_from == -inf or _fits_nowhere(self._cycle, job, shape) for job, shape in shapes
            )
        return self._all_full

    def is_started(self, job: WaitingJob) -> bool:
        """Note that the record's turn has come; True if the job has started in another pool."""
        if job.choice < 0:
            return False
        self._to_come[job.job] &= ~(1 << job.choice)
        return job.job in self._cycle.started_elsewhere


def _may_start(cycle: Cycle, job: WaitingJob) -> bool:
    """Check whether the job could start if its turn came now."""
    shape = cycle.job_class(job)
    if shape.blocked_from == -inf or hold_refusals(job, cycle.now) or cycle.limit_refusals(job):
        return False
    if cycle.borrow_refusals(job) and not cycle.is_within_guarantee(job) and not cycle.guest_class(job):
        return False
    ends_at = cycle.now if cycle.may_delay_reservations(job) else cycle.stays_until(job)
    return not shape.is_blocked(ends_at) and not _fits_nowhere(cycle, job, shape)


class EqualJobResults:
    def __init__(self, cycle: Cycle, lines: "WaitingLines", waiting: list[WaitingJob]):
        self._cycle = cycle
        self._lines = lines
        self._waiting = waiting
        self._version = -1
        self._results: dict[tuple, list[Refusal] | tuple[JobClass, int]] = {}

    def reuse(self, job: WaitingJob) -> bool:
        """Treat the job like an equal one before it; False if there was none."""
        cycle = self._cycle
        if self._version != cycle.snapshot.version:
            self._version, self._results = cycle.snapshot.version, {}
        known = self._results.get(_equal_job_key(job))
        if known is None or (job.choice >= 0 and cycle.reservation_plan.is_first_in_line(job)):
            return False
        if isinstance(known, list):
            cycle.block(job, known)
        else:
            _join_line(cycle, self._lines, job, *known)
            self._waiting.append(job)
        return True

    def remember_result(self, job: WaitingJob) -> None:
        """Remember the result of a waiting job for equal ones."""
        cycle = self._cycle
        if self._version != cycle.snapshot.version:
            return
        if cycle.blocked and cycle.blocked[-1] is job:
            self._results[_equal_job_key(job)] = cycle.refusals_of(job)
        elif self._waiting and self._waiting[-1] is job:
            shape, passing = cycle.job_class(job), cycle.policy.for_pool(job.pool).stop_longer is not None
            if not shape.skips_line and shape.is_blocked(cycle.now if passing else cycle.stays_until(job)):
                kinds = shape.demand.affordable_kinds(cycle.spare_milli(job))
                self._results[_equal_job_key(job)] = shape, self._lines.claim_of(kinds)


def _equal_job_key(job: WaitingJob) -> tuple:
    """Return a key shared by equal jobs. Comparing gangs is slow, so by identity."""
    wishes = job.held, job.not_before, job.preemptible, job.time_s
    return id(job.gang), job.pool, job.team, job.user, *wishes


def _split_by_guarantee(cycle: Cycle) -> tuple[list[WaitingJob], list[WaitingJob]]:
    """Split the queue into (within the team's guarantee, others)."""
    within: dict[tuple, bool] = {}
    owners: list[WaitingJob] = []
    borrowers: list[WaitingJob] = []
    for job in cycle.snapshot.waiting:
        alike = _equal_job_key(job)
        if alike not in within:
            within[alike] = cycle.is_within_guarantee(job)
        (owners if within[alike] else borrowers).append(job)
    return owners, borrowers


class WaitingLines:
    """Jobs in line by pool and claim, a bit mask over kinds of cards.

    most_reserved: how many of a claim may get reservations at most.
    """

    def __init__(self, kinds: int, most_reserved: int):
        self._cpu = 1 << kinds
        self.most_reserved = most_reserved
        self._claims: defaultdict[int, Counter[int]] = defaultdict(Counter)

    def join(self, pool: int, claim: int) -> tuple[int, int]:
        """Add a job; return (jobs ahead with overlapping claims, with the same claim)."""
        claims, ahead = self._claims[pool], 0
        for other, count in claims.items():
            if other & claim:
                ahead += count
        before = claims[claim]
        claims[claim] = before + 1
        return ahead, before

    def claim_of(self, kinds: tuple[int, ...]) -> int:
        claim = 0
        for mask in kinds:
            claim |= mask or self._cpu
        return claim


def _start_or_block(
    cycle: Cycle, lines: WaitingLines, job: WaitingJob, shape: JobClass, borrow_refusals: list[Refusal]
) -> bool:
    """Start the job or set it aside; False if it waits for capacity."""
    refusals = hold_refusals(job, cycle.now) + cycle.limit_refusals(job)
    if not refusals and borrow_refusals and (placement := _place_on_lent_cards(cycle, job)):
        cycle.record_start(placement, job)
        return True
    if refusals:
        cycle.block(job, refusals + borrow_refusals)
        return True
    if borrow_refusals:
        cycle.block(job, _shortfall_beside_borrowing(cycle, job, shape) + borrow_refusals)
        return True
    if placement := _place_without_delay(cycle, job, shape):
        cycle.record_start(placement, job)
        return True
    if never := cycle.infeasible_refusals(job):
        cycle.block(job, list(never))
        return True
    if (kept := shape.cell_refusals(job, cycle.stays_until(job))) and not cycle.is_within_guarantee(job):
        cycle.block(job, kept)
        return True
    _join_line(cycle, lines, job, shape, lines.claim_of(shape.demand.affordable_kinds(cycle.spare_milli(job))))
    return False


def _shortfall_beside_borrowing(cycle: Cycle, job: WaitingJob, shape: JobClass) -> list[Refusal]:
    """Return what would keep a job that may not borrow, too: no free resources are called promised where none are free.

    Nothing where a `time` would help, since that alone would not.
    """
    if not cycle.cycle_memo.explains:
        return []
    view, kinds = cycle.reservation_plan.view_until(cycle.stays_until(job)), shape.demand.kinds
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


def _join_line(cycle: Cycle, lines: WaitingLines, job: WaitingJob, shape: JobClass, claim: int) -> None:
    """Queue the job for capacity, with a reservation if near the head."""
    ahead, before = lines.join(job.pool, claim)
    first = [Refusal("ahead_in_queue", {"n": ahead})] if ahead and cycle.cycle_memo.explains else []
    for_cells = shape.cells_blocked_from and shape.cell_refusals(job, cycle.stays_until(job))
    cycle.set_refusals(job, first + (for_cells or shape.blocked_by))
    if before < lines.most_reserved and before < _reservation_limit(cycle, job):
        cycle.reservation_plan.reserve(job, shape.demand, cycle.cell_constraint(job, shape.demand))
    elif not cycle.cycle_memo.explains and shape.blocked_from == -inf and not cycle.snapshot.windows:
        demand = shape.demand
        alike = demand.most[GPU_MILLI] == demand.least[GPU_MILLI]  # else another may claim other kinds
        shape.skips_line = alike and cycle.policy.for_pool(job.pool).stop_longer is None


def _reservation_limit(cycle: Cycle, job: WaitingJob) -> int:
    """Return how many jobs of the line get reservations; more while owners are being served."""
    usual = cycle.policy.for_pool(job.pool).reservations
    return max(usual, MAX_OWNER_RESERVATIONS) if usual and cycle.leaving and cycle.is_within_guarantee(job) else usual


def _place_without_delay(cycle: Cycle, job: WaitingJob, shape: JobClass) -> Placement | None:
    """Place the job where it delays no reservation, or record that there is no such place."""
    stays_until = cycle.stays_until(job)
    ends_at = cycle.now if cycle.may_delay_reservations(job) else stays_until
    if _is_known_blocked(cycle, job, shape, ends_at) or shape.cell_refusals(job, stays_until):
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
    view = cycle.reservation_plan.view_for(job, ends_at)
    result = place_gang(view.snapshot, view.score_table, job, shape.demand, kinds, spare, keep)
    if isinstance(result, Placement):
        if view is not cycle.present_view:
            cycle.snapshot.allocate(result, job)
        return result
    if keep and _fits_without_cells(keep, cycle, job, shape, kinds, spare):
        shape.cells_blocked_from[job.team] = ends_at, [keep.refusal()]
        return None
    if kinds == shape.demand.kinds:
        shape.blocked_from = -inf if view is cycle.present_view else ends_at
    if not cycle.cycle_memo.explains:
        return None
    if view is not cycle.present_view:
        result = place_gang(cycle.snapshot, cycle.present_view.score_table, job, shape.demand, kinds, spare)
    if isinstance(result, Placement):
        cycle.snapshot.release(result, job)
        shape.blocked_by = _maintenance_refusals(cycle, job, shape, kinds, spare) or _reservation_refusals(cycle)
    else:
        shape.blocked_by = explain_shortfall(cycle.snapshot, job, result)
    return None


def _is_known_blocked(cycle: Cycle, job: WaitingJob, shape: JobClass, ends_at: float) -> bool:
    """Check whether such jobs do not fit; what kept others may be a reservation of this one's in another pool."""
    own = shape.blocked_from is not None and shape.blocked_from > -inf and cycle.reservation_plan.is_first_in_line(job)
    return shape.is_blocked(ends_at) and not own


def _fits_nowhere(cycle: Cycle, job: WaitingJob, shape: JobClass) -> bool:
    """Check whether the largest task fits nowhere, even without reservations."""
    asked = zip(job.gang, shape.demand.kinds, strict=True)
    role, kinds = max(asked, key=lambda each: (each[0].min > 0, task_size(each[0])))
    request, node = cycle.present_view.score_table.best_node(role.ask, job.pool, kinds, shape.demand.reach)
    if node >= 0 or not role.min:
        return False
    shape.blocked_from = -inf
    if cycle.cycle_memo.explains:
        shape.blocked_by = explain_shortfall(cycle.snapshot, job, Shortfall(0, request))
    return True


def _fits_without_cells(
    cell_constraint: CellConstraint, cycle: Cycle, job: WaitingJob, shape: JobClass, kinds: tuple[int, ...], spare: int
) -> bool:
    view = cycle.reservation_plan.view_until(cycle.stays_until(job))
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


def _reservation_refusals(cycle: Cycle) -> list[Refusal]:
    """Return the refusal for room reserved before the job would end."""
    at = next((r.at for r in cycle.reservation_plan.reservations if r.job != MAINTENANCE_JOB), inf)
    return [Refusal("reserved_for_larger", {"at": at} if isfinite(at) else {})]
