"""Reservations: what becomes free when, and the places kept for the first in line.

Free resources only fall where a reservation begins, so a job fits if it fits now and at each such start.

A job that waited long drains its place: nothing starts there whose pessimistic end is later than the reservation. The
place is where all is gone first, by the pessimistic ends of those that run. Since nothing that ends later starts there,
that time never moves back while these ends are true, so no cycle need remember the place.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

import numpy as np

from scheduler.core.model.demand import GangDemand
from scheduler.core.model.requests import OWN_POOL, RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import CardShare, MaintenanceWindow, Placement, Policy, TaskPlacement, WaitingJob
from scheduler.core.placement.filters import find_eligible_cards
from scheduler.core.placement.gang_placement import UNLIMITED_QUOTA, place_gang
from scheduler.core.placement.scores import ScoredSnapshot, ScoreTable
from scheduler.core.placement.shortfall import Shortfall
from scheduler.core.queueing.release_times import (
    UNKNOWN_S,
    ReleaseTimes,
    TaskRows,
    estimate_latest_end,
    estimate_latest_stay,
    estimate_stay,
)
from scheduler.core.quota.whole_node_guarantees import CellConstraint

MAINTENANCE_JOB = -1
"""Job number of maintenance reservations."""
FREE_ARRAYS = ("gpu_free_mib", "gpu_free_percent", "node_cpu_free", "node_memory_free")


@dataclass(frozen=True)
class Reservation:
    """Resources kept from `at` to `ends_at` (`inf` if its job gives no estimate).

    by: when all is gone there, by the pessimistic ends; None if its job does not drain it. Where it does, no job of a
    pessimistic end after `at` starts there, nor after `by`, which is sooner where a job has outlived what was expected.
    firm: whether limits at which jobs are ended bound that, and no estimate; then these bound who starts there, too.
    """

    job: int
    at: float
    ends_at: float
    placement: Placement
    by: float | None = None
    firm: bool = False

    @property
    def drains(self) -> bool:
        return self.by is not None

    def is_closed_to(self, stay: "Stay") -> bool:
        """Check whether a job that is to end before may stay too long for a place that is drained."""
        if self.by is None:
            return False
        unbounded = stay.latest_at >= UNKNOWN_S  # too long even where `at` is not known
        return unbounded or stay.latest_at > min(self.at, self.by) or (self.firm and stay.limit_at > self.by)


class Stay(NamedTuple):
    """Until when a job that starts now keeps its place: by its expected end, its pessimistic one, and its limit."""

    ends_at: float
    latest_at: float = -inf
    limit_at: float = -inf

    def lasts(self, other: "Stay") -> bool:
        """Check whether it is at least as long as the other."""
        return all(mine >= its for mine, its in zip(self, other, strict=True))


NO_STAY = Stay(-inf)
"""Shorter than any: who does not fit for so long does not fit at all."""


@dataclass(frozen=True, eq=False)
class ReservationRequest:
    """What a job in line needs. drains: whether it waited long enough to drain its place."""

    job: WaitingJob
    demand: GangDemand
    cell_constraint: CellConstraint | None
    drains: bool


@dataclass
class KnownReservations:
    """What other cycles over the same cluster, at the same time, found for the same jobs in line, before any start.

    after: {identity of the next in line: it, its reservation, and what is known after it}. It keeps the job, so that
    the identity stays unique.
    """

    after: dict[int, tuple[WaitingJob, Reservation | None, "KnownReservations"]] = field(default_factory=dict)


class ReservationPlan:
    """The cluster over time, in one cycle. Later starts are reported by `record_start`."""

    def __init__(
        self,
        present: ScoredSnapshot,
        policy: Policy,
        now: float,
        rows: TaskRows | None = None,
        known: KnownReservations | None = None,
    ):
        self._known = known
        self._snapshot = snapshot = present.snapshot
        self._policy = policy
        self._now = now
        rows = rows or TaskRows()
        self._release_times = ReleaseTimes(snapshot.running, rows)
        self._latest_times = ReleaseTimes(snapshot.running, rows, lambda job: estimate_latest_end(job, now))
        self.first_in_line: list[WaitingJob] = []
        """Jobs with a reservation, if one was found, in queue order."""
        self.first_in_several: set[int] = set()
        """Those of them that wait in several pools, by number."""
        self._draining: dict[int, int] = {}
        """{job that asked to drain its place: its pool}."""
        self._drained: dict[int, Snapshot] = {}
        """{job that drains its place: the cluster at its start, with nothing but that place taken}."""
        self._pending: list[ReservationRequest] = []
        """Reservations still to be computed; nothing has started since they were requested."""
        self._reservations: list[Reservation] = []
        self._snapshots: list[Snapshot] = []
        """[reservation] the cluster at its start, with all reservations so far taken."""
        self._present = present
        self._views: dict[tuple[int, tuple[int, ...]], ScoredSnapshot] = {}
        for closing in sorted(snapshot.closings, key=lambda closing: closing.at):
            if closing.ends_at > now:
                self._reserve_for_maintenance(closing)

    @property
    def reservations(self) -> list[Reservation]:
        """All reservations by start; computes pending ones."""
        for asked in self._pending:
            self._reserve(asked)
        self._pending.clear()
        return self._reservations

    def has_pending(self) -> bool:
        """Check whether any reservation is still to be computed."""
        return bool(self._pending)

    @property
    def has_drains(self) -> bool:
        """Check whether pessimistic ends matter."""
        return bool(self._draining)

    def view_until(self, stay: Stay) -> ScoredSnapshot:
        """Return the view where a job of this stay delays no reservation."""
        until = sum(_overlaps(stay.ends_at, reservation) for reservation in self.reservations)
        key = until, self._list_drained(stay, self._reservations[until:])
        if key == (0, ()):
            return self._present
        if key not in self._views:
            snapshot = self._snapshot.copy()
            self._views[key] = ScoredSnapshot(snapshot, ScoreTable(snapshot, self._policy))
            self._narrow_view(key, snapshot.nodes)
        return self._views[key]

    def view_for(self, job: WaitingJob, stay: Stay) -> ScoredSnapshot:
        """Return `view_until` without what is reserved for the job itself, in another pool with the same machines."""
        if not self.is_first_in_line(job):
            return self.view_until(stay)
        others = [one for one in self.reservations if one.job != job.job]
        met = [one for one in others if _overlaps(stay.ends_at, one)]
        drained = self._list_drained(stay, others[len(met) :])
        if not met and not drained:
            return self._present
        snapshot = self._snapshot.copy()
        worlds = [self._snapshot_at(one.at, met[: place + 1]) for place, one in enumerate(met)]
        worlds += [self._drained[number] for number in drained]
        _set_least_free(snapshot, [self._snapshot, *worlds], snapshot.nodes)
        return ScoredSnapshot(snapshot, ScoreTable(snapshot, self._policy))

    def _list_drained(self, stay: Stay, later: Sequence[Reservation]) -> tuple[int, ...]:
        """Return whose drained places are closed to a job that is to end before these reservations, but may not."""
        return tuple(one.job for one in later if one.is_closed_to(stay))

    def is_first_in_line(self, job: WaitingJob) -> bool:
        """Check whether the job has asked for a reservation in another pool."""
        return job.choice >= 0 and job.job in self.first_in_several

    def reserve(
        self,
        job: WaitingJob,
        demand: GangDemand,
        cell_constraint: CellConstraint | None = None,
        *,
        drains: bool = False,
    ) -> None:
        """Reserve the earliest start for the job, if it ever fits; `inf` if it depends on jobs of unknown end.

        Computed lazily: read `reservations` before taking anything else from the snapshot. A job that waits in several
        pools drains its place in one.
        """
        self.first_in_line.append(job)
        if job.choice >= 0:
            self.first_in_several.add(job.job)
        drains = drains and job.job not in self._draining
        if drains:
            self._draining[job.job] = job.pool
        self._pending.append(ReservationRequest(job, demand, cell_constraint, drains))

    def count_draining(self, pool: int) -> int:
        return sum(of == pool for of in self._draining.values())

    def _reserve(self, asked: ReservationRequest) -> None:
        reservation = self._recall(asked)
        if reservation is None:
            return
        at, tasks = reservation.at, reservation.placement.tasks
        place_in_line = sum(other.at <= at for other in self._reservations)
        for other, snapshot in zip(self._reservations[place_in_line:], self._snapshots[place_in_line:], strict=True):
            if _overlaps(reservation.ends_at, other):
                _allocate_tasks(snapshot, tasks)
        self._reservations.insert(place_in_line, reservation)
        self._snapshots.insert(place_in_line, self._snapshot_at(at, [r for r in self._reservations if r.at <= at]))
        if reservation.drains:
            self._drained[reservation.job] = self._snapshot_at(at, [reservation])
        self._views.clear()

    def drop(self, job: int) -> int:
        """Give up what was reserved for a job that has started in another pool; return how much it asked for."""
        self._known = None
        self.first_in_several.discard(job)
        self._draining.pop(job, None)
        asked = len(self.first_in_line)
        self.first_in_line = [waiting for waiting in self.first_in_line if waiting.job != job]
        kept = [reservation for reservation in self.reservations if reservation.job != job]
        if len(kept) < len(self._reservations):
            self._reservations = kept
            self._snapshots = [self._snapshot_at(one.at, kept[: place + 1]) for place, one in enumerate(kept)]
            self._views.clear()
        return asked - len(self.first_in_line)

    def maintenance_tasks(self, ends_at: float) -> list[TaskPlacement]:
        """Return the nodes under maintenance before `ends_at`, as tasks."""
        return [task for closing in self.maintenance_before(ends_at) for task in closing.placement.tasks]

    def maintenance_before(self, ends_at: float) -> list[Reservation]:
        """Return maintenance that begins before `ends_at`, earliest first."""
        return [
            closing for closing in self._reservations if closing.job == MAINTENANCE_JOB and _overlaps(ends_at, closing)
        ]

    def record_start(self, placement: Placement, job: WaitingJob) -> None:
        """Record a start that is already taken from the snapshot."""
        self._known = None
        ends_at = estimate_stay(self._snapshot, job, self._now)
        self._release_times.add_start(self._now + job.time_s, placement.tasks)
        self._latest_times.add_start(estimate_latest_stay(job, self._now), placement.tasks)
        for reservation, snapshot in zip(self._reservations, self._snapshots, strict=True):
            if _overlaps(ends_at, reservation):
                _allocate_tasks(snapshot, placement.tasks)
                if reservation.drains:
                    _allocate_tasks(self._drained[reservation.job], placement.tasks)
        touched = np.array(sorted({task.node for task in placement.tasks}), dtype=np.int64)
        for key in self._views:
            self._narrow_view(key, touched)

    def _reserve_for_maintenance(self, closing: MaintenanceWindow) -> None:
        """Reserve whole nodes for maintenance."""
        snapshot, at = self._snapshot, closing.at if closing.at > self._now else -inf
        machines = tuple(_whole_node(snapshot, node) for node in closing.nodes)
        self._reservations.append(
            Reservation(MAINTENANCE_JOB, at, closing.ends_at, Placement(MAINTENANCE_JOB, machines))
        )
        self._snapshots.append(self._snapshot_at(at, self._reservations))

    def _recall(self, asked: ReservationRequest) -> Reservation | None:
        if self._known is None:
            return self._build(asked)
        key = id(asked.job)
        if key not in self._known.after:
            self._known.after[key] = asked.job, self._build(asked), KnownReservations()
        _job, found, self._known = self._known.after[key]
        return found

    def _build(self, asked: ReservationRequest) -> Reservation | None:
        by, found = None, None
        if asked.drains and (drained := self._find_place_to_drain(asked)):
            by, place = drained
            found = self._find_earliest(asked, within=place)
        if not found:
            by, found = None, self._find_earliest(asked)
        if not found:
            return None
        at, placement = found
        ends_at, firm = estimate_stay(self._snapshot, asked.job, at), by is not None and self._knows_limits()
        return Reservation(asked.job.job, at, ends_at, placement, by, firm)

    def _knows_limits(self) -> bool:
        """Check whether limits bound all pessimistic ends."""
        return all(job.leaving or (job.limit_s < inf and job.limit_s <= job.latest_s) for job in self._snapshot.running)

    def _find_place_to_drain(self, asked: ReservationRequest) -> tuple[float, Placement] | None:
        """Return where all is gone first, by the pessimistic ends, beside all that is reserved, and when.

        Machines are left out if a job that starts now would meet their maintenance.
        """
        until = estimate_stay(self._snapshot, asked.job, self._now)
        in_its_way = [r for r in self._reservations if r.job != MAINTENANCE_JOB or r.at < until]

        def place(at: float) -> Placement | None:
            world = self._snapshot.copy()
            self._latest_times.release_until(world, at)
            for reservation in in_its_way:
                _allocate_tasks(world, reservation.placement.tasks)
            return self._place_in(world, asked)

        times = self._latest_times.list_times()
        return self._search_times(times[times.searchsorted(self._earliest_idle(asked, self._latest_times)) :], place)

    def _find_earliest(
        self, asked: ReservationRequest, within: Placement | None = None
    ) -> tuple[float, Placement] | None:
        """Search between maintenance windows, as nodes are free before one begins. within: on these cards only."""
        times = np.union1d(self._release_times.list_times(), [*(r.ends_at for r in self._reservations), inf])
        closings = [closing.at for closing in self._reservations if closing.job == MAINTENANCE_JOB]
        length = estimate_stay(self._snapshot, replace(asked.job, preemptible=False), self._now) - self._now
        latest = sorted({at - length for at in closings} | {np.nextafter(at, -inf) for at in closings})
        low = int(times.searchsorted(self._earliest_idle(asked, self._release_times)))
        for until in (*latest, inf):
            high = max(int(times.searchsorted(until, side="right")), low)
            if found := self._search_times(times[low:high], lambda at: self._place_at(at, asked, within)):
                return found
            low = high
        return None

    def _search_times(
        self, times: np.ndarray, place: Callable[[float], Placement | None]
    ) -> tuple[float, Placement] | None:
        """Return the earliest of these times that fits. Later is never worse, so gallop, then bisect."""
        low, high, step, best = 0, len(times), 1, None
        while low < high:
            middle = min(low + step - 1, (low + high) // 2)
            placement = place(float(times[middle]))
            if placement is None:
                low, step = middle + 1, 4 * step
            else:
                high, best = middle, (max(float(times[middle]), self._now), placement)
        return best

    def _earliest_idle(self, asked: ReservationRequest, releases: ReleaseTimes) -> float:
        """Return a lower bound from idle cards alone; saves most attempts."""
        world, demand, soonest = self._snapshot, asked.demand, -inf
        free_at = releases.card_idle_times(world)
        gpus = np.arange(len(free_at))
        for role, kinds in zip(demand.gang, demand.kinds, strict=True):
            if not role.ask.gpus or not role.ask.whole:
                continue
            may = np.append(find_eligible_cards(world, RequestClass(role.ask, demand.pool, kinds), gpus), False)
            may_at = np.where(may, np.append(free_at, inf), inf)[world.card_grid]
            soonest = max(soonest, _gang_idle_at(may_at, role.ask.gpus, role.min))
        return soonest

    def _place_at(self, at: float, asked: ReservationRequest, within: Placement | None) -> Placement | None:
        """Place the job at a time, in its own pool only."""
        until = estimate_stay(self._snapshot, asked.job, at)
        in_its_way = (r for r in self._reservations if r.job != MAINTENANCE_JOB or r.at < until)
        world = self._snapshot_at(at, in_its_way)
        if within:
            _close_all_but(world, within)
        return self._place_in(world, asked)

    def _place_in(self, world: Snapshot, asked: ReservationRequest) -> Placement | None:
        at_home, table = replace(asked.demand, reach=OWN_POOL), ScoreTable(world, self._policy)
        kinds = at_home.kinds
        result = place_gang(world, table, asked.job, at_home, kinds, UNLIMITED_QUOTA, asked.cell_constraint)
        return None if isinstance(result, Shortfall) else result

    def _snapshot_at(self, at: float, reserved: Iterable[Reservation]) -> Snapshot:
        if at == inf:
            world = self._snapshot.empty_copy()
            world.gpu_open, world.node_open = self._snapshot.gpu_open, self._snapshot.node_open
        else:
            world = self._snapshot.copy()
            self._release_times.release_until(world, at)
        for reservation in reserved:
            if reservation.ends_at > at or at == inf == reservation.ends_at:
                _allocate_tasks(world, reservation.placement.tasks)
        return world

    def _narrow_view(self, key: tuple[int, tuple[int, ...]], nodes: np.ndarray) -> None:
        """Set a view's nodes to the least free over now, its reservations' starts and drained places."""
        until, drained = key
        worlds = [self._snapshot, *self._snapshots[:until], *(self._drained[job] for job in drained)]
        _set_least_free(self._views[key].snapshot, worlds, nodes)


def _close_all_but(world: Snapshot, place: Placement) -> None:
    """Leave only these cards and nodes open."""
    cards, nodes = np.zeros_like(world.gpu_open), np.zeros_like(world.node_open)
    cards[[card.gpu for task in place.tasks for card in task.cards]] = True
    nodes[[task.node for task in place.tasks]] = True
    world.gpu_open, world.node_open = world.gpu_open & cards, world.node_open & nodes


def _set_least_free(snapshot: Snapshot, worlds: list[Snapshot], nodes: np.ndarray) -> None:
    """Set the nodes to the least free over these worlds."""
    gpus, _ = snapshot.cards_on(nodes)
    for name in FREE_ARRAYS:
        index = gpus if name.startswith("gpu") else nodes
        getattr(snapshot, name)[index] = np.minimum.reduce([getattr(world, name)[index] for world in worlds])
    snapshot.gpu_slices[gpus] = np.maximum.reduce([world.gpu_slices[gpus] for world in worlds])
    snapshot.mark_changed(nodes)


def _gang_idle_at(free_at: np.ndarray, gpus: int, tasks: int) -> float:
    """Return when enough nodes have enough idle cards. free_at: [N, C]."""
    complete = np.sort(free_at)[:, gpus - 1 :: gpus].ravel()
    return float(np.partition(complete, tasks - 1)[tasks - 1]) if len(complete) >= tasks else inf


def _overlaps(ends_at: float, reservation: Reservation) -> bool:
    """Check whether a job that ends then overlaps the reservation."""
    return reservation.at < ends_at or ends_at == inf


def _whole_node(snapshot: Snapshot, node: int) -> TaskPlacement:
    gpus, _ = snapshot.cards_on(snapshot.nodes[node : node + 1])
    cards = tuple(CardShare(gpu, int(snapshot.gpu_total_mib[gpu]), 100, 1000) for gpu in gpus.tolist())
    return TaskPlacement("", 0, node, cards, int(snapshot.node_cpu_total[node]), int(snapshot.node_memory_total[node]))


def _allocate_tasks(world: Snapshot, tasks: tuple[TaskPlacement, ...]) -> None:
    for task in tasks:
        world.allocate_task(task)
