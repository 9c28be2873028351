"""Published queue policies on traces of gang jobs (B3, B4).

Placed as in HeliosArtifact (`consolidate.py`). SRTF and LAS count cards over the whole queue, which no Policy
expresses: a replay of its own.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heapify, heappop, heappush, heapreplace
from math import ceil, inf, log
from operator import attrgetter

import numpy as np

from bench.replays.gang_traces import TraceJob
from bench.replays.published_scores import choose_first_cards
from scheduler.core.model.demand import build_demand
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Placement, Policy, Role, TaskResources, WaitingJob
from scheduler.core.placement.gang_placement import UNLIMITED_QUOTA, place_gang
from scheduler.core.placement.scores import ScoreTable
from scheduler.core.placement.shortfall import Shortfall
from scheduler.core.queueing.release_times import estimate_end
from scheduler.simulation.cluster_spec import SimulatedCluster, SimulatedNode, SimulatedTeam, build_snapshot

NODE_CARDS = 8
CARD_MIB = 1024
STRICT, SKIP, EASY = "strict", "skip", "easy"
MAX_BACKFILL_CANDIDATES = 400
"""Jobs in line that are considered for backfilling."""
LAS_LIMIT = 3600.0
"""Card-seconds after which a job moves to the second queue."""
KNOWN_LENGTH = attrgetter("duration_s")
JUST_BEYOND, NOTHING = 1e-3, 1e-9
"""Tolerances in seconds."""


@dataclass(frozen=True)
class QueueRule:
    """A non-preemptive rule. order: smallest first. when_blocked: which jobs may pass a blocked first one.

    length: what backfilling takes a job to last.
    """

    order: Callable[[TraceJob], float]
    when_blocked: str
    length: Callable[[TraceJob], float] = KNOWN_LENGTH


@dataclass(frozen=True)
class PreemptiveQueueRule:
    """A preemptive rule. order: of (seconds left, card-seconds used, job). demote_at: card-seconds."""

    order: Callable[[float, float, TraceJob], tuple]
    demote_at: float = inf


@dataclass
class ReplayOutcome:
    """queue_s: {row: seconds from submit to end beyond its duration}."""

    queue_s: dict[int, float] = field(default_factory=dict)
    jct_s: dict[int, float] = field(default_factory=dict)
    preemptions: int = 0
    ended_at: float = 0.0

    def record_end(self, job: TraceJob, at: float) -> None:
        self.jct_s[job.row] = at - job.submit_s
        self.queue_s[job.row] = at - job.submit_s - job.duration_s
        self.ended_at = max(self.ended_at, at)


RULES: dict[str, QueueRule | PreemptiveQueueRule] = {
    "fifo-strict": QueueRule(lambda job: job.submit_s, STRICT),
    "fifo-skip": QueueRule(lambda job: job.submit_s, SKIP),
    "fifo-easy": QueueRule(lambda job: job.submit_s, EASY),
    "sjf-strict": QueueRule(lambda job: job.duration_s, STRICT),
    "sjf-skip": QueueRule(lambda job: job.duration_s, SKIP),
    "gpu-seconds-skip": QueueRule(lambda job: job.duration_s * job.gpus, SKIP),
    "qssf-strict": QueueRule(lambda job: job.predicted_s * job.gpus, STRICT),
    "qssf-skip": QueueRule(lambda job: job.predicted_s * job.gpus, SKIP),
    "ageing-skip": QueueRule(lambda job: log(job.predicted_s) + job.submit_s / 172_800, SKIP),
    "srtf": PreemptiveQueueRule(lambda left, had, job: (left,)),
    "las": PreemptiveQueueRule(lambda left, had, job: (had >= LAS_LIMIT, job.submit_s), LAS_LIMIT),
}


KNOWN_RULES = {
    "fifo": QueueRule(lambda job: job.submit_s, STRICT),
    "easy": QueueRule(lambda job: job.submit_s, EASY, lambda job: job.predicted_s),
    "greedy": QueueRule(lambda job: job.submit_s, SKIP),
}
"""Rules that know of lengths what is predicted, if anything."""


def replay_rule(
    jobs: Sequence[TraceJob], nodes: int, rule: QueueRule | PreemptiveQueueRule, placing: Policy | None = None
) -> ReplayOutcome:
    """Simulate a rule. jobs: by submit time. placing: as the references do if None.

    Raises ValueError if a job exceeds the cluster.
    """
    if any(job.gpus > NODE_CARDS * nodes for job in jobs):
        raise ValueError("a job is larger than the cluster")
    return (
        _replay_preemptive(jobs, nodes, rule)
        if isinstance(rule, PreemptiveQueueRule)
        else _replay_queue(jobs, nodes, rule, placing or CONSOLIDATE_POLICY)
    )


def build_empty_nodes(nodes: int, shares: Mapping[str, int] | None = None, slices: int = 1) -> Snapshot:
    """Build empty nodes of 8 equal cards in one pool. shares: {team: guaranteed nodes}. slices: of a card at most."""
    machines = tuple(SimulatedNode(f"n{node}", (("card", CARD_MIB, "pool"),) * NODE_CARDS) for node in range(nodes))
    teams = [
        SimulatedTeam(team, guarantee={"pool": 1000 * NODE_CARDS * own})
        for team, own in (shares or {"team": 0}).items()
    ]
    return build_snapshot(
        SimulatedCluster(machines, {"pool": slices}, tuple(teams), tuple(team.name for team in teams))
    )


@cache
def build_gang(gpus: float) -> tuple[Role, ...]:
    """Build the gang: whole nodes plus one task for the rest, or one slice."""
    if gpus < 1:
        part = TaskResources(1, False, (int(CARD_MIB * gpus),), (int(100 * gpus),), (int(1000 * gpus),), (0,), 0, 0)
        return (Role("slice", 1, 1, part),)
    full, rest = divmod(int(gpus), NODE_CARDS)
    roles = [Role("worker", full, full, _whole_cards(NODE_CARDS))] if full else []
    return (*roles, Role("rest", 1, 1, _whole_cards(rest))) if rest else tuple(roles)


def count_slices(jobs: Iterable[TraceJob]) -> int:
    """Return how many slices a card has where jobs ask for half a card."""
    return 2 if any(job.gpus < 1 for job in jobs) else 1


def get_stop_cost_s(gpus: int) -> float:
    """Return the cost of resuming from a checkpoint (Helios' `ckpt_overhead`)."""
    return 7.0 if gpus == 1 else 30.0 if gpus <= NODE_CARDS else 60.0


def _whole_cards(gpus: int) -> TaskResources:
    return TaskResources(gpus, True, (CARD_MIB,), (100,), (1000,), (0,), 0, 0)


def score_fewest_free(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Score nodes with the fewest free cards."""
    return -(snapshot.gpu_slices[snapshot.card_grid[nodes]] == 0).sum(axis=1).astype(float)


CONSOLIDATE_POLICY = Policy(scores=((score_fewest_free, 1.0),), cards=choose_first_cards)


class ReferenceCluster:
    """The cluster as the references see it: a gang fits or not."""

    def __init__(self, snapshot: Snapshot, placing: Policy = CONSOLIDATE_POLICY):
        self.snapshot = snapshot
        self.free: float = int((snapshot.gpu_slices == 0).sum())
        self._table = ScoreTable(snapshot, placing)
        self._asks: dict[float, tuple] = {}

    def copy(self) -> "ReferenceCluster":
        return ReferenceCluster(self.snapshot.copy())

    def place_job(self, gpus: float) -> Placement | None:
        if gpus > self.free:
            return None
        job, demand = self._ask(gpus)
        found = place_gang(self.snapshot, self._table, job, demand, demand.kinds, UNLIMITED_QUOTA)
        if isinstance(found, Shortfall):
            return None
        self.free -= gpus
        return found

    def release(self, placement: Placement, gpus: float) -> None:
        self.snapshot.release(placement, self._ask(gpus)[0])
        self.free += gpus

    def _ask(self, gpus: float) -> tuple:
        if gpus not in self._asks:
            gang = build_gang(gpus)
            self._asks[gpus] = WaitingJob(0, 0, 0, 0, 1, 0.0, gang), build_demand(self.snapshot, gang, 0)
        return self._asks[gpus]


class _RunningJobs:
    """Running jobs and their ends."""

    def __init__(self, cards: ReferenceCluster, outcome: ReplayOutcome):
        self.cards = cards
        self._outcome = outcome
        self._ends: list[tuple[float, int]] = []
        self._places: dict[int, tuple[TraceJob, Placement]] = {}
        self._started: dict[int, float] = {}

    def next_end(self) -> float:
        return self._ends[0][0] if self._ends else inf

    def start(self, job: TraceJob, now: float) -> bool:
        placement = self.cards.place_job(job.gpus)
        if placement is None:
            return False
        self._places[job.row], self._started[job.row] = (job, placement), now
        heappush(self._ends, (now + job.duration_s, job.row))
        return True

    def end_due(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            at, row = heappop(self._ends)
            job, placement = self._places.pop(row)
            self.cards.release(placement, job.gpus)
            self._outcome.record_end(job, at)

    def earliest_fit(self, gpus: float, now: float, length: Callable[[TraceJob], float]) -> float:
        """Return when a gang of this size fits if running jobs end as believed."""
        snapshot = self.cards.snapshot
        shares = snapshot.gpu_slices.tolist()
        free = (snapshot.gpu_slices[snapshot.card_grid] == 0).sum(axis=1).tolist()
        nodes, least = max(ceil(gpus / NODE_CARDS), 1), min(gpus, NODE_CARDS)
        enough = sum(count >= least for count in free)
        for at, row in self._list_ends(now, length):
            if gpus < 1:
                return at  # each end leaves room for a slice
            for task in self._places[row][1].tasks:
                before = free[task.node]
                for card in task.cards:
                    shares[card.gpu] -= 1
                    free[task.node] += shares[card.gpu] == 0
                enough += before < least <= free[task.node]
            if enough >= nodes:
                return at
        return inf

    def _list_ends(self, now: float, length: Callable[[TraceJob], float]) -> list[tuple[float, int]]:
        """Return (believed end, row) of running jobs, by time."""
        if length is KNOWN_LENGTH:
            return sorted(self._ends)
        return sorted(
            (estimate_end(self._started[row], length(self._places[row][0]), now), row) for _, row in self._ends
        )


def _replay_queue(jobs: Sequence[TraceJob], nodes: int, rule: QueueRule, placing: Policy) -> ReplayOutcome:
    outcome = ReplayOutcome()
    running, queue, arrived = (
        _RunningJobs(ReferenceCluster(build_empty_nodes(nodes, slices=count_slices(jobs)), placing), outcome),
        _QUEUES[rule.when_blocked](rule),
        0,
    )
    while arrived < len(jobs) or running.next_end() < inf:
        now = min(running.next_end(), jobs[arrived].submit_s if arrived < len(jobs) else inf)
        running.end_due(now)
        while arrived < len(jobs) and jobs[arrived].submit_s <= now:
            queue.join(jobs[arrived])
            arrived += 1
        queue.start(running, now)
    return outcome


class _StrictQueue:
    def __init__(self, rule: QueueRule):
        self._order = rule.order
        self._line: list[tuple[float, int, TraceJob]] = []

    def join(self, job: TraceJob) -> None:
        heappush(self._line, (self._order(job), job.row, job))

    def start(self, running: _RunningJobs, now: float) -> None:
        while self._line and running.start(self._line[0][2], now):
            heappop(self._line)


class _SkipQueue:
    """One line per size: if one job does not fit, none of its size does."""

    def __init__(self, rule: QueueRule):
        self._order = rule.order
        self._lines: dict[float, list[tuple[float, int, TraceJob]]] = {}

    def join(self, job: TraceJob) -> None:
        heappush(self._lines.setdefault(job.gpus, []), (self._order(job), job.row, job))

    def start(self, running: _RunningJobs, now: float) -> None:
        heads = [line[0] for line in self._lines.values() if line]
        heapify(heads)
        while heads:
            job = heads[0][2]
            line = self._lines[job.gpus]
            if running.start(job, now):
                heappop(line)
                if line:
                    heapreplace(heads, line[0])
                    continue
            heappop(heads)


class _EasyQueue:
    def __init__(self, rule: QueueRule):
        self._order, self._length = rule.order, rule.length
        self._line: list[tuple[float, int, TraceJob]] = []

    def join(self, job: TraceJob) -> None:
        insort(self._line, (self._order(job), job.row, job))

    def start(self, running: _RunningJobs, now: float) -> None:
        while self._line and running.start(self._line[0][2], now):
            del self._line[0]
        if len(self._line) < 2 or not running.cards.free:
            return
        self._backfill(running, now, running.earliest_fit(self._line[0][2].gpus, now, self._length))

    def _backfill(self, running: _RunningJobs, now: float, until: float) -> None:
        too_large: set[float] = set()
        place = 1
        while place < min(len(self._line), MAX_BACKFILL_CANDIDATES):
            job = self._line[place][2]
            if now + self._length(job) <= until and job.gpus not in too_large:
                if running.start(job, now):
                    del self._line[place]
                    continue
                too_large.add(job.gpus)
            place += 1


_QUEUES: dict[str, type[_StrictQueue] | type[_SkipQueue] | type[_EasyQueue]] = {
    STRICT: _StrictQueue,
    SKIP: _SkipQueue,
    EASY: _EasyQueue,
}


class _PreemptiveJob:
    """A job under a preemptive rule. had: card-seconds used."""

    __slots__ = ("job", "left_s", "placement", "used_s")

    def __init__(self, job: TraceJob):
        self.job = job
        self.left_s = job.duration_s
        self.used_s = 0.0
        self.placement: Placement | None = None

    def run_for(self, seconds: float) -> None:
        self.left_s -= seconds
        self.used_s += seconds * self.job.gpus


def _replay_preemptive(jobs: Sequence[TraceJob], nodes: int, rule: PreemptiveQueueRule) -> ReplayOutcome:
    """Simulate a preemptive rule; jobs keep their place while granted."""
    outcome, cards, arrived, now = ReplayOutcome(), ReferenceCluster(build_empty_nodes(nodes)), 0, 0.0
    stays: list[_PreemptiveJob] = []
    running: list[_PreemptiveJob] = []
    while arrived < len(jobs) or stays:
        arrives = jobs[arrived].submit_s if arrived < len(jobs) else inf
        at = min(arrives, *(now + min(stay.left_s, _seconds_until_check(rule, stay)) for stay in running), inf)
        for stay in running:
            stay.run_for(at - now)
        now = at
        for stay in [stay for stay in running if stay.left_s <= NOTHING]:
            _stop_job(cards, stay)
            stays.remove(stay)
            outcome.record_end(stay.job, now)
        while arrived < len(jobs) and jobs[arrived].submit_s <= now:
            stays.append(_PreemptiveJob(jobs[arrived]))
            arrived += 1
        stays.sort(key=lambda stay: (rule.order(stay.left_s, stay.used_s, stay.job), stay.job.row))
        granted = _grant_cards(stays, nodes * NODE_CARDS)
        for stay in {stay for stay in running if stay.placement} - set(granted):
            _stop_job(cards, stay)
            stay.left_s += get_stop_cost_s(stay.job.gpus)
            outcome.preemptions += 1
        _start_granted(cards, granted)
        running = [stay for stay in granted if stay.placement]
    return outcome


def _seconds_until_check(rule: PreemptiveQueueRule, stay: _PreemptiveJob) -> float:
    """Return the seconds until the order must be checked."""
    return (rule.demote_at - stay.used_s) / stay.job.gpus + JUST_BEYOND if stay.used_s < rule.demote_at < inf else inf


def _grant_cards(stays: Iterable[_PreemptiveJob], free: int) -> list[_PreemptiveJob]:
    """Grant cards in order, by count alone."""
    granted = []
    for stay in stays:
        if stay.job.gpus <= free:
            free -= stay.job.gpus
            granted.append(stay)
        if not free:
            break
    return granted


def _start_granted(cards: ReferenceCluster, granted: Iterable[_PreemptiveJob]) -> None:
    too_large: set[int] = set()
    for stay in granted:
        if stay.placement is None and stay.job.gpus not in too_large:
            stay.placement = cards.place_job(stay.job.gpus)
            if stay.placement is None:
                too_large.add(stay.job.gpus)


def _stop_job(cards: ReferenceCluster, stay: _PreemptiveJob) -> None:
    if stay.placement:
        cards.release(stay.placement, stay.job.gpus)
        stay.placement = None
