"""What will be free, and when: the expected ends of what runs, and the places in time kept for the first in line.

A reservation is a time and a placement. Between now and then things only end; what is free falls only where a
reservation begins. So a job that is to run beyond reservations fits where it fits now and at the beginning of each.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from scheduler.core.demand import Demand
from scheduler.core.ends import Ends, Rows
from scheduler.core.filters import eligible_cards
from scheduler.core.keep import Keep
from scheduler.core.lending import OWN
from scheduler.core.place import ANY_QUOTA, Shortfall, place
from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.table import Table
from scheduler.core.types import CardShare, Closing, Placement, Policy, TaskPlace, Waiting

NOBODY = -1
"""The job of a reservation that keeps machines closed."""
FREE = ("gpu_free_mib", "gpu_free_percent", "node_cpu_free", "node_memory_free")


@dataclass(frozen=True)
class Reservation:
    """at: when it begins, as far as those who run keep to their times. ends_at: `inf` where its job does not say."""

    job: int
    at: float
    ends_at: float
    placement: Placement


@dataclass(frozen=True)
class View:
    """A world that a job may be placed in, and the table that belongs to it."""

    snapshot: Snapshot
    table: Table


class Future:
    """The cluster of one cycle over time. Follows `snapshot` through `started`."""

    def __init__(self, present: View, policy: Policy, now: float, rows: Rows | None = None):
        self._snapshot = snapshot = present.snapshot
        self._policy = policy
        self._now = now
        self._ends = Ends(snapshot.running, rows or Rows())
        self.first: list[Waiting] = []
        """Jobs that keep a place if there ever is one for them, the first in line first."""
        self._pending: list[tuple[Waiting, Demand, Keep | None]] = []
        """Of these, those whose place is not worked out yet: nothing has started since they asked."""
        self._reservations: list[Reservation] = []
        self._at: list[Snapshot] = []
        """[reservation] the cluster when it begins, with all that is reserved by then taken."""
        self._present = present
        self._views: dict[int, View] = {}
        for closing in sorted(snapshot.closings, key=lambda closing: closing.at):
            if closing.ends_at > now:
                self._close(closing)

    @property
    def reservations(self) -> list[Reservation]:
        """In the order in which they begin."""
        for asked in self._pending:
            self._reserve(*asked)
        self._pending.clear()
        return self._reservations

    def is_open(self) -> bool:
        """Does somebody keep a place of whom it is not known yet where and when?"""
        return bool(self._pending)

    def view(self, ends_at: float) -> View:
        """Where a job that starts now and ends then delays nobody: the present, where no reservation is in its way."""
        until = sum(_reaches(ends_at, reservation) for reservation in self.reservations)
        if not until:
            return self._present
        if until not in self._views:
            snapshot = self._snapshot.copy()
            self._views[until] = View(snapshot, Table(snapshot, self._policy))
            self._narrow(until, snapshot.nodes)
        return self._views[until]

    def reserve(self, job: Waiting, demand: Demand, keep: Keep | None = None) -> None:
        """Keep the earliest time and place for the job; none where it would not even fit if nobody held anything.

        Earlier reservations keep their places from now until they end. Where the job cannot start before somebody ends
        of whom nobody knows when, its time is `inf`: then only jobs that say how long they take may use its place.
        Worked out when somebody asks, which has to be before anything else is taken from the snapshot.
        """
        self.first.append(job)
        self._pending.append((job, demand, keep))

    def _reserve(self, job: Waiting, demand: Demand, keep: Keep | None) -> None:
        found = self._earliest(job, demand, keep)
        if found is None:
            return
        at, placement = found
        reservation = Reservation(job.job, at, at + job.time_s, placement)
        place_in_line = sum(other.at <= at for other in self._reservations)
        for other, snapshot in zip(self._reservations[place_in_line:], self._at[place_in_line:], strict=True):
            if _reaches(reservation.ends_at, other):
                _take(snapshot, placement.tasks)
        self._reservations.insert(place_in_line, reservation)
        self._at.insert(place_in_line, self._when(at, [r for r in self._reservations if r.at <= at]))
        self._views.clear()

    def closed(self, ends_at: float) -> list[TaskPlace]:
        """The machines that a job which starts now and ends then cannot use, because they close before."""
        return [task for closing in self.maintenance_before(ends_at) for task in closing.placement.tasks]

    def maintenance_before(self, ends_at: float) -> list[Reservation]:
        """Those that begin before a job ends that starts now, the first one first."""
        return [closing for closing in self._reservations if closing.job == NOBODY and _reaches(ends_at, closing)]

    def started(self, placement: Placement, job: Waiting) -> None:
        """The job has been taken from the snapshot: it runs from now for as long as it says."""
        ends_at = self._now + job.time_s
        self._ends.add(ends_at, placement.tasks)
        for reservation, snapshot in zip(self._reservations, self._at, strict=True):
            if _reaches(ends_at, reservation):
                _take(snapshot, placement.tasks)
        touched = np.array(sorted({task.node for task in placement.tasks}), dtype=np.int64)
        for until in self._views:
            self._narrow(until, touched)

    def _close(self, closing: Closing) -> None:
        """As if somebody had reserved these machines, whole, for that time. One that has begun meets even a job that
        takes no time.
        """
        snapshot, at = self._snapshot, closing.at if closing.at > self._now else -inf
        machines = tuple(_machine(snapshot, node) for node in closing.nodes)
        self._reservations.append(Reservation(NOBODY, at, closing.ends_at, Placement(NOBODY, machines)))
        self._at.append(self._when(at, self._reservations))

    def _earliest(self, job: Waiting, demand: Demand, keep: Keep | None) -> tuple[float, Placement] | None:
        """Where it ends before a closing, the cards are there until then: so look between the closings in turn."""
        times = np.union1d(self._ends.times(), [*(r.ends_at for r in self._reservations), inf])
        latest = sorted({closing.at - job.time_s for closing in self._reservations if closing.job == NOBODY})
        low = int(times.searchsorted(self._soonest(demand)))
        for until in (*latest, inf):
            high = max(int(times.searchsorted(until, side="right")), low)
            if found := self._first_fit(times[low:high], job, demand, keep):
                return found
            low = high
        return None

    def _first_fit(
        self, times: np.ndarray, job: Waiting, demand: Demand, keep: Keep | None
    ) -> tuple[float, Placement] | None:
        """Later is never worse, for reserved places are taken out from the start: so halve the times, those first that
        come soon.
        """
        low, high, step, best = 0, len(times), 1, None
        while low < high:
            middle = min(low + step - 1, (low + high) // 2)
            placement = self._fits_at(float(times[middle]), job, demand, keep)
            if placement is None:
                low, step = middle + 1, 4 * step
            else:
                high, best = middle, (max(float(times[middle]), self._now), placement)
        return best

    def _soonest(self, demand: Demand) -> float:
        """Before that there are not enough cards that nobody is on, whatever else there is: it saves most looks."""
        world, soonest = self._snapshot, -inf
        free_at = self._ends.cards_free_at(world)
        gpus = np.arange(len(free_at))
        for role, kinds in zip(demand.gang, demand.kinds, strict=True):
            if not role.ask.gpus or not role.ask.whole:
                continue
            may = np.append(eligible_cards(world, Request(role.ask, demand.pool, kinds), gpus), False)
            may_at = np.where(may, np.append(free_at, inf), inf)[world.card_grid]
            soonest = max(soonest, _fits_from(may_at, role.ask.gpus, role.min))
        return soonest

    def _fits_at(self, at: float, job: Waiting, demand: Demand, keep: Keep | None) -> Placement | None:
        """Only in its own pool: a window may have closed by then. What `keep` allows now it allows then."""
        in_its_way = (r for r in self._reservations if r.job != NOBODY or r.at < at + job.time_s)
        world = self._when(at, in_its_way)
        at_home = replace(demand, reach=OWN)
        result = place(world, Table(world, self._policy), job, at_home, demand.kinds, ANY_QUOTA, keep)
        return None if isinstance(result, Shortfall) else result

    def _when(self, at: float, reserved: Iterable[Reservation]) -> Snapshot:
        """The cluster at a time, with what of these reservations has not ended by then taken."""
        if at == inf:
            world = self._snapshot.emptied()
            world.gpu_open, world.node_open = self._snapshot.gpu_open, self._snapshot.node_open
        else:
            world = self._snapshot.copy()
            self._ends.give_back(world, at)
        for reservation in reserved:
            if reservation.ends_at > at or at == inf == reservation.ends_at:
                _take(world, reservation.placement.tasks)
        return world

    def _narrow(self, until: int, nodes: np.ndarray) -> None:
        """On these nodes let the view have what is free both now and at the beginning of its reservations."""
        snapshot = self._views[until].snapshot
        gpus, _ = snapshot.cards_of(nodes)
        worlds = [self._snapshot, *self._at[:until]]
        for name in FREE:
            index = gpus if name.startswith("gpu") else nodes
            getattr(snapshot, name)[index] = np.minimum.reduce([getattr(world, name)[index] for world in worlds])
        snapshot.gpu_slices[gpus] = np.maximum.reduce([world.gpu_slices[gpus] for world in worlds])
        snapshot.touch(nodes)


def _fits_from(free_at: np.ndarray, gpus: int, tasks: int) -> float:
    """When so many tasks have so many cards each of one node. free_at: [N, C]."""
    complete = np.sort(free_at)[:, gpus - 1 :: gpus].ravel()
    return float(np.partition(complete, tasks - 1)[tasks - 1]) if len(complete) >= tasks else inf


def _reaches(ends_at: float, reservation: Reservation) -> bool:
    """Would somebody who ends then still be there when the reservation begins?"""
    return reservation.at < ends_at or ends_at == inf


def _machine(snapshot: Snapshot, node: int) -> TaskPlace:
    gpus, _ = snapshot.cards_of(snapshot.nodes[node : node + 1])
    cards = tuple(CardShare(gpu, int(snapshot.gpu_total_mib[gpu]), 100, 1000) for gpu in gpus.tolist())
    return TaskPlace("", 0, node, cards, int(snapshot.node_cpu_total[node]), int(snapshot.node_memory_total[node]))


def _take(world: Snapshot, tasks: tuple[TaskPlace, ...]) -> None:
    for task in tasks:
        world.take_task(task)
