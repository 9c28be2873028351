"""Queue order: priority raised by age, then fair share, then arrival.

Fair share is weighted DRF (Ghodsi et al., NSDI'11) by team tree, then by user, and follows the snapshot. With
`short_first`, the fewest card-seconds go first within a user, discounted by age so that none starves.
"""

from collections import defaultdict
from collections.abc import Collection, Generator, Iterator, Set
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import HIGH, URGENT, Policy, RunningJob, WaitingJob
from scheduler.core.queueing.dominant_shares import DominantShares
from scheduler.core.queueing.job_rows import JobColumns, JobRows

ANY_OWNER = 0
"""Team and user of overdue jobs, whose shares do not count."""
PATIENCE = 4.0
"""With `short_first`, multiples of its own run time that a job waits to rise by one class."""
RANKS_REST = 64
"""What is left is ranked at once after one in so many of it took nothing: worth it even if somebody then starts."""


class Turn(NamedTuple):
    """A job's place in the order, from 0. row, alike: see `JobRows`. number: `WaitingJob.job`."""

    job: WaitingJob
    at: int
    row: int
    alike: int
    number: int


class Turns(Protocol):
    def depends(self, job: WaitingJob) -> bool:
        """Check whether what is decided about the job depends on its turn in another pool."""

    def list_unsettled(self) -> Collection[int]:
        """Return the numbers of jobs of which a turn may still depend on another one."""


class _AnyTurn(Turns):
    def depends(self, job: WaitingJob) -> bool:
        return False

    def list_unsettled(self) -> Collection[int]:
        return ()


ANY_TURN = _AnyTurn()


class EqualJobs(Protocol):
    """Jobs that do as an equal one before them, until somebody takes something: nobody decides about each."""

    def group(self, jobs: JobColumns, chosen: np.ndarray) -> np.ndarray:
        """Return numbers that are the same for jobs that do the same now. chosen: [n] the places of these jobs."""

    def list_single(self) -> Collection[int]:
        """Return the numbers of jobs that always get their own turn."""

    def is_single(self, number: int) -> bool:
        """Check whether the job does since its last turn."""

    def follow(self, alike: int) -> bool:
        """Check whether the jobs of this number do as the one whose turn just came."""

    def note_followers(self, at: np.ndarray, row: np.ndarray, alike: np.ndarray) -> None:
        """Take the turns of jobs that do so."""


class _AllSingle(EqualJobs):
    def group(self, jobs: JobColumns, chosen: np.ndarray) -> np.ndarray:
        return jobs.alike[chosen]

    def list_single(self) -> Collection[int]:
        return ()

    def is_single(self, number: int) -> bool:
        return False

    def follow(self, alike: int) -> bool:
        return False

    def note_followers(self, at: np.ndarray, row: np.ndarray, alike: np.ndarray) -> None:
        pass


ALL_SINGLE = _AllSingle()


def order_jobs(
    snapshot: Snapshot,
    jobs: JobColumns,
    policy: Policy,
    now: float,
    turns: Turns = ANY_TURN,
    equal: EqualJobs = ALL_SINGLE,
) -> Iterator[Turn]:
    """Yield jobs in order, following what the caller takes meanwhile. Those that do as an equal one are not yielded.

    Usage may only grow: a stale key is then never too large, and recomputed only when it comes first.
    turns: of jobs that wait in several pools. A pool's line waits while the turn of its first job depends on another
    pool, unless the lines wait for each other; so jobs keep their order in each pool.
    """
    shares = DominantShares(snapshot)
    streams = _build_streams(jobs, shares, policy, now)
    in_vain = 0
    while streams:
        waited_for = yield from _merge(streams, shares, turns, in_vain)
        streams = [stream for stream in streams if stream.left]
        if going_on := [stream for stream in streams if stream.pool not in waited_for]:
            took_nothing = yield from _rank_rest(going_on, shares, turns, equal, set(waited_for.values()))
            streams = [stream for stream in streams if stream.left]
            in_vain = sum(stream.left for stream in streams) if took_nothing else 0


def _merge(
    streams: list["_JobStream"], shares: DominantShares, turns: Turns, in_vain: int
) -> Generator[Turn, None, dict[int, int]]:
    """Yield jobs one by one, until so many in a row took nothing that it is cheaper to rank the rest at once.

    in_vain: how many took nothing before. Return {pool whose line waits: the job whose turn elsewhere it waits for}.
    """
    trees: defaultdict[tuple[int, int], list[_JobStream]] = defaultdict(list)
    for stream in streams:
        trees[stream.pool, shares.root_of(stream.team)].append(stream)
    line = [_TeamTree(of_tree, shares, *tree) for tree, of_tree in trees.items()]
    heap = [(tree.key(), place, tree) for place, tree in enumerate(line)]
    heapify(heap)
    paused = _PausedLines(turns)
    left = sum(stream.left for stream in streams)
    while heap or paused.lines:
        if paused.lines:
            paused.resume(heap)
        old, place, tree = heap[0]
        if tree.is_stale() and (key := tree.key()) != old:
            heapreplace(heap, (key, place, tree))
            continue
        stream, version = tree.first(), shares.version
        if stream.first.choice > 0 and paused.must_pause(tree):
            heap = paused.pause(tree, heap)
            continue
        if in_vain * RANKS_REST > left:
            break
        for turn in range(tree.uncontested() if _is_first(heap, 4) else 1):
            if turn and stream.first.choice > 0 and paused.must_pause(tree):
                break
            yield stream.pop()
            left, in_vain = left - 1, in_vain + 1
            if shares.version != version:
                in_vain = 0
                break
        if tree.advance():
            heapreplace(heap, (tree.key(), place, tree))
        else:
            heappop(heap)
    return {pool: job.job for pool, (job, _) in paused.lines.items()}


def _rank_rest(
    streams: list["_JobStream"], shares: DominantShares, turns: Turns, equal: EqualJobs, waited_for: Set[int]
) -> Generator[Turn, None, bool]:
    """Yield what is left in order, until the caller takes something, for no share changes before, until a pool's line
    has to wait for another one, or until the turn came of a job that one waits for.

    The first turn is that of a job that `_merge` looked at. Return whether the caller took nothing.
    """
    queue, version = streams[0].queue, shares.version
    owner, place = _rank(streams)
    unsettled = turns.list_unsettled()
    alike, number = equal.group(queue.jobs, queue.order[place]), queue.number[place]
    single = np.isin(number, [*unsettled, *equal.list_single()])
    came, after, end = np.zeros(len(place), dtype=bool), _find_next_alike(alike), len(place)
    coming = np.union1d(single.nonzero()[0], np.unique(alike, return_index=True)[1]).tolist()  # in order, thus a heap
    while coming:
        at = heappop(coming)
        if came[at]:
            continue
        turn = queue.turn(int(place[at]), at, int(alike[at]))
        if at and unsettled and turn.number in unsettled and turn.job.choice > 0 and turns.depends(turn.job):
            end = at
            break
        came[at] = True
        yield turn
        if shares.version != version or turn.number in waited_for:
            end = at + 1
            break
        if after[at] < len(place) and not equal.follow(turn.alike):
            heappush(coming, int(after[at]))
        if not single[at] and equal.is_single(turn.number):
            for other in (number[at:] == turn.number).nonzero()[0].tolist():
                heappush(coming, at + other)
    late = (~came[:end]).nonzero()[0]
    equal.note_followers(queue.taken + late, queue.row[place[late]], alike[late])
    queue.taken += end
    for stream, count in zip(streams, np.bincount(owner[:end], minlength=len(streams)).tolist(), strict=True):
        stream.at += count
    return shares.version == version


def _rank(streams: list["_JobStream"]) -> tuple[np.ndarray, np.ndarray]:
    """Return of what is left, in order: (its stream, its place in the queue)."""
    keys = [stream.rank() for stream in streams]
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    owner = np.repeat(np.arange(len(streams)), [stream.left for stream in streams])
    place = np.concatenate([np.arange(stream.at, stream.end) for stream in streams])
    order = np.lexsort((*streams[0].queue.rest[:, place], np.array([ranks[key] for key in keys])[owner]))
    return owner[order], place[order]


def _find_next_alike(alike: np.ndarray) -> np.ndarray:
    """Return where each number comes next, the length where it does not."""
    order = alike.argsort(kind="stable")
    after = np.full(len(alike), len(alike))
    same = alike[order[1:]] == alike[order[:-1]]
    after[order[:-1][same]] = order[1:][same]
    return after


def get_effective_priority(job: WaitingJob, policy: Policy, now: float) -> int:
    """Return the job's class, raised by age but never to urgent."""
    priority, _, _ = _age_priorities(JobRows().columns_of([job]), policy, now)
    return int(priority[0])


def get_started_priority(job: RunningJob, own: Policy, now: float) -> int:
    """Return the class in which a running job started, raised by its age then but never to urgent."""
    return max(job.priority, min(job.priority + int(measure_patience_used(job, own, now)), HIGH))


def estimate_remaining_work(job: WaitingJob | RunningJob, own: Policy, now: float) -> float:
    """Estimate remaining card-seconds, discounted by age."""
    if isinstance(job, RunningJob):
        left_s, cards = job.ends_at - now, sum(len(task.cards) for task in job.tasks)
    else:
        left_s, cards = job.time_s, sum([role.min * role.ask.gpus for role in job.gang])
    return min(left_s, own.longest_s) * max(cards, 0.01) / (1.0 + measure_patience_used(job, own, now))


def measure_patience_used(job: WaitingJob | RunningJob, own: Policy, now: float) -> float:
    """Return the wait in units of patience, longer for long jobs with `short_first`."""
    patience_s = own.ageing_s + (PATIENCE * min(job.time_s, own.longest_s) if own.short_first else 0.0)
    return (job.waited_s if isinstance(job, RunningJob) else max(0.0, now - job.waits_from)) / patience_s


def _is_first(heap: list, parts: int) -> bool:
    """Check whether the first key leads in its first parts."""
    first = heap[0][0][:parts]
    return all(first < other[0][:parts] for other in heap[1:3])


class _Queue:
    """Jobs by stream, and in each in order.

    work: [n]. rest: [4, n] what orders jobs of one rank, the last row first: pool, job, submitted_at, work.
    """

    def __init__(self, jobs: JobColumns, order: np.ndarray, work: np.ndarray):
        self.jobs, self.order = jobs, order
        self.row, self.number = jobs.row[order], jobs.number[order]
        self.work = work[order].tolist()
        self.rest = np.stack((jobs.pool, jobs.number, jobs.submitted_at, work))[:, order]
        self.taken = 0
        """How many turns came."""

    def __len__(self) -> int:
        return len(self.order)

    def job(self, place: int) -> WaitingJob:
        return self.jobs.jobs[self.order[place]]

    def turn(self, place: int, after: int, alike: int) -> Turn:
        """Return the turn of a job after so many others."""
        return Turn(self.job(place), self.taken + after, int(self.row[place]), alike, int(self.number[place]))


def _build_streams(jobs: JobColumns, shares: DominantShares, policy: Policy, now: float) -> list["_JobStream"]:
    """Group and sort jobs with arrays; ten times as fast as one by one."""
    if not jobs.jobs:
        return []
    priority, overdue, work = _age_priorities(jobs, policy, now)
    owners = np.stack((jobs.pool, jobs.team, jobs.user))
    owners[1:, overdue] = ANY_OWNER
    order = np.lexsort((jobs.number, jobs.submitted_at, work, ~overdue, -priority, *owners[::-1]))
    alike = np.stack((*owners, -priority, ~overdue))[:, order]
    first = np.flatnonzero((alike[:, 1:] != alike[:, :-1]).any(axis=0)) + 1
    queue = _Queue(jobs, order, work)
    bounds = pairwise((0, *first.tolist(), len(queue)))
    return [_JobStream(queue, a, b, shares, *alike[:, a].tolist()) for a, b in bounds]


def _age_priorities(jobs: JobColumns, policy: Policy, now: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return per job: effective priority, whether overdue (before fair share), work to go."""
    pool, priority, work = jobs.pool, jobs.priority, np.zeros(len(jobs.pool))
    own = [policy.for_pool(place) for place in range(1 + int(pool.max()))]
    waited = np.maximum(now - jobs.waits_from, 0.0) / np.array([o.ageing_s for o in own])[pool]
    for at in np.flatnonzero(np.array([o.short_first for o in own])[pool]).tolist():
        waited[at], work[at] = (
            tell(jobs.jobs[at], own[pool[at]], now) for tell in (measure_patience_used, estimate_remaining_work)
        )
    aged = priority + waited.astype(np.int64)
    overdue = (priority < URGENT) & (aged > HIGH)
    work[overdue] = 0.0
    return np.where(priority < URGENT, np.minimum(aged, HIGH), priority), overdue, work


class _PausedLines:
    """Pools whose first job depends on its turn in another pool."""

    def __init__(self, turns: Turns):
        self.lines: dict[int, tuple[WaitingJob, list[tuple]]] = {}
        """{pool: (first job, heap entries of its trees)}."""
        self._turns = turns
        self._passed: WaitingJob | None = None

    def must_pause(self, tree: "_TeamTree") -> bool:
        job = tree.first().first
        return job is not self._passed and self._turns.depends(job)

    def pause(self, tree: "_TeamTree", heap: list[tuple]) -> list[tuple]:
        """Return the heap without the trees of this one's pool."""
        self.lines[tree.pool] = tree.first().first, [entry for entry in heap if entry[2].pool == tree.pool]
        rest = [entry for entry in heap if entry[2].pool != tree.pool]
        heapify(rest)
        return rest

    def resume(self, heap: list[tuple]) -> None:
        """Put lines back whose first job depends on nothing any more; one of them anyway if the heap is empty."""
        ready = [pool for pool, (job, _) in self.lines.items() if not self._turns.depends(job)]
        if not ready and not heap:
            ready = [min(self.lines, key=lambda pool: min(self.lines[pool][1])[:2])]
            self._passed = self.lines[ready[0]][0]
        for pool in ready:
            for entry in self.lines.pop(pool)[1]:
                heappush(heap, entry)


class _TeamTree:
    """Streams of one pool and root team."""

    def __init__(self, streams: list["_JobStream"], shares: DominantShares, pool: int, root: int):
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
        return self._heap[0][2].left if _is_first(self._heap, 3) else 1

    def first(self) -> "_JobStream":
        """Return the stream of the next job; after its `pop`, call `advance` before the next key."""
        return self._heap[0][2]

    def advance(self) -> bool:
        """Update the heap, and return whether jobs are left."""
        _, place, stream = self._heap[0]
        if stream.left:
            heapreplace(self._heap, (stream.key(), place, stream))
        else:
            heappop(self._heap)
        return bool(self._heap)


class _JobStream:
    """Jobs of one class, user, team and pool, from `at` on; shares do not change their order."""

    def __init__(
        self,
        queue: _Queue,
        at: int,
        end: int,
        shares: DominantShares,
        pool: int,
        team: int,
        user: int,
        priority: int,
        not_overdue: int,
    ):
        self.queue, self.at, self.end = queue, at, end
        self._shares = shares
        self._keyed_at = -1
        self.pool, self.team, self.user = pool, team, user
        self._class = priority, bool(not_overdue)

    @property
    def first(self) -> WaitingJob:
        return self.queue.job(self.at)

    @property
    def left(self) -> int:
        return self.end - self.at

    def key(self) -> tuple:
        self._keyed_at, first = self._shares.version, self.first
        return *self._class, self._shares_below(), (self.queue.work[self.at], first.submitted_at, first.job)

    def rank(self) -> tuple:
        """Return what comes before `_Queue.rest` in the order."""
        of_root = self._shares.of_root(self.pool, self.team) if self._class[1] else 0.0
        return *self._class, of_root, self._shares_below()

    def _shares_below(self) -> tuple:
        return self._shares.shares_below_root(self.pool, self.team, self.user) if self._class[1] else ()

    def pop(self) -> Turn:
        turn = self.queue.turn(self.at, 0, int(self.queue.jobs.alike[self.queue.order[self.at]]))
        self.at, self.queue.taken = self.at + 1, self.queue.taken + 1
        return turn

    def is_stale(self) -> bool:
        return self._keyed_at != self._shares.version
