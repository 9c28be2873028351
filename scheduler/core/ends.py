"""When what runs ends, and what comes back then: flat arrays, so that a cluster at any time costs a few additions."""

from math import inf

import numpy as np

from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Running, TaskPlace


def expected_end(started_at: float, time_s: float, now: float, limit_s: float = inf) -> float:
    """When a job that says it takes `time_s` ends. One that is over its time is taken to run as long again: of a run
    that has outlived its estimate nothing is known but that it is long. After `limit_s` it is stopped.
    """
    elapsed = max(now - started_at, 0.0)
    ends_at = started_at + time_s if elapsed < time_s else now + max(elapsed, 1.0)
    return min(ends_at, max(started_at + limit_s, now + 1.0))


class Ends:
    """What comes back when, of those who run and those who start meanwhile."""

    def __init__(self, running: tuple[Running, ...], rows: "Rows"):
        self._running = running
        self._started: list[tuple[float, tuple[TaskPlace, ...]]] = []
        self._rows = rows
        self._arrays: tuple[np.ndarray, ...] | None = None

    def add(self, ends_at: float, tasks: tuple[TaskPlace, ...]) -> None:
        self._started.append((ends_at, tasks))
        if self._arrays is not None and ends_at < inf:
            cards_at, cards, nodes_at, nodes = self._arrays
            of_cards, of_nodes = self._rows.at(np.array([self._rows.of(tasks)]), np.array([ends_at]))[1::2]
            self._arrays = *_put_in(cards_at, cards, ends_at, of_cards), *_put_in(nodes_at, nodes, ends_at, of_nodes)

    def times(self) -> np.ndarray:
        """Ascending."""
        return np.unique(self._built()[2])

    def give_back(self, world: Snapshot, until: float) -> None:
        cards_at, cards, nodes_at, nodes = self._built()
        gpu, memory_mib, percent = cards[:, : cards_at.searchsorted(until, side="right")]
        np.add.at(world.gpu_free_mib, gpu, memory_mib)
        np.add.at(world.gpu_free_percent, gpu, percent)
        np.add.at(world.gpu_slices, gpu, -1)
        node, cpu_milli, memory_mib = nodes[:, : nodes_at.searchsorted(until, side="right")]
        np.add.at(world.node_cpu_free, node, cpu_milli)
        np.add.at(world.node_memory_free, node, memory_mib)

    def cards_free_at(self, world: Snapshot) -> np.ndarray:
        """[G] from when on nobody of `world` is on the card: `inf` where it is not known, `-inf` where nobody is."""
        cards_at, cards, *_ = self._built()
        latest = np.full(len(world.gpu_node), -np.inf)
        np.maximum.at(latest, cards[0], cards_at)
        known = np.bincount(cards[0], minlength=len(latest))
        return np.where(world.gpu_slices > known, np.inf, np.where(world.gpu_slices > 0, latest, -np.inf))

    def _built(self) -> tuple[np.ndarray, ...]:
        """(ends, [3, rows] card, MiB, percent; ends, [3, rows] node, CPU, MiB), by time."""
        if self._arrays is None:
            self._rows.forget_beyond(1000 + 4 * len(self._running))
            ends = np.array([job.ends_at for job in self._running] + [at for at, _ in self._started])
            held = self._rows.of_all([job.tasks for job in self._running]) + [
                self._rows.of(t) for _, t in self._started
            ]
            order = ends.argsort(kind="stable")[: np.isfinite(ends).sum()]
            self._arrays = self._rows.at(np.array(held, dtype=np.int64)[order], ends[order])
        return self._arrays


class Rows:
    """What the tasks of jobs hold as rows of arrays, made once for as long as a job runs where it does."""

    def __init__(self) -> None:
        self._forget()

    def forget_beyond(self, most: int) -> None:
        """Begin anew where most of what is known is of jobs that ended long ago."""
        if len(self._known) > most:
            self._forget()

    def _forget(self) -> None:
        self._cards, self._nodes = _Stack(), _Stack()
        self._spans = _Stack()
        """Of each that is known: where its rows lie and how many they are, of cards and of nodes."""
        self._known: dict[int, tuple[tuple[TaskPlace, ...], int]] = {}

    def of(self, tasks: tuple[TaskPlace, ...]) -> int:
        """The number by which they are known."""
        known = self._known.get(id(tasks))
        if known is None:
            cards = [(card.gpu, card.memory_mib, card.compute_percent) for task in tasks for card in task.cards]
            nodes = [(task.node, task.cpu_milli, task.memory_mib) for task in tasks]
            spans = [(self._cards.put(cards), len(cards), 0), (self._nodes.put(nodes), len(nodes), 0)]
            known = tasks, self._spans.put(spans)  # which keeps the tasks, so that no others get their id
            self._known[id(tasks)] = known
        return known[1]

    def of_all(self, jobs: list[tuple[TaskPlace, ...]]) -> list[int]:
        """The same of many, most of which are known."""
        known = self._known
        return [known[id(tasks)][1] if id(tasks) in known else self.of(tasks) for tasks in jobs]

    def at(self, numbers: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, ...]:
        """(ends, [3, rows] card, MiB, percent; ends, [3, rows] node, CPU, MiB), each with the end of its tasks."""
        found: list[np.ndarray] = []
        for stack, which in ((self._cards, numbers), (self._nodes, numbers + 1)):
            first, count, _ = self._spans.rows[:, which]
            found += np.repeat(ends, count), stack.rows[:, _ranges(first, count)]
        return tuple(found)


class _Stack:
    """Rows of three numbers that only become more. rows: [3, at least so many]."""

    def __init__(self) -> None:
        self.rows = np.empty((3, 1024), dtype=np.int64)
        self._count = 0

    def put(self, rows: list[tuple[int, int, int]]) -> int:
        """Where the first one lies."""
        first, self._count = self._count, self._count + len(rows)
        while self._count > self.rows.shape[1]:
            self.rows = np.concatenate((self.rows, np.empty_like(self.rows)), axis=1)
        self.rows[:, first : self._count] = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return first


def _put_in(at: np.ndarray, rows: np.ndarray, ends_at: float, more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    place = [at.searchsorted(ends_at, side="right")] * more.shape[1]
    return np.insert(at, place, ends_at), np.insert(rows, place, more, axis=1)


def _ranges(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """first[0], first[0] + 1 and so on, count[0] of them; then those of the next."""
    return np.arange(count.sum()) + np.repeat(first - count.cumsum() + count, count)
