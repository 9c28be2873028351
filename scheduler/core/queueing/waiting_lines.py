"""Lines of jobs that wait for capacity; the first get reservations, and equal jobs are asked about once."""

from dataclasses import dataclass

import numpy as np

from scheduler.core.model.types import Refusal, WaitingJob
from scheduler.core.queueing.cycle_context import Cycle, JobClass, WaitingRecords
from scheduler.core.queueing.job_rows import JobColumns
from scheduler.core.queueing.priority_order import EqualJobs, Turn
from scheduler.core.queueing.reservations import NO_STAY, Stay
from scheduler.core.quota.limits import find_limited_users

MAX_OWNER_RESERVATIONS = 64
"""Reservations per line while room is being made, for jobs within their team's guarantee."""
BLOCKED = -1
"""The line of jobs that wait for something other than capacity."""


class Line:
    """Jobs of one pool and claim. number: of all lines in order."""

    def __init__(self, number: int, pool: int, claim: int):
        self.number = number
        self.pool = pool
        self.claim = claim
        self.joined = 0


class WaitingLines:
    """Jobs set aside: in lines by pool and claim, a bit mask over kinds of cards, or blocked by something else."""

    def __init__(self, cycle: Cycle):
        self._cycle = cycle
        self._cpu = 1 << len(cycle.snapshot.kind_names)
        usual = max(own.reservations for own in cycle.policy.pools or (cycle.policy,))
        self.most_reserved = max(usual, MAX_OWNER_RESERVATIONS)
        """How many of a line may get reservations at most."""
        self._lines: dict[tuple[int, int], Line] = {}
        """{(pool, claim): line}."""
        self._line_of: dict[tuple[int, int], Line] = {}
        """{(identity of a shape, milli left beyond its cheapest cards): line}."""
        self._began = 0
        """How many turns were over when the current order began."""
        self._at = self._row = 0
        """Of whose turn it is."""
        self._single: list[tuple[int, int, int]] = []
        self._followers: list[np.ndarray] = []
        """[3, n] turn, row and outcome of jobs set aside: about which was decided, and that do as such a one."""
        self._outcomes: list[tuple[list[Refusal], int]] = []
        """Why a job waits, and the number of its line or BLOCKED."""

    def end_order(self, turns: int) -> None:
        """Let another order of so many turns be over."""
        self._began += turns

    def begin_turn(self, turn: Turn) -> None:
        self._at, self._row = self._began + turn.at, turn.row

    def block(self, refusals: list[Refusal]) -> None:
        """Set aside whose turn it is, for something other than capacity."""
        self._record(refusals, BLOCKED)

    def join(self, line: Line, refusals: list[Refusal]) -> int:
        """Let whose turn it is wait for capacity; return how many are before it in its line."""
        self._record(refusals, line.number)
        line.joined += 1
        return line.joined - 1

    def _record(self, refusals: list[Refusal], line: int) -> None:
        self._single.append((self._at, self._row, len(self._outcomes)))
        self._outcomes.append((refusals, line))

    def repeat(self, outcome: int, line: Line | None) -> None:
        """Set aside whose turn it is as another job was."""
        self._single.append((self._at, self._row, outcome))
        if line:
            line.joined += 1

    def find_outcome(self) -> int | None:
        """Return the outcome of the current turn, None if it was not set aside."""
        return self._single[-1][2] if self._single and self._single[-1][0] == self._at else None

    def is_blocked(self, outcome: int) -> bool:
        return self._outcomes[outcome][1] == BLOCKED

    def note_followers(self, at: np.ndarray, row: np.ndarray, outcome: np.ndarray) -> None:
        """Set jobs aside as others were, at these turns of the current order."""
        self._followers.append(np.stack((self._began + at, row, outcome)))
        lines = np.array([line for _, line in self._outcomes])[outcome]
        for line in self._lines.values():
            line.joined += int((lines == line.number).sum())

    def line_of(self, job: WaitingJob, shape: JobClass) -> Line:
        """Return the line of jobs that wait for the same kinds of cards."""
        spare = self._cycle.spare_milli(job)
        if (id(shape), spare) not in self._line_of:
            claim = self._claim_of(shape.demand.affordable_kinds(spare))
            new = Line(len(self._lines), job.pool, claim)
            self._line_of[id(shape), spare] = self._lines.setdefault((job.pool, claim), new)
        return self._line_of[id(shape), spare]

    def _claim_of(self, kinds: tuple[int, ...]) -> int:
        claim = 0
        for mask in kinds:
            claim |= mask or self._cpu
        return claim

    def list_waiting(self) -> WaitingRecords:
        """Return all that were set aside and did not start in another pool."""
        singles = np.array(self._single, dtype=np.int64).reshape(-1, 3).T
        turn, row, outcome = np.concatenate((singles, *self._followers), axis=1)
        line = np.array([line for _, line in self._outcomes], dtype=np.int64)[outcome]
        order = np.lexsort((turn, line == BLOCKED))
        row, outcome, line = row[order], outcome[order], line[order]
        ahead = self._count_ahead(line)
        elsewhere = list(self._cycle.started_elsewhere)
        keep = ~np.isin(self._cycle.job_rows.integers_at(row)["number"], elsewhere)
        in_line = int((line[keep] != BLOCKED).sum())
        return WaitingRecords(row[keep], outcome[keep], [why for why, _ in self._outcomes], ahead[keep], in_line)

    def _count_ahead(self, of_line: np.ndarray) -> np.ndarray:
        """Return how many joined lines with overlapping claims before each; none before who is blocked."""
        ahead = np.zeros(len(of_line), dtype=np.int64)
        for line in self._lines.values():
            own = of_line == line.number
            overlapping = [o.pool == line.pool and bool(o.claim & line.claim) for o in self._lines.values()]
            ahead += np.where(np.array([*overlapping, False])[of_line], own.cumsum() - own, 0)
        return ahead


def join_line(cycle: Cycle, lines: WaitingLines, job: WaitingJob, shape: JobClass, line: Line) -> None:
    """Queue the job for capacity, with a reservation if near the head."""
    for_cells = shape.cells_blocked_from and shape.cell_refusals(job, cycle.stay_of(job))
    before = lines.join(line, for_cells or shape.blocked_by)
    if before < lines.most_reserved and before < _reservation_limit(cycle, job):
        keep = cycle.cell_constraint(job, shape.demand)
        cycle.reservation_plan.reserve(job, shape.demand, keep, drains=cycle.may_drain(job))
    elif not cycle.cycle_memo.explains and shape.blocked_from == NO_STAY and not cycle.snapshot.windows:
        same = shape.demand.costs_the_same  # else another may claim other kinds
        shape.skips_line = same and cycle.policy.for_pool(job.pool).stop_longer is None


def _reservation_limit(cycle: Cycle, job: WaitingJob) -> int:
    """Return how many jobs of the line get reservations; more while owners are being served."""
    usual = cycle.policy.for_pool(job.pool).reservations
    return max(usual, MAX_OWNER_RESERVATIONS) if usual and cycle.leaving and cycle.is_within_guarantee(job) else usual


@dataclass(frozen=True)
class Result:
    """What was decided about a job. outcome: None if it was left out. shape, line: if it waits for capacity."""

    outcome: int | None
    shape: JobClass | None = None
    line: Line | None = None


class EqualJobResults(EqualJobs):
    """What was decided about jobs, for equal ones after them, until somebody takes something."""

    def __init__(self, cycle: Cycle, lines: WaitingLines):
        self._cycle = cycle
        self._lines = lines
        self._first_in_several = cycle.reservation_plan.first_in_several
        self._version = -1
        self._results: dict[int, Result] = {}
        """{number of equal jobs: what holds for all}, of the version."""

    def group(self, jobs: JobColumns, chosen: np.ndarray) -> np.ndarray:
        """Return the same number for equal jobs of a team, unless their user's limits matter."""
        shape, user = jobs.shape[chosen], jobs.user[chosen]
        of_team = np.zeros(len(chosen), dtype=bool)
        for at in np.unique(shape, return_index=True)[1].tolist():
            same = (shape == shape[at]).nonzero()[0]
            demand = self._cycle.job_class(jobs.jobs[chosen[at]]).demand
            if demand.costs_the_same:  # else who has more left may use dearer cards
                of_team[same] = ~find_limited_users(self._cycle.snapshot, demand)[user[same]]
        return np.where(of_team, jobs.team_alike[chosen], jobs.alike[chosen])

    def is_single(self, number: int) -> bool:
        return number in self._first_in_several

    def list_single(self) -> list[int]:
        return [*self._first_in_several, *self._cycle.started_elsewhere]

    def follow(self, alike: int) -> bool:
        known = self._recall(alike)
        return known is not None and (known.line is None or known.line.joined >= self._lines.most_reserved)

    def note_followers(self, at: np.ndarray, row: np.ndarray, alike: np.ndarray) -> None:
        numbers, which = np.unique(alike, return_inverse=True)
        results = [self._results[number].outcome for number in numbers.tolist()]
        outcome = np.array([-1 if result is None else result for result in results], dtype=np.int64)[which]
        waits = outcome >= 0
        self._lines.note_followers(at[waits], row[waits], outcome[waits])

    def reuse(self, turn: Turn) -> bool:
        """Treat the job like an equal one before it; False if there was none."""
        known = self._recall(turn.alike)
        if known is None or turn.number in self._first_in_several:
            return False
        if known.shape and known.line and known.line.joined < self._lines.most_reserved:
            join_line(self._cycle, self._lines, turn.job, known.shape, known.line)
        elif known.outcome is not None:
            self._lines.repeat(known.outcome, known.line)
        return True

    def _recall(self, alike: int) -> Result | None:
        """Return what holds for equal jobs, unless somebody took something since."""
        if self._version != self._cycle.snapshot.version:
            self._version, self._results = self._cycle.snapshot.version, {}
        return self._results.get(alike)

    def remember_result(self, turn: Turn) -> None:
        """Remember the result of a waiting job for equal ones."""
        cycle, lines, job = self._cycle, self._lines, turn.job
        if self._version != cycle.snapshot.version:
            return
        outcome, shape = lines.find_outcome(), cycle.job_class(job)
        if outcome is None:
            if shape.skips_line:
                self._results[turn.alike] = Result(None)
        elif lines.is_blocked(outcome):
            self._results[turn.alike] = Result(outcome)
        elif not shape.skips_line:
            passing = cycle.policy.for_pool(job.pool).stop_longer is not None
            if shape.is_blocked(Stay(cycle.now) if passing else cycle.stay_of(job)):
                self._results[turn.alike] = Result(outcome, shape, lines.line_of(job, shape))
