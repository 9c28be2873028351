"""Published orders of a queue on a trace of gang jobs: what our own policy is compared with (B3, B4).

Nodes of 8 whole cards. At one moment first jobs end, then jobs come, then the rule looks once. Each start is the
scheduler's own `place()` with the scores of the references: a job of up to 8 cards goes to the node with the fewest
cards that are enough; a larger one takes whole idle nodes and one node for the rest (HeliosArtifact, `consolidate.py`).

A rule without preemption is an order and what happens when the first job does not fit. Which jobs are stopped under
SRTF and LAS is granted by counting cards over the whole queue at every moment, which no Policy says: that part is a
reference replay and proves only itself.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heapify, heappop, heappush, heapreplace
from math import ceil, inf, log

import numpy as np

from scheduler.core.demand import build_demand
from scheduler.core.place import ANY_QUOTA, Shortfall, place
from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.table import Table
from scheduler.core.types import Ask, Placement, Policy, Role, Waiting
from scheduler.simulation.cluster import Cluster, Machine, Team, build_snapshot
from scheduler.simulation.references import first_cards
from scheduler.simulation.traces import TraceJob

NODE_CARDS = 8
CARD_MIB = 1024
STRICT, SKIP, EASY = "strict", "skip", "easy"
MOST_CANDIDATES = 400
"""So far down the line jobs are looked at for backfilling; who starts leaves the line and the next moves up."""
LAS_LIMIT = 3600.0
"""Card-seconds that a job has had when it falls into the second queue."""
JUST_BEYOND, NOTHING = 1e-3, 1e-9
"""Seconds: between times that are not whole."""


@dataclass(frozen=True)
class Rule:
    """order: the smallest goes first, of equals who came first. behind: who else may start when the first does not fit:
    `strict` nobody, `skip` everybody, `easy` who ends before the first could start.
    """

    order: Callable[[TraceJob], float]
    behind: str


@dataclass(frozen=True)
class PreemptiveRule:
    """order: of (seconds left, card-seconds had, job), the smallest goes first. demote_at: card-seconds at which the
    order is to be looked at although nothing happened.
    """

    order: Callable[[float, float, TraceJob], tuple]
    demote_at: float = inf


@dataclass
class Outcome:
    """queue_s: {row: seconds beyond its duration between submit and end}."""

    queue_s: dict[int, float] = field(default_factory=dict)
    jct_s: dict[int, float] = field(default_factory=dict)
    preemptions: int = 0
    ended_at: float = 0.0

    def end(self, job: TraceJob, at: float) -> None:
        self.jct_s[job.row] = at - job.submit_s
        self.queue_s[job.row] = at - job.submit_s - job.duration_s
        self.ended_at = max(self.ended_at, at)


RULES: dict[str, Rule | PreemptiveRule] = {
    "fifo-strict": Rule(lambda job: job.submit_s, STRICT),
    "fifo-skip": Rule(lambda job: job.submit_s, SKIP),
    "fifo-easy": Rule(lambda job: job.submit_s, EASY),
    "sjf-strict": Rule(lambda job: job.duration_s, STRICT),
    "sjf-skip": Rule(lambda job: job.duration_s, SKIP),
    "gpu-seconds-skip": Rule(lambda job: job.duration_s * job.gpus, SKIP),
    "qssf-strict": Rule(lambda job: job.predicted_s * job.gpus, STRICT),
    "qssf-skip": Rule(lambda job: job.predicted_s * job.gpus, SKIP),
    "ageing-skip": Rule(lambda job: log(job.predicted_s) + job.submit_s / 172_800, SKIP),
    "srtf": PreemptiveRule(lambda left, had, job: (left,)),
    "las": PreemptiveRule(lambda left, had, job: (had >= LAS_LIMIT, job.submit_s), LAS_LIMIT),
}


def play_rule(jobs: Sequence[TraceJob], nodes: int, rule: Rule | PreemptiveRule) -> Outcome:
    """jobs: by submit time. Raises ValueError where one is larger than the cluster."""
    if any(job.gpus > NODE_CARDS * nodes for job in jobs):
        raise ValueError("a job is larger than the cluster")
    return _play_preemptive(jobs, nodes, rule) if isinstance(rule, PreemptiveRule) else _play(jobs, nodes, rule)


def build_cards(nodes: int, shares: Mapping[str, int] | None = None) -> Snapshot:
    """Empty nodes of 8 cards of one kind in one pool. shares: {team: nodes that it is guaranteed}; without it there is
    one team without a guarantee. Each team has one person.
    """
    machines = tuple(Machine(f"n{node}", (("card", CARD_MIB, "pool"),) * NODE_CARDS) for node in range(nodes))
    teams = [Team(team, guarantee={"pool": 1000 * NODE_CARDS * own}) for team, own in (shares or {"team": 0}).items()]
    return build_snapshot(Cluster(machines, {"pool": 1}, tuple(teams), tuple(team.name for team in teams)))


@cache
def build_gang(gpus: int) -> tuple[Role, ...]:
    """Whole nodes, and one task for the rest."""
    full, rest = divmod(gpus, NODE_CARDS)
    roles = [Role("worker", full, full, _whole_cards(NODE_CARDS))] if full else []
    return (*roles, Role("rest", 1, 1, _whole_cards(rest))) if rest else tuple(roles)


def stop_cost_s(gpus: int) -> float:
    """What going on from a checkpoint costs: Helios' `ckpt_overhead`."""
    return 7.0 if gpus == 1 else 30.0 if gpus <= NODE_CARDS else 60.0


def _whole_cards(gpus: int) -> Ask:
    return Ask(gpus, True, (CARD_MIB,), (100,), (1000,), (0,), 0, 0)


def fewest_free(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """A score: the node with the fewest free cards is best."""
    return -(snapshot.gpu_slices[snapshot.card_grid[nodes]] == 0).sum(axis=1).astype(float)


CONSOLIDATED = Policy(scores=((fewest_free, 1.0),), cards=first_cards)


class Cards:
    """The cluster as the references see it: a gang of so many cards fits, or it does not."""

    def __init__(self, snapshot: Snapshot):
        self.snapshot = snapshot
        self.free = int((snapshot.gpu_slices == 0).sum())
        self._table = Table(snapshot, CONSOLIDATED)
        self._asks: dict[int, tuple] = {}

    def copy(self) -> "Cards":
        return Cards(self.snapshot.copy())

    def place(self, gpus: int) -> Placement | None:
        if gpus > self.free:
            return None
        job, demand = self._ask(gpus)
        found = place(self.snapshot, self._table, job, demand, demand.kinds, ANY_QUOTA)
        if isinstance(found, Shortfall):
            return None
        self.free -= gpus
        return found

    def give_back(self, placement: Placement, gpus: int) -> None:
        self.snapshot.give_back(placement, self._ask(gpus)[0])
        self.free += gpus

    def _ask(self, gpus: int) -> tuple:
        if gpus not in self._asks:
            gang = build_gang(gpus)
            self._asks[gpus] = Waiting(0, 0, 0, 0, 1, 0.0, gang), build_demand(self.snapshot, gang, 0)
        return self._asks[gpus]


class _Running:
    """Who runs where until when."""

    def __init__(self, cards: Cards, outcome: Outcome):
        self.cards = cards
        self._outcome = outcome
        self._ends: list[tuple[float, int]] = []
        self._places: dict[int, tuple[TraceJob, Placement]] = {}

    def next(self) -> float:
        return self._ends[0][0] if self._ends else inf

    def start(self, job: TraceJob, now: float) -> bool:
        placement = self.cards.place(job.gpus)
        if placement is None:
            return False
        self._places[job.row] = job, placement
        heappush(self._ends, (now + job.duration_s, job.row))
        return True

    def end(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            at, row = heappop(self._ends)
            job, placement = self._places.pop(row)
            self.cards.give_back(placement, job.gpus)
            self._outcome.end(job, at)

    def earliest(self, gpus: int) -> float:
        """When so many cards are free, if only those that run now end before: a larger job is taken to need each of its
        nodes idle.
        """
        snapshot = self.cards.snapshot
        free = (snapshot.gpu_slices[snapshot.card_grid] == 0).sum(axis=1).tolist()
        nodes, least = max(ceil(gpus / NODE_CARDS), 1), min(gpus, NODE_CARDS)
        enough = sum(count >= least for count in free)
        for at, row in sorted(self._ends):
            for task in self._places[row][1].tasks:
                enough += free[task.node] < least <= free[task.node] + len(task.cards)
                free[task.node] += len(task.cards)
            if enough >= nodes:
                return at
        return inf


def _play(jobs: Sequence[TraceJob], nodes: int, rule: Rule) -> Outcome:
    outcome = Outcome()
    running, queue, arrived = _Running(Cards(build_cards(nodes)), outcome), _QUEUES[rule.behind](rule), 0
    while arrived < len(jobs) or running.next() < inf:
        now = min(running.next(), jobs[arrived].submit_s if arrived < len(jobs) else inf)
        running.end(now)
        while arrived < len(jobs) and jobs[arrived].submit_s <= now:
            queue.join(jobs[arrived])
            arrived += 1
        queue.start(running, now)
    return outcome


class _Strict:
    def __init__(self, rule: Rule):
        self._order = rule.order
        self._line: list[tuple[float, int, TraceJob]] = []

    def join(self, job: TraceJob) -> None:
        heappush(self._line, (self._order(job), job.row, job))

    def start(self, running: _Running, now: float) -> None:
        while self._line and running.start(self._line[0][2], now):
            heappop(self._line)


class _Skip:
    """One line for each size: where one does not fit, no other of its size does."""

    def __init__(self, rule: Rule):
        self._order = rule.order
        self._lines: dict[int, list[tuple[float, int, TraceJob]]] = {}

    def join(self, job: TraceJob) -> None:
        heappush(self._lines.setdefault(job.gpus, []), (self._order(job), job.row, job))

    def start(self, running: _Running, now: float) -> None:
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


class _Easy:
    def __init__(self, rule: Rule):
        self._order = rule.order
        self._line: list[tuple[float, int, TraceJob]] = []

    def join(self, job: TraceJob) -> None:
        insort(self._line, (self._order(job), job.row, job))

    def start(self, running: _Running, now: float) -> None:
        while self._line and running.start(self._line[0][2], now):
            del self._line[0]
        if len(self._line) < 2 or not running.cards.free:
            return
        self._backfill(running, now, running.earliest(self._line[0][2].gpus))

    def _backfill(self, running: _Running, now: float, until: float) -> None:
        too_large: set[int] = set()
        place = 1
        while place < min(len(self._line), MOST_CANDIDATES):
            job = self._line[place][2]
            if now + job.duration_s <= until and job.gpus not in too_large:
                if running.start(job, now):
                    del self._line[place]
                    continue
                too_large.add(job.gpus)
            place += 1


_QUEUES: dict[str, type[_Strict] | type[_Skip] | type[_Easy]] = {STRICT: _Strict, SKIP: _Skip, EASY: _Easy}


class _Stay:
    """One job under a preemptive rule. left_s: of its work and of what stops have cost; had: card-seconds."""

    __slots__ = ("had", "job", "left_s", "placement")

    def __init__(self, job: TraceJob):
        self.job = job
        self.left_s = job.duration_s
        self.had = 0.0
        self.placement: Placement | None = None

    def pass_s(self, seconds: float) -> None:
        self.left_s -= seconds
        self.had += seconds * self.job.gpus


def _play_preemptive(jobs: Sequence[TraceJob], nodes: int, rule: PreemptiveRule) -> Outcome:
    """A job that is granted its cards keeps its place if it has one, and waits for a place if it has none."""
    outcome, cards, arrived, now = Outcome(), Cards(build_cards(nodes)), 0, 0.0
    stays: list[_Stay] = []
    running: list[_Stay] = []
    while arrived < len(jobs) or stays:
        arrives = jobs[arrived].submit_s if arrived < len(jobs) else inf
        at = min(arrives, *(now + min(stay.left_s, _until(rule, stay)) for stay in running), inf)
        for stay in running:
            stay.pass_s(at - now)
        now = at
        for stay in [stay for stay in running if stay.left_s <= NOTHING]:
            _stop(cards, stay)
            stays.remove(stay)
            outcome.end(stay.job, now)
        while arrived < len(jobs) and jobs[arrived].submit_s <= now:
            stays.append(_Stay(jobs[arrived]))
            arrived += 1
        stays.sort(key=lambda stay: (rule.order(stay.left_s, stay.had, stay.job), stay.job.row))
        granted = _granted(stays, nodes * NODE_CARDS)
        for stay in {stay for stay in running if stay.placement} - set(granted):
            _stop(cards, stay)
            stay.left_s += stop_cost_s(stay.job.gpus)
            outcome.preemptions += 1
        _start(cards, granted)
        running = [stay for stay in granted if stay.placement]
    return outcome


def _until(rule: PreemptiveRule, stay: _Stay) -> float:
    """Seconds until the order is to be looked at: just beyond the limit, so that it is passed."""
    return (rule.demote_at - stay.had) / stay.job.gpus + JUST_BEYOND if stay.had < rule.demote_at < inf else inf


def _granted(stays: Iterable[_Stay], free: int) -> list[_Stay]:
    """Who may run, by counting cards."""
    granted = []
    for stay in stays:
        if stay.job.gpus <= free:
            free -= stay.job.gpus
            granted.append(stay)
        if not free:
            break
    return granted


def _start(cards: Cards, granted: Iterable[_Stay]) -> None:
    too_large: set[int] = set()
    for stay in granted:
        if stay.placement is None and stay.job.gpus not in too_large:
            stay.placement = cards.place(stay.job.gpus)
            if stay.placement is None:
                too_large.add(stay.job.gpus)


def _stop(cards: Cards, stay: _Stay) -> None:
    if stay.placement:
        cards.give_back(stay.placement, stay.job.gpus)
        stay.placement = None
