"""One pass of the scheduler's mind. Read this first.

The cycle goes through the waiting jobs in order and starts what fits. Two passes: first the jobs that stay within what
their team is guaranteed, then the rest, up to the limits; in each by `order.in_order`, which looks at who holds least
while the cycle hands out. Three rules decide what a job means for those behind it:

* Refused by its own limits or wishes (team, user, jobs at once, held, start later): it holds up nobody.
* Impossible even on an empty cluster: it holds up nobody.
* Waiting for capacity: it closes what it needs. A job with cards closes the kinds of cards that it accepts in its pool,
  a CPU-only job the CPU-only work of its pool; a later job never overtakes it there and reads `ahead_in_queue`. What is
  free of a closed kind stays free until the first in line fits. Backfill relaxes this later: a job may pass where it
  ends before the reservation of the first begins.
"""

from collections import Counter
from dataclasses import dataclass

from scheduler.core.demand import Demand, build_demand
from scheduler.core.explain import explain_shortfall
from scheduler.core.order import in_order
from scheduler.core.place import Shortfall, place
from scheduler.core.possible import impossible
from scheduler.core.quota import own_refusals, spare_milli, within_guarantee
from scheduler.core.snapshot import Snapshot
from scheduler.core.table import Table
from scheduler.core.types import Plan, Policy, Refusal, Role, Waiting


def run_cycle(snapshot: Snapshot, policy: Policy, now: float) -> Plan:
    """Decide what starts and why the rest waits. Same input, same plan; the snapshot stays as it was."""
    cycle = Cycle(snapshot.copy(), policy, now)
    waiting = allocate(cycle)  # disturbs nobody
    explain(cycle, waiting)  # every waiting job has a reason and a position
    return cycle.plan


class Cycle:
    """What the phases of one pass share: the snapshot that they change, the plan, and what was worked out once."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: float):
        self.snapshot = snapshot
        self.policy = policy
        self.now = now
        self.plan = Plan()
        self.table = Table(snapshot, policy)
        self.closed = Closed(len(snapshot.kind_names))
        self.aside: list[Waiting] = []
        """Jobs that wait for something other than capacity."""
        self._empty: tuple[Snapshot, Table] | None = None
        self._shapes: dict[tuple[tuple[Role, ...], int], Shape] = {}

    def shape(self, job: Waiting) -> "Shape":
        key = (job.gang, job.pool)
        if key not in self._shapes:
            self._shapes[key] = Shape(build_demand(self.snapshot, job.gang, job.pool))
        return self._shapes[key]

    def impossible(self, job: Waiting) -> list[Refusal]:
        """Why a job of this shape could never run, however empty the cluster; asked once for each shape."""
        shape = self.shape(job)
        if shape.impossible is None:
            if self._empty is None:
                empty = self.snapshot.emptied()
                self._empty = empty, Table(empty, self.policy)
            shape.impossible = impossible(*self._empty, job, shape.demand)
        return shape.impossible


@dataclass
class Shape:
    """What jobs that ask alike have in common."""

    demand: Demand
    impossible: list[Refusal] | None = None


class Closed:
    """What jobs that wait for capacity keep from later ones. A claim is a bit mask over kinds, with one bit for CPU."""

    def __init__(self, kinds: int):
        self._cpu = 1 << kinds
        self._claims: dict[int, Counter[int]] = {}

    def ahead(self, pool: int, kinds: tuple[int, ...]) -> int:
        """How many jobs ahead wait for something that these roles could use."""
        claim = self._claim(kinds)
        return sum(count for other, count in self._claims.get(pool, {}).items() if other & claim)

    def still_open(self, pool: int, kinds: tuple[int, ...]) -> tuple[int, ...] | None:
        """The kinds left open for each role, or None where some role has nothing left."""
        taken = 0
        for claim in self._claims.get(pool, ()):
            taken |= claim
        if any(taken & (mask or self._cpu) == (mask or self._cpu) for mask in kinds):
            return None
        return tuple(mask & ~taken for mask in kinds)

    def close(self, pool: int, kinds: tuple[int, ...]) -> None:
        self._claims.setdefault(pool, Counter())[self._claim(kinds)] += 1

    def _claim(self, kinds: tuple[int, ...]) -> int:
        claim = 0
        for mask in kinds:
            claim |= mask or self._cpu
        return claim


def allocate(cycle: Cycle) -> list[Waiting]:
    """Start what fits without disturbing anybody. Returns the jobs that wait for capacity, the first in line first."""
    line: list[Waiting] = []
    borrowers = []
    for job in in_order(cycle.snapshot, cycle.snapshot.waiting, cycle.policy, cycle.now):
        if within_guarantee(cycle.snapshot, job, cycle.shape(job).demand):
            _settle(cycle, job, line)
        else:
            borrowers.append(job)
    for job in in_order(cycle.snapshot, borrowers, cycle.policy, cycle.now):
        _settle(cycle, job, line)
    return line


def explain(cycle: Cycle, line: list[Waiting]) -> None:
    """Give each waiting job its position: first the line for capacity, then those that wait for something else."""
    pools = Counter(job.pool for job in (*line, *cycle.aside))
    seen: Counter[int] = Counter()
    for job in (*line, *cycle.aside):
        seen[job.pool] += 1
        cycle.plan.positions[job.job] = (seen[job.pool], pools[job.pool])


def _settle(cycle: Cycle, job: Waiting, line: list[Waiting]) -> None:
    """Start the job, or put it in the line for capacity, or aside where something of its own keeps it from starting."""
    demand = cycle.shape(job).demand
    refusals = own_refusals(cycle.snapshot, job, demand, cycle.now)
    if refusals:
        cycle.plan.refusals[job.job] = refusals
        cycle.aside.append(job)
    elif _waits_in_line(cycle, job, demand):
        line.append(job)


def _waits_in_line(cycle: Cycle, job: Waiting, demand: Demand) -> bool:
    """Start the job, or refuse it; true when it waits for capacity and closes what it needs."""
    spare = spare_milli(cycle.snapshot, job, demand)
    wanted = demand.affordable(spare)
    ahead = cycle.closed.ahead(job.pool, wanted)
    refusals = [Refusal("ahead_in_queue", {"n": ahead})] if ahead else []
    usable = cycle.closed.still_open(job.pool, wanted)
    if usable is not None:
        result = place(cycle.snapshot, cycle.table, job, demand, usable, spare)
        if not isinstance(result, Shortfall):
            cycle.plan.starts.append(result)
            return False
        refusals += explain_shortfall(cycle.snapshot, job, result)
    never = cycle.impossible(job)
    cycle.plan.refusals[job.job] = list(never) or refusals
    if never:
        cycle.aside.append(job)
        return False
    cycle.closed.close(job.pool, wanted)
    return True
