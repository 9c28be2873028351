"""Queue order: priority raised by age, then fair share, then arrival.

Fair share is weighted DRF (Ghodsi et al., NSDI'11) by team tree, then by user, and follows the snapshot. With
`short_first`, the fewest card-seconds go first within a user, discounted by age so that none starves.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import HIGH, URGENT, Policy, RunningJob, WaitingJob

ANY_OWNER = 0
"""Team and user of overdue jobs, whose shares do not count."""
PATIENCE = 4.0
"""With `short_first`, multiples of its own run time that a job waits to rise by one class."""


def order_jobs(
    snapshot: Snapshot,
    jobs: Iterable[WaitingJob],
    policy: Policy,
    now: float,
    depends: Callable[[WaitingJob], bool] = lambda job: False,
) -> Iterator[WaitingJob]:
    """Yield jobs in order, following what the caller takes meanwhile.

    Usage may only grow: a stale key is then never too large, and recomputed only when it comes first.
    depends: whether what is decided about the job depends on its turn in another pool. Its pool's line waits for that
    turn, unless the lines wait for each other; so jobs keep their order in each pool.
    """
    shares = _DominantShares(snapshot)
    streams = _build_streams(list(jobs), shares, policy, now)
    if len(streams) == 1:
        yield from reversed(streams[0].jobs)
        return
    trees: defaultdict[tuple[int, int], list[_JobStream]] = defaultdict(list)
    for stream in streams:
        trees[stream.pool, snapshot.team_chain[stream.team][-1]].append(stream)
    line = [_TeamTree(of_tree, shares, *tree) for tree, of_tree in trees.items()]
    heap = [(tree.key(), place, tree) for place, tree in enumerate(line)]
    heapify(heap)
    paused = _PausedLines(depends)
    while heap or paused.lines:
        if paused.lines:
            paused.resume(heap)
        old, place, tree = heap[0]
        if tree.is_stale() and (key := tree.key()) != old:
            heapreplace(heap, (key, place, tree))
            continue
        stream, version = tree.first(), snapshot.version
        if stream.jobs[-1].choice > 0 and paused.must_pause(tree):
            heap = paused.pause(tree, heap)
            continue
        for turn in range(tree.uncontested() if _is_first(heap, 4) else 1):
            if turn and stream.jobs[-1].choice > 0 and paused.must_pause(tree):
                break
            yield stream.pop()
            if snapshot.version != version:
                break
        if tree.advance():
            heapreplace(heap, (tree.key(), place, tree))
        else:
            heappop(heap)


def get_effective_priority(job: WaitingJob, policy: Policy, now: float) -> int:
    """Return the job's class, raised by age but never to urgent."""
    priority, _, _ = _age_priorities([job], policy, now)
    return int(priority[0])


def estimate_remaining_work(job: WaitingJob | RunningJob, own: Policy, now: float) -> float:
    """Estimate remaining card-seconds, discounted by age."""
    if isinstance(job, RunningJob):
        left_s, cards = job.ends_at - now, sum(len(task.cards) for task in job.tasks)
    else:
        left_s, cards = job.time_s, sum([role.min * role.ask.gpus for role in job.gang])
    return min(left_s, own.longest_s) * max(cards, 0.01) / (1.0 + _patience_used(job, own, now))


def _patience_used(job: WaitingJob | RunningJob, own: Policy, now: float) -> float:
    """Return the wait in units of patience, longer for long jobs with `short_first`."""
    patience_s = own.ageing_s + (PATIENCE * min(job.time_s, own.longest_s) if own.short_first else 0.0)
    return (job.waited_s if isinstance(job, RunningJob) else max(0.0, now - job.submitted_at)) / patience_s


def _is_first(heap: list, parts: int) -> bool:
    """Check whether the first key leads in its first parts."""
    first = heap[0][0][:parts]
    return all(first < other[0][:parts] for other in heap[1:3])


def _build_streams(jobs: list[WaitingJob], shares: "_DominantShares", policy: Policy, now: float) -> list["_JobStream"]:
    """Group and sort jobs with arrays; ten times as fast as one by one."""
    if not jobs:
        return []
    priority, overdue, work = _age_priorities(jobs, policy, now)
    owners = np.stack([_column(jobs, name) for name in ("pool", "team", "user")])
    owners[1:, overdue] = ANY_OWNER
    rest = _column(jobs, "job"), _column(jobs, "submitted_at", float), work
    order = np.lexsort((*rest, ~overdue, -priority, *owners[::-1]))
    alike = np.stack((*owners, -priority, ~overdue))[:, order]
    first = np.flatnonzero((alike[:, 1:] != alike[:, :-1]).any(axis=0)) + 1
    ranked, work = [jobs[at] for at in order.tolist()], work[order]
    return [
        _JobStream(ranked[a:b], work[a:b].tolist(), shares, *alike[:, a].tolist())
        for a, b in pairwise((0, *first.tolist(), len(jobs)))
    ]


def _age_priorities(jobs: list[WaitingJob], policy: Policy, now: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return per job: effective priority, whether overdue (before fair share), work to go."""
    own = [policy.for_pool(pool) for pool in range(1 + max(job.pool for job in jobs))]
    pool, priority, work = _column(jobs, "pool"), _column(jobs, "priority"), np.zeros(len(jobs))
    waited = np.maximum(now - _column(jobs, "submitted_at", float), 0.0) / np.array([o.ageing_s for o in own])[pool]
    for at in np.flatnonzero(np.array([o.short_first for o in own])[pool]).tolist():
        waited[at], work[at] = (
            tell(jobs[at], own[pool[at]], now) for tell in (_patience_used, estimate_remaining_work)
        )
    aged = priority + waited.astype(np.int64)
    overdue = (priority < URGENT) & (aged > HIGH)
    work[overdue] = 0.0
    return np.where(priority < URGENT, np.minimum(aged, HIGH), priority), overdue, work


def _column(jobs: list[WaitingJob], name: str, kind: type = np.int64) -> np.ndarray:
    return np.fromiter(map(attrgetter(name), jobs), kind, len(jobs))


class _PausedLines:
    """Pools whose first job depends on its turn in another pool."""

    def __init__(self, depends: Callable[[WaitingJob], bool]):
        self.lines: dict[int, tuple[WaitingJob, list[tuple]]] = {}
        """{pool: (first job, heap entries of its trees)}."""
        self._depends = depends
        self._passed: WaitingJob | None = None

    def must_pause(self, tree: "_TeamTree") -> bool:
        job = tree.first().jobs[-1]
        return job is not self._passed and self._depends(job)

    def pause(self, tree: "_TeamTree", heap: list[tuple]) -> list[tuple]:
        """Return the heap without the trees of this one's pool."""
        self.lines[tree.pool] = tree.first().jobs[-1], [entry for entry in heap if entry[2].pool == tree.pool]
        rest = [entry for entry in heap if entry[2].pool != tree.pool]
        heapify(rest)
        return rest

    def resume(self, heap: list[tuple]) -> None:
        """Put lines back whose first job depends on nothing any more; one of them anyway if the heap is empty."""
        ready = [pool for pool, (job, _) in self.lines.items() if not self._depends(job)]
        if not ready and not heap:
            ready = [min(self.lines, key=lambda pool: min(self.lines[pool][1])[:2])]
            self._passed = self.lines[ready[0]][0]
        for pool in ready:
            for entry in self.lines.pop(pool)[1]:
                heappush(heap, entry)


class _TeamTree:
    """Streams of one pool and root team."""

    def __init__(self, streams: list["_JobStream"], shares: "_DominantShares", pool: int, root: int):
        self._heap = [(stream.key(), place, stream) for place, stream in enumerate(streams)]
        self._shares = shares
        self.pool = pool
        self._root = pool, root
        self._keyed_at = -1
        heapify(self._heap)

    def key(self) -> tuple:
        """Return the first stream's key, with the root's share inserted."""
        self._keyed_at = self._shares.version
        old, place, stream = self._heap[0]
        while stream.is_stale() and (key := stream.key()) != old:
            heapreplace(self._heap, (key, place, stream))
            old, place, stream = self._heap[0]
        priority, not_overdue, shares, rest = old
        return priority, not_overdue, self._shares.team_share(*self._root) if not_overdue else 0.0, shares, rest

    def is_stale(self) -> bool:
        """Check whether the snapshot changed since the key was computed."""
        return self._keyed_at != self._shares.version

    def uncontested(self) -> int:
        """Return how many jobs may be popped while the snapshot is unchanged."""
        return len(self._heap[0][2].jobs) if _is_first(self._heap, 3) else 1

    def first(self) -> "_JobStream":
        """Return the stream of the next job; after its `pop`, call `advance` before the next key."""
        return self._heap[0][2]

    def advance(self) -> bool:
        """Update the heap, and return whether jobs are left."""
        _, place, stream = self._heap[0]
        if stream.jobs:
            heapreplace(self._heap, (stream.key(), place, stream))
        else:
            heappop(self._heap)
        return bool(self._heap)


class _JobStream:
    """Jobs of one class, user, team and pool; shares do not change their order."""

    def __init__(
        self,
        jobs: list[WaitingJob],
        work: list[float],
        shares: "_DominantShares",
        pool: int,
        team: int,
        user: int,
        priority: int,
        not_overdue: int,
    ):
        self.jobs = jobs[::-1]
        """Next one last."""
        self._work = work[::-1]
        self._shares = shares
        self._keyed_at = -1
        self.pool, self.team, self.user = pool, team, user
        self._class = priority, bool(not_overdue)

    def key(self) -> tuple:
        self._keyed_at = self._shares.version
        shares = self._shares.shares_below_root(self.pool, self.team, self.user) if self._class[1] else ()
        return *self._class, shares, (self._work[-1], self.jobs[-1].submitted_at, self.jobs[-1].job)

    def pop(self) -> WaitingJob:
        self._work.pop()
        return self.jobs.pop()

    def is_stale(self) -> bool:
        return self._keyed_at != self._shares.version


class _DominantShares:
    """Dominant shares of teams and users, cached by snapshot version."""

    def __init__(self, snapshot: Snapshot):
        self._snapshot = snapshot
        self._known: dict[tuple, Any] = {}
        self._version = snapshot.version

    @cached_property
    def _cluster_capacity(self) -> tuple[int, ...]:
        snapshot = self._snapshot
        return _sum_capacity(np.ones_like(snapshot.gpu_open), np.ones_like(snapshot.node_open), snapshot)

    @cached_property
    def _pool_capacities(self) -> list[tuple[int, ...]]:
        return [_pool_capacity(self._snapshot, pool) for pool in range(self._snapshot.held.shape[1])]

    @property
    def version(self) -> int:
        return self._snapshot.version

    def team_share(self, pool: int, team: int) -> float:
        return self._cached((pool, team), self._compute_team_share)

    def shares_below_root(self, pool: int, team: int, user: int) -> tuple[tuple[float, ...], float]:
        """Return (shares of the chain below the root, share of the user)."""
        return self._cached((pool, team, user), self._compute_shares_below_root)

    def _cached(self, key: tuple, find: Callable) -> Any:
        if self._version != self._snapshot.version:
            self._version, self._known = self._snapshot.version, {}
        if key not in self._known:
            self._known[key] = find(*key)
        return self._known[key]

    def _compute_team_share(self, pool: int, team: int) -> float:
        held, weight = self._snapshot.held[team, pool].tolist(), int(self._snapshot.weight[team, pool])
        return _dominant_share(held, self._pool_capacities[pool]) / max(weight, 1)

    def _compute_shares_below_root(self, pool: int, team: int, user: int) -> tuple[tuple[float, ...], float]:
        chain = reversed(self._snapshot.team_chain[team][:-1])
        of_user = _dominant_share(self._snapshot.user_held[user].tolist(), self._cluster_capacity)
        return tuple(self._compute_team_share(pool, above) for above in chain), of_user


def _dominant_share(held: list[int], capacity: tuple[int, ...]) -> float:
    return max(used / most for used, most in zip(held, capacity, strict=True))


def _pool_capacity(snapshot: Snapshot, pool: int) -> tuple[int, ...]:
    cards, nodes = snapshot.gpu_pool == pool, snapshot.node_pool == pool
    nodes[snapshot.gpu_node[cards]] = True
    return _sum_capacity(cards, nodes, snapshot)


def _sum_capacity(cards: np.ndarray, nodes: np.ndarray, snapshot: Snapshot) -> tuple[int, ...]:
    """Sum capacity by RESOURCES, each at least 1."""
    cpu, memory = snapshot.node_cpu_total[nodes].sum(), snapshot.node_memory_total[nodes].sum()
    return max(1000 * int(cards.sum()), 1), max(int(cpu), 1), max(int(memory), 1)
