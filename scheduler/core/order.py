"""In which order jobs are looked at: class of priority, raised by age; then who has least; then who came first.

Who has least is told by the weighted dominant share (Ghodsi et al., NSDI'11): the largest of a team's shares of the
pool's cards, CPU and memory, divided by the team's weight. Teams are compared where their chains part, from the root
down; then the people of a team by what they hold. Shares follow the snapshot: who gets a card moves back at once.

Between jobs of one person the shortest goes first where the policy says so: by card-seconds, divided by one and by how
often it has waited for its patience. What is short is thus served at once, and nobody is short for ever: a score made
of work and slowdown, as F1 and WFP3 are (Carastan-Santos and de Camargo, SC'17; Tang et al., Cluster'09).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from scheduler.core.snapshot import Snapshot
from scheduler.core.types import HIGH, URGENT, Policy, Running, Waiting

ANYBODY = 0
"""In the place of pool, team and user of who is overdue."""
PATIENCE = 4.0
"""Where the short go first, a job rises by one class for so many times of its own time."""


def in_order(snapshot: Snapshot, jobs: Iterable[Waiting], policy: Policy, now: float) -> Iterator[Waiting]:
    """The jobs, the first to be served first. What the caller takes from the snapshot in between is seen.

    Holdings may only grow meanwhile: a key is then never too large, and is looked at again only when its turn comes.
    """
    shares = _Shares(snapshot)
    streams = _streams(list(jobs), shares, policy, now)
    if len(streams) == 1:  # nobody to compare with
        yield from reversed(streams[0].jobs)
        return
    trees: defaultdict[tuple[int, int], list[_Stream]] = defaultdict(list)
    for stream in streams:
        trees[stream.pool, snapshot.team_chain[stream.team][-1]].append(stream)
    line = [_Tree(of_tree, shares, *tree) for tree, of_tree in trees.items()]
    heap = [(tree.key(), place, tree) for place, tree in enumerate(line)]
    heapify(heap)
    while heap:
        old, place, tree = heap[0]
        if tree.is_stale() and (key := tree.key()) != old:
            heapreplace(heap, (key, place, tree))
            continue
        for _ in range(tree.run() if _leads(heap, 4) else 1):
            yield tree.pop()
            if tree.is_stale():
                break
        if tree.go_on():
            heapreplace(heap, (tree.key(), place, tree))
        else:
            heappop(heap)


def effective_priority(job: Waiting, policy: Policy, now: float) -> int:
    """The job's class, one higher each time that it has waited for its patience. Age never makes a job urgent."""
    priority, _, _ = _ages([job], policy, now)
    return int(priority[0])


def work_to_go(job: Waiting | Running, own: Policy, now: float) -> float:
    """Card-seconds by its own word, discounted by age: divided by one and by how often it had waited for its patience
    (`_waited`), for one that runs until it started. Work without a card counts as a hundredth of one.
    """
    if isinstance(job, Running):
        left_s, cards = job.ends_at - now, sum(len(task.cards) for task in job.tasks)
    else:
        left_s, cards = job.time_s, sum([role.min * role.ask.gpus for role in job.gang])
    return min(left_s, own.longest_s) * max(cards, 0.01) / (1.0 + _waited(job, own, now))


def _waited(job: Waiting | Running, own: Policy, now: float) -> float:
    """How often the job has waited for its patience: `ageing_s`, and where the short go first PATIENCE times its own
    time, so that age does not put the long ones before them.
    """
    patience_s = own.ageing_s + (PATIENCE * min(job.time_s, own.longest_s) if own.short_first else 0.0)
    return (job.waited_s if isinstance(job, Running) else max(0.0, now - job.submitted_at)) / patience_s


def _leads(heap: list, parts: int) -> bool:
    """Does the first come before all others by so many parts of its key, whoever of its jobs is next? Keys that were
    told before somebody took something are never too large.
    """
    first = heap[0][0][:parts]
    return all(first < other[0][:parts] for other in heap[1:3])


def _streams(jobs: list[Waiting], shares: "_Shares", policy: Policy, now: float) -> list["_Stream"]:
    """Sorted all at once by arrays: job by job it takes ten times as long."""
    if not jobs:
        return []
    priority, overdue, work = _ages(jobs, policy, now)
    owners = np.stack([_column(jobs, name) for name in ("pool", "team", "user")])
    owners[:, overdue] = ANYBODY
    rest = _column(jobs, "job"), _column(jobs, "submitted_at", float), work
    order = np.lexsort((*rest, ~overdue, -priority, *owners[::-1]))
    alike = np.stack((*owners, -priority, ~overdue))[:, order]
    first = np.flatnonzero((alike[:, 1:] != alike[:, :-1]).any(axis=0)) + 1
    ranked, work = [jobs[at] for at in order.tolist()], work[order]
    return [
        _Stream(ranked[a:b], work[a:b].tolist(), shares, *alike[:, a].tolist())
        for a, b in pairwise((0, *first.tolist(), len(jobs)))
    ]


def _ages(jobs: list[Waiting], policy: Policy, now: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[jobs] the effective priority; is it overdue, beyond the highest class that age can give? Then it goes before
    whoever has less, so that none starves; the work to go where the short go first, else 0.
    """
    own = [policy.of(pool) for pool in range(1 + max(job.pool for job in jobs))]
    pool, priority, work = _column(jobs, "pool"), _column(jobs, "priority"), np.zeros(len(jobs))
    waited = np.maximum(now - _column(jobs, "submitted_at", float), 0.0) / np.array([o.ageing_s for o in own])[pool]
    for at in np.flatnonzero(np.array([o.short_first for o in own])[pool]).tolist():
        waited[at], work[at] = (tell(jobs[at], own[pool[at]], now) for tell in (_waited, work_to_go))
    aged = priority + waited.astype(np.int64)
    overdue = (priority < URGENT) & (aged > HIGH)
    work[overdue] = 0.0
    return np.where(priority < URGENT, np.minimum(aged, HIGH), priority), overdue, work


def _column(jobs: list[Waiting], name: str, kind: type = np.int64) -> np.ndarray:
    return np.fromiter(map(attrgetter(name), jobs), kind, len(jobs))


class _Tree:
    """The streams of one pool and one tree of teams. What the root holds moves them all, and is asked once for all."""

    def __init__(self, streams: list["_Stream"], shares: "_Shares", pool: int, root: int):
        self._heap = [(stream.key(), place, stream) for place, stream in enumerate(streams)]
        self._shares = shares
        self._root = pool, root
        self._told_at = -1
        heapify(self._heap)

    def key(self) -> tuple:
        """That of the first stream, with the share of the root before the others."""
        self._told_at = self._shares.version
        old, place, stream = self._heap[0]
        while stream.is_stale() and (key := stream.key()) != old:
            heapreplace(self._heap, (key, place, stream))
            old, place, stream = self._heap[0]
        priority, not_overdue, shares, rest = old
        return priority, not_overdue, self._shares.of_team(*self._root) if not_overdue else 0.0, shares, rest

    def is_stale(self) -> bool:
        """Has anybody taken anything since the key was told?"""
        return self._told_at != self._shares.version

    def run(self) -> int:
        """How many may be popped one after another while nobody takes anything."""
        return len(self._heap[0][2].jobs) if _leads(self._heap, 3) else 1

    def pop(self) -> Waiting:
        """The job that `key` told of, or the next of its `run`. `go_on` before the next key is asked for."""
        return self._heap[0][2].pop()

    def go_on(self) -> bool:
        """Is anybody left?"""
        _, place, stream = self._heap[0]
        if stream.jobs:
            heapreplace(self._heap, (stream.key(), place, stream))
        else:
            heappop(self._heap)
        return bool(self._heap)


class _Stream:
    """The jobs of one class of one person for one team in one pool, or all that are overdue: for these no share counts.
    Their order among themselves does not depend on shares.
    """

    def __init__(
        self,
        jobs: list[Waiting],
        work: list[float],
        shares: "_Shares",
        pool: int,
        team: int,
        user: int,
        priority: int,
        not_overdue: int,
    ):
        self.jobs = jobs[::-1]
        """The next one last."""
        self._work = work[::-1]
        self._shares = shares
        self._told_at = -1
        self.pool, self.team, self.user = pool, team, user
        self._class = priority, bool(not_overdue)

    def key(self) -> tuple:
        self._told_at = self._shares.version
        shares = self._shares.below_root(self.pool, self.team, self.user) if self._class[1] else ()
        return *self._class, shares, (self._work[-1], self.jobs[-1].submitted_at, self.jobs[-1].job)

    def pop(self) -> Waiting:
        self._work.pop()
        return self.jobs.pop()

    def is_stale(self) -> bool:
        return self._told_at != self._shares.version


class _Shares:
    """Dominant shares of teams in a pool, and of users in the cluster."""

    def __init__(self, snapshot: Snapshot):
        self._snapshot = snapshot
        self._known: dict[tuple, Any] = {}
        self._version = snapshot.version

    @cached_property
    def _everything(self) -> tuple[int, ...]:
        snapshot = self._snapshot
        return _capacity(np.ones_like(snapshot.gpu_open), np.ones_like(snapshot.node_open), snapshot)

    @cached_property
    def _pools(self) -> list[tuple[int, ...]]:
        return [_pool_capacity(self._snapshot, pool) for pool in range(self._snapshot.held.shape[1])]

    @property
    def version(self) -> int:
        return self._snapshot.version

    def of_team(self, pool: int, team: int) -> float:
        return self._once((pool, team), self._of_team)

    def below_root(self, pool: int, team: int, user: int) -> tuple[tuple[float, ...], float]:
        """(shares of the team's chain from below the root down, share of the user)."""
        return self._once((pool, team, user), self._below_root)

    def _once(self, key: tuple, find: Callable) -> Any:
        if self._version != self._snapshot.version:
            self._version, self._known = self._snapshot.version, {}
        if key not in self._known:
            self._known[key] = find(*key)
        return self._known[key]

    def _of_team(self, pool: int, team: int) -> float:
        held, weight = self._snapshot.held[team, pool].tolist(), int(self._snapshot.weight[team, pool])
        return _dominant(held, self._pools[pool]) / max(weight, 1)

    def _below_root(self, pool: int, team: int, user: int) -> tuple[tuple[float, ...], float]:
        chain = reversed(self._snapshot.team_chain[team][:-1])
        of_user = _dominant(self._snapshot.user_held[user].tolist(), self._everything)
        return tuple(self._of_team(pool, above) for above in chain), of_user


def _dominant(held: list[int], capacity: tuple[int, ...]) -> float:
    return max(used / most for used, most in zip(held, capacity, strict=True))


def _pool_capacity(snapshot: Snapshot, pool: int) -> tuple[int, ...]:
    """What there is of the pool: its cards, and CPU and memory of the nodes that are its home or carry its cards."""
    cards, nodes = snapshot.gpu_pool == pool, snapshot.node_pool == pool
    nodes[snapshot.gpu_node[cards]] = True
    return _capacity(cards, nodes, snapshot)


def _capacity(cards: np.ndarray, nodes: np.ndarray, snapshot: Snapshot) -> tuple[int, ...]:
    """In the columns of quota, each at least 1."""
    cpu, memory = snapshot.node_cpu_total[nodes].sum(), snapshot.node_memory_total[nodes].sum()
    return max(1000 * int(cards.sum()), 1), max(int(cpu), 1), max(int(memory), 1)
