"""Expected ends of running jobs and the resources they free, as flat arrays."""

from collections.abc import Callable
from math import inf
from operator import attrgetter

import numpy as np

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import RunningJob, TaskPlacement, WaitingJob


def estimate_end(started_at: float, time_s: float, now: float, limit_s: float = inf) -> float:
    """Estimate a job's end; one beyond its estimate may run as long again, up to `limit_s`."""
    elapsed = max(now - started_at, 0.0)
    ends_at = started_at + time_s if elapsed < time_s else now + max(elapsed, 1.0)
    return min(ends_at, max(started_at + limit_s, now + 1.0))


UNKNOWN_S = 1e12
"""Beyond every end that something bounds. Seconds are still told apart there."""


def estimate_latest_end(job: RunningJob, now: float) -> float:
    """Estimate a running job's pessimistic end: where nothing bounds it, `UNKNOWN_S` after its start.

    So who began first counts as first to end, and that order stays from cycle to cycle.
    """
    if job.leaving:
        return job.ends_at
    if min(job.latest_s, job.limit_s) == inf:
        return job.started_at + UNKNOWN_S
    return estimate_end(job.started_at, job.latest_s, now, job.limit_s)


def estimate_stay(snapshot: Snapshot, job: WaitingJob, at: float) -> float:
    """Estimate until when a job that starts then keeps its place from others.

    Where maintenance is planned, a job of unknown length is taken to last as long as such jobs of its pool did, and one
    that might reach into it as long as it might; one that may be stopped stays until it is stopped for maintenance.
    """
    coming = [closing for closing in snapshot.closings if closing.at > at] if snapshot.closings else []
    if not coming:
        return at + job.time_s
    unknown = job.cautious_s == inf and snapshot.expected_s
    latest = at + (snapshot.expected_s[job.pool] if unknown else job.cautious_s)
    met = [closing for closing in coming if closing.at < latest]
    if not met:
        return min(at + job.time_s, latest)
    stops = job.preemptible and all(closing.stops for closing in met)
    return min(closing.at for closing in met) if stops else latest


def estimate_latest_stay(job: WaitingJob, now: float) -> float:
    """Estimate the pessimistic end of a job that starts now, as `estimate_latest_end` does once it runs."""
    length = min(job.latest_s, job.limit_s)
    return now + (UNKNOWN_S if length == inf else length)


class ReleaseTimes:
    """Resources that running and started jobs release over time."""

    def __init__(
        self,
        running: tuple[RunningJob, ...],
        rows: "TaskRows",
        end_of: Callable[[RunningJob], float] = attrgetter("ends_at"),
    ):
        self._running = running
        self._end_of = end_of
        self._started: list[tuple[float, tuple[TaskPlacement, ...]]] = []
        self._rows = rows
        self._arrays: tuple[np.ndarray, ...] | None = None

    def add_start(self, ends_at: float, tasks: tuple[TaskPlacement, ...]) -> None:
        self._started.append((ends_at, tasks))
        if self._arrays is not None and ends_at < inf:
            cards_at, cards, nodes_at, nodes = self._arrays
            of_cards, of_nodes = self._rows.rows_of(np.array([self._rows.row_id(tasks)]), np.array([ends_at]))[1::2]
            self._arrays = (
                *_insert_rows(cards_at, cards, ends_at, of_cards),
                *_insert_rows(nodes_at, nodes, ends_at, of_nodes),
            )

    def list_times(self) -> np.ndarray:
        return np.unique(self._build_arrays()[2])

    def release_until(self, world: Snapshot, until: float) -> None:
        cards_at, cards, nodes_at, nodes = self._build_arrays()
        gpu, memory_mib, percent = cards[:, : cards_at.searchsorted(until, side="right")]
        np.add.at(world.gpu_free_mib, gpu, memory_mib)
        np.add.at(world.gpu_free_percent, gpu, percent)
        np.add.at(world.gpu_slices, gpu, -1)
        node, cpu_milli, memory_mib = nodes[:, : nodes_at.searchsorted(until, side="right")]
        np.add.at(world.node_cpu_free, node, cpu_milli)
        np.add.at(world.node_memory_free, node, memory_mib)

    def card_idle_times(self, world: Snapshot) -> np.ndarray:
        """Return [G] when each card becomes idle: `-inf` if it is, `inf` if unknown."""
        cards_at, cards, *_ = self._build_arrays()
        latest = np.full(len(world.gpu_node), -np.inf)
        np.maximum.at(latest, cards[0], cards_at)
        known = np.bincount(cards[0], minlength=len(latest))
        return np.where(world.gpu_slices > known, np.inf, np.where(world.gpu_slices > 0, latest, -np.inf))

    def _build_arrays(self) -> tuple[np.ndarray, ...]:
        """Return (ends, card rows [3, n], ends, node rows [3, n]), by time."""
        if self._arrays is None:
            self._rows.trim(1000 + 4 * len(self._running))
            ends = np.array([self._end_of(job) for job in self._running] + [at for at, _ in self._started])
            held = self._rows.row_ids([job.tasks for job in self._running]) + [
                self._rows.row_id(t) for _, t in self._started
            ]
            order = ends.argsort(kind="stable")[: np.isfinite(ends).sum()]
            self._arrays = self._rows.rows_of(np.array(held, dtype=np.int64)[order], ends[order])
        return self._arrays


class TaskRows:
    """Cache of running jobs' resources as array rows."""

    def __init__(self) -> None:
        self._clear()

    def trim(self, most: int) -> None:
        """Clear a cache mostly of ended jobs."""
        if len(self._known) > most:
            self._clear()

    def _clear(self) -> None:
        self._cards, self._nodes = _GrowingRows(), _GrowingRows()
        self._spans = _GrowingRows()
        """Index and number of each entry's rows, of cards and of nodes in turn."""
        self._known: dict[int, tuple[tuple[TaskPlacement, ...], int]] = {}

    def row_id(self, tasks: tuple[TaskPlacement, ...]) -> int:
        """Return the number under which these tasks are cached."""
        known = self._known.get(id(tasks))
        if known is None:
            cards = [(card.gpu, card.memory_mib, card.compute_percent) for task in tasks for card in task.cards]
            nodes = [(task.node, task.cpu_milli, task.memory_mib) for task in tasks]
            spans = [(self._cards.append(cards), len(cards), 0), (self._nodes.append(nodes), len(nodes), 0)]
            known = tasks, self._spans.append(spans)  # keeps the tasks, so that their id stays unique
            self._known[id(tasks)] = known
        return known[1]

    def row_ids(self, jobs: list[tuple[TaskPlacement, ...]]) -> list[int]:
        known = self._known
        return [known[id(tasks)][1] if id(tasks) in known else self.row_id(tasks) for tasks in jobs]

    def rows_of(self, numbers: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return (ends, card rows, ends, node rows)."""
        found: list[np.ndarray] = []
        for stack, which in ((self._cards, numbers), (self._nodes, numbers + 1)):
            first, count, _ = self._spans.rows[:, which]
            found += np.repeat(ends, count), stack.rows[:, _concat_ranges(first, count)]
        return tuple(found)


class _GrowingRows:
    """Growing array: [3, capacity]."""

    def __init__(self) -> None:
        self.rows = np.empty((3, 1024), dtype=np.int64)
        self._count = 0

    def append(self, rows: list[tuple[int, int, int]]) -> int:
        """Append rows; return the first's index."""
        first, self._count = self._count, self._count + len(rows)
        while self._count > self.rows.shape[1]:
            self.rows = np.concatenate((self.rows, np.empty_like(self.rows)), axis=1)
        self.rows[:, first : self._count] = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return first


def _insert_rows(at: np.ndarray, rows: np.ndarray, ends_at: float, more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    place = [at.searchsorted(ends_at, side="right")] * more.shape[1]
    return np.insert(at, place, ends_at), np.insert(rows, place, more, axis=1)


def _concat_ranges(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Concatenate the ranges first[i] .. first[i] + count[i]."""
    return np.arange(count.sum()) + np.repeat(first - count.cumsum() + count, count)
