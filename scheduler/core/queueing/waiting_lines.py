"""Lines of jobs that wait for capacity; the first get reservations, and equal jobs are asked about once."""

from collections.abc import Sequence
from math import inf

import numpy as np

from scheduler.core.model.types import GPU_MILLI, Refusal, WaitingJob
from scheduler.core.queueing.cycle_context import Cycle, JobClass

MAX_OWNER_RESERVATIONS = 64
"""Reservations per line while room is being made, for jobs within their team's guarantee."""


class Line:
    """Jobs of one pool and claim. number: of all lines in order."""

    def __init__(self, number: int, pool: int, claim: int):
        self.number = number
        self.pool = pool
        self.claim = claim
        self.joined = 0


class WaitingLines:
    """Lines by pool and claim, a bit mask over kinds of cards."""

    def __init__(self, cycle: Cycle):
        self._cycle = cycle
        self._cpu = 1 << len(cycle.snapshot.kind_names)
        usual = max(own.reservations for own in cycle.policy.pools or (cycle.policy,))
        self.most_reserved = max(usual, MAX_OWNER_RESERVATIONS)
        """How many of a line may get reservations at most."""
        self._lines: dict[tuple[int, int], Line] = {}

    def line_of(self, job: WaitingJob, shape: JobClass) -> Line:
        """Return the line of jobs that wait for the same kinds of cards."""
        claim = self._claim_of(shape.demand.affordable_kinds(self._cycle.spare_milli(job)))
        if (job.pool, claim) not in self._lines:
            self._lines[job.pool, claim] = Line(len(self._lines), job.pool, claim)
        return self._lines[job.pool, claim]

    def count_ahead(self, joined: Sequence[int]) -> np.ndarray:
        """Return of each job that joined a line, by the line's number, how many joined lines with overlapping claims
        before it.
        """
        of_line = np.array(joined, dtype=np.int64)
        ahead = np.zeros(len(of_line), dtype=np.int64)
        for line in self._lines.values():
            own = of_line == line.number
            overlapping = [o.pool == line.pool and bool(o.claim & line.claim) for o in self._lines.values()]
            ahead += np.where(np.array(overlapping)[of_line], own.cumsum() - own, 0)
        return ahead

    def _claim_of(self, kinds: tuple[int, ...]) -> int:
        claim = 0
        for mask in kinds:
            claim |= mask or self._cpu
        return claim


def join_line(cycle: Cycle, lines: WaitingLines, job: WaitingJob, shape: JobClass, line: Line) -> None:
    """Queue the job for capacity, with a reservation if near the head."""
    before, line.joined = line.joined, line.joined + 1
    for_cells = shape.cells_blocked_from and shape.cell_refusals(job, cycle.stays_until(job))
    cycle.in_line.add(cycle.job_rows.row_of(job), for_cells or shape.blocked_by, line.number)
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


class EqualJobResults:
    """What was decided about jobs, for equal ones after them, until somebody takes something."""

    def __init__(self, cycle: Cycle, lines: WaitingLines):
        self._cycle = cycle
        self._lines = lines
        self._first_in_several = cycle.reservation_plan.first_in_several
        self._version = -1
        self._results: dict[int, list[Refusal] | tuple[JobClass, Line]] = {}
        """{number of equal jobs: why they wait, or the line that they join}."""

    def reuse(self, job: WaitingJob, alike: int, row: int, number: int) -> bool:
        """Treat the job like an equal one before it; False if there was none."""
        cycle = self._cycle
        if self._version != cycle.snapshot.version:
            self._version, self._results = cycle.snapshot.version, {}
        known = self._results.get(alike)
        if known is None or number in self._first_in_several:
            return False
        if isinstance(known, list):
            cycle.blocked.add(row, known)
            return True
        shape, line = known
        if line.joined < self._lines.most_reserved or shape.cells_blocked_from or not cycle.cycle_memo.explains:
            join_line(cycle, self._lines, job, shape, line)
        else:
            line.joined += 1
            cycle.in_line.add(row, shape.blocked_by, line.number)
        return True

    def remember_result(self, job: WaitingJob, alike: int, row: int) -> None:
        """Remember the result of a waiting job for equal ones."""
        cycle = self._cycle
        if self._version != cycle.snapshot.version:
            return
        if cycle.blocked.is_last(row):
            self._results[alike] = cycle.blocked.why[-1]
        elif cycle.in_line.is_last(row):
            shape, passing = cycle.job_class(job), cycle.policy.for_pool(job.pool).stop_longer is not None
            if not shape.skips_line and shape.is_blocked(cycle.now if passing else cycle.stays_until(job)):
                self._results[alike] = shape, self._lines.line_of(job, shape)
