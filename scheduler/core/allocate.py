"""Go through the waiting jobs in order and start what fits and delays nobody who comes before it.

Two passes: first the jobs that stay within what their team is guaranteed, then the rest, up to the limits; in each by
`order.in_order`, which looks at who holds least while the cycle hands out. What a job means for those behind it:

* Refused by its own limits or wishes (team, user, jobs at once, held, start later), or because it could not be stopped
  for the owners of what it would borrow: it holds up nobody.
* Impossible even on an empty cluster: it holds up nobody.
* Waiting for capacity: it stands in line, and the first of each line keep a place in time (`Policy.reservations`). A
  job behind them starts now where it fits in every moment of its own time: EASY backfilling (Lifka 1995; Mu'alem and
  Feitelson 2001) with several reservations. Without `time` it may run for ever, so it takes what no reservation needs.
"""

from collections import Counter, defaultdict
from math import inf, isfinite

from scheduler.core.context import Cycle, Shape
from scheduler.core.explain import explain_shortfall
from scheduler.core.future import NOBODY
from scheduler.core.keep import Keep
from scheduler.core.maintenance import maintenance_refusal
from scheduler.core.order import in_order
from scheduler.core.place import Shortfall, place, size
from scheduler.core.quota import wish_refusals
from scheduler.core.types import GPU_MILLI, Placement, Refusal, Waiting

OWNERS = 64
"""So many jobs of a line that are within their team's guarantee keep a place while others are being stopped."""


def allocate(cycle: Cycle) -> list[Waiting]:
    """Start what can start without disturbing anybody. Returns the jobs that wait for capacity, first in line first."""
    lines = Lines(len(cycle.snapshot.kind_names))
    waiting: list[Waiting] = []
    owners, borrowers = _by_guarantee(cycle)
    known = Known(cycle, lines, waiting)
    for job in in_order(cycle.snapshot, owners, cycle.policy, cycle.now):
        if known.settles(job):
            continue
        if not cycle.within_guarantee(job):  # those before it have used it up
            borrowers.append(job)
        elif not _settled(cycle, lines, job, cycle.shape(job), []):
            waiting.append(job)
        known.note(job)
    known = Known(cycle, lines, waiting)
    for job in in_order(cycle.snapshot, borrowers, cycle.policy, cycle.now):
        if known.settles(job):
            continue
        shape = cycle.shape(job)
        if shape.passed_over:
            cycle.plan.refusals[job.job] = []
        elif not _settled(cycle, lines, job, shape, cycle.borrowing(job)):
            waiting.append(job)
        known.note(job)
    if cycle.memory.explains:
        reserved = ((kept.job, kept.at) for kept in cycle.future.reservations if kept.job != NOBODY)
        cycle.plan.reserved_at = {job: at for job, at in reserved if isfinite(at)}
    return waiting


class Known:
    """What came of a job comes of all that are alike, as long as nobody takes anything: most of a long line are asked
    once for all.
    """

    def __init__(self, cycle: Cycle, lines: "Lines", waiting: list[Waiting]):
        self._cycle = cycle
        self._lines = lines
        self._waiting = waiting
        self._version = -1
        self._known: dict[tuple, list[Refusal] | tuple[Shape, tuple[int, ...]]] = {}

    def settles(self, job: Waiting) -> bool:
        """Do with the job as with one like it; false where nobody knows of any."""
        cycle = self._cycle
        if self._version != cycle.snapshot.version:
            self._version, self._known = cycle.snapshot.version, {}
        known = self._known.get(_alike(job))
        if known is None:
            return False
        if isinstance(known, list):
            cycle.put_aside(job, known)
        else:
            _stand_in_line(cycle, self._lines, job, *known)
            self._waiting.append(job)
        return True

    def note(self, job: Waiting) -> None:
        """Of a job that waits: what there is to do with those like it."""
        cycle = self._cycle
        if self._version != cycle.snapshot.version or job.job not in cycle.plan.refusals:
            return
        if cycle.aside and cycle.aside[-1] is job:
            self._known[_alike(job)] = cycle.plan.refusals[job.job]
        elif self._waiting and self._waiting[-1] is job:
            shape, passing = cycle.shape(job), cycle.policy.of(job.pool).stop_longer is not None
            if not shape.passed_over and shape.is_blocked(cycle.now if passing else cycle.now + job.time_s):
                self._known[_alike(job)] = shape, shape.demand.affordable(cycle.spare_milli(job))


def _alike(job: Waiting) -> tuple:
    """Jobs that agree in this are the same for a cycle, but for their place in line. A gang takes long to compare."""
    wishes = job.held, job.not_before, job.preemptible, job.time_s
    return id(job.gang), job.pool, job.team, job.user, *wishes


def _by_guarantee(cycle: Cycle) -> tuple[list[Waiting], list[Waiting]]:
    """(those within what their team is guaranteed, the others)."""
    within: dict[tuple, bool] = {}
    owners: list[Waiting] = []
    borrowers: list[Waiting] = []
    for job in cycle.snapshot.waiting:
        alike = _alike(job)
        if alike not in within:
            within[alike] = cycle.within_guarantee(job)
        (owners if within[alike] else borrowers).append(job)
    return owners, borrowers


class Lines:
    """How many wait for what. A claim is a bit mask over kinds of cards, with one bit for work without cards."""

    def __init__(self, kinds: int):
        self._cpu = 1 << kinds
        self._claims: defaultdict[int, Counter[int]] = defaultdict(Counter)

    def join(self, pool: int, kinds: tuple[int, ...]) -> tuple[int, int]:
        """How many wait for something that these roles could use, and how many for just the same."""
        claims, claim, ahead = self._claims[pool], self._claim(kinds), 0
        for other, count in claims.items():
            if other & claim:
                ahead += count
        before = claims[claim]
        claims[claim] = before + 1
        return ahead, before

    def _claim(self, kinds: tuple[int, ...]) -> int:
        claim = 0
        for mask in kinds:
            claim |= mask or self._cpu
        return claim


def _settled(cycle: Cycle, lines: Lines, job: Waiting, shape: Shape, borrow_refusals: list[Refusal]) -> bool:
    """Start the job, or put it aside where something of its own keeps it from starting; false where it is in line."""
    refusals = wish_refusals(job, cycle.now) + cycle.limits(job)
    if not refusals and borrow_refusals and (placement := _place_as_guest(cycle, job)):
        cycle.start(placement, job)
        return True
    if refusals := refusals + borrow_refusals:
        cycle.put_aside(job, refusals)
        return True
    if placement := _place(cycle, job, shape):
        cycle.start(placement, job)
        return True
    if never := cycle.impossible(job):
        cycle.put_aside(job, list(never))
        return True
    if (kept := shape.kept(job, cycle.now)) and not cycle.within_guarantee(job):
        cycle.put_aside(job, kept)
        return True
    _stand_in_line(cycle, lines, job, shape, shape.demand.affordable(cycle.spare_milli(job)))
    return False


def _place_as_guest(cycle: Cycle, job: Waiting) -> Placement | None:
    """What another pool lends is nobody's guarantee: a place there, where the job may not have one in its own pool."""
    shape = cycle.as_guest(job)
    return _place(cycle, job, shape) if shape else None


def _stand_in_line(cycle: Cycle, lines: Lines, job: Waiting, shape: Shape, kinds: tuple[int, ...]) -> None:
    """kinds: that its limits leave it."""
    ahead, before = lines.join(job.pool, kinds)
    first = [Refusal("ahead_in_queue", {"n": ahead})] if ahead and cycle.memory.explains else []
    cycle.plan.refusals[job.job] = first + (shape.kept(job, cycle.now) or shape.blocked_by)
    if before < _places_kept(cycle, job):
        cycle.future.reserve(job, shape.demand, cycle.keep(job, shape.demand))
    elif shape.blocked_from == -inf and not cycle.memory.explains and not cycle.snapshot.windows:
        demand = shape.demand
        alike = demand.most[GPU_MILLI] == demand.least[GPU_MILLI]  # else another may claim other kinds
        shape.passed_over = alike and cycle.policy.of(job.pool).stop_longer is None


def _places_kept(cycle: Cycle, job: Waiting) -> int:
    """How many of the job's line keep a place in time. For more owners than usual room is made at once, and kept."""
    usual = cycle.policy.of(job.pool).reservations
    return max(usual, OWNERS) if usual and cycle.leaving and cycle.within_guarantee(job) else usual


def _place(cycle: Cycle, job: Waiting, shape: Shape) -> Placement | None:
    """Take a place where the job is in nobody's way, or remember for jobs of its shape that there is none."""
    ends_at = cycle.now if cycle.may_pass(job) else cycle.now + job.time_s
    if shape.is_blocked(ends_at) or shape.kept(job, cycle.now):
        return None
    spare, keep = cycle.spare_milli(job), cycle.keep(job, shape.demand)
    kinds = shape.demand.affordable(spare)
    if cycle.future.is_open() and not keep and kinds == shape.demand.kinds and _is_full(cycle, job, shape):
        return None  # and nobody needs to know yet where those before it keep their places
    view = cycle.future.view(ends_at)
    result = place(view.snapshot, view.table, job, shape.demand, kinds, spare, keep)
    if isinstance(result, Placement):
        if view is not cycle.present:
            cycle.snapshot.take(result, job)
        return result
    if keep and _fits_but_for(keep, cycle, job, shape, kinds, spare):
        shape.kept_from[job.team] = ends_at, [keep.refusal()]
        return None
    if kinds == shape.demand.kinds:
        shape.blocked_from = -inf if view is cycle.present else ends_at
    if not cycle.memory.explains:
        return None
    if view is not cycle.present:
        result = place(cycle.snapshot, cycle.present.table, job, shape.demand, kinds, spare)
    if isinstance(result, Placement):
        cycle.snapshot.give_back(result, job)
        shape.blocked_by = _closed_for(cycle, job, shape, kinds, spare) or _kept_for_others(cycle)
    else:
        shape.blocked_by = explain_shortfall(cycle.snapshot, job, result)
    return None


def _is_full(cycle: Cycle, job: Waiting, shape: Shape) -> bool:
    """Is there no place for the largest task, not even where others keep theirs? Then for no job of this shape."""
    asked = zip(job.gang, shape.demand.kinds, strict=True)
    role, kinds = max(asked, key=lambda each: (each[0].min > 0, size(each[0])))
    request, node = cycle.present.table.best_node(role.ask, job.pool, kinds, shape.demand.reach)
    if node >= 0 or not role.min:
        return False
    shape.blocked_from = -inf
    if cycle.memory.explains:
        shape.blocked_by = explain_shortfall(cycle.snapshot, job, Shortfall(0, request))
    return True


def _fits_but_for(keep: Keep, cycle: Cycle, job: Waiting, shape: Shape, kinds: tuple[int, ...], spare: int) -> bool:
    """Is there room that only the owners of whole nodes keep from the job?"""
    view = cycle.future.view(cycle.now + job.time_s)
    result = place(view.snapshot, view.table, job, shape.demand, kinds, spare)
    if not isinstance(result, Placement):
        return False
    view.snapshot.give_back(result, job)
    return True


def _closed_for(cycle: Cycle, job: Waiting, shape: Shape, kinds: tuple[int, ...], spare: int) -> list[Refusal]:
    """There is room, but only on machines that go into maintenance before the job would end. Else nothing."""
    closings = cycle.future.maintenance_before(cycle.now + job.time_s)
    if not closings:
        return []
    closed = [task for closing in closings for task in closing.placement.tasks]
    for task in closed:
        cycle.snapshot.take_task(task)
    result = place(cycle.snapshot, cycle.present.table, job, shape.demand, kinds, spare)
    if isinstance(result, Placement):
        cycle.snapshot.give_back(result, job)
        refusals = []
    else:
        first = maintenance_refusal(cycle.snapshot, closings, cycle.now)
        refusals = [first, *explain_shortfall(cycle.snapshot, job, result)]
    for task in closed:
        cycle.snapshot.give_back_task(task)
    return refusals


def _kept_for_others(cycle: Cycle) -> list[Refusal]:
    """There is room, but somebody needs it before the job would end. When, where anybody can say."""
    at = next((r.at for r in cycle.future.reservations if r.job != NOBODY), inf)
    return [Refusal("reserved_for_larger", {"at": at} if isfinite(at) else {})]
