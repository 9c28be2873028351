"""A cluster in text, made into a Snapshot for the scheduler's mind.

One line per node, what teams hold after bars::

    n1: V100-32GBx2 | ada holds 1/4 | bob holds 1 until 500 preemptible
    n2 train: A100x8
    n3: closed V100-32GBx1          (the node is not READY)
    c1: cpu                         (no card)

What is held is a job that runs since 0 without an expected end, or says that it runs `until` a time; it may be
`preemptible`, of a priority (`low`), `saved 300` (its last checkpoint, else 0) and `leaving`. These jobs are numbered
-1, -2, ... in order.

A word after the node's name is its pool (else "dev"). A node has 64 cores and 256 GiB, or `cores 8`, `memory 4096`.
`numa 8+8` divides its cores among NUMA nodes, its memory likewise, and its cards evenly.
Pool "train" is not shared, every other has up to 8 slices a card. A job is `wants("ada", "4GB")`; an ask is `1`, `2`,
`1/4`, `4GB`, `4GB@60` (with 60 % of compute), `A100:2`, `H100,A100/4` or `cpu`. Every team has one user of its own
name. Jobs are numbered from 1 in order, and came in that order, one second apart.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import inf

import numpy as np

from scheduler.core.model.snapshot import UNLIMITED, Snapshot
from scheduler.core.model.types import (
    RESOURCES,
    CardShare,
    Cell,
    Placement,
    Policy,
    Role,
    RunningJob,
    TaskPlacement,
    TaskResources,
    WaitingJob,
)
from scheduler.core.queueing.job_rows import JobRows
from scheduler.core.queueing.priority_order import ANY_TURN, Turns, order_jobs

SELLABLE_MIB = {"V100-32GB": 32510, "V100-16GB": 16130, "A100": 40960, "H100": 81559, "T4": 15109}
CORES, MEMORY_MIB = 64, 262144
PRIORITIES = ("low", "normal", "high", "urgent")


@dataclass(frozen=True)
class Wish:
    """A job in words. gang: how many tasks; at: submitted_at, else its place in the list."""

    team: str
    ask: str
    gang: int = 1
    priority: str = "normal"
    pool: str = "dev"
    at: float | None = None
    cores: float = 1
    memory_mib: int = 1024
    held: bool = False
    not_before: float = 0.0
    time_s: float = inf
    preemptible: bool = False


def wants(team: str, ask: str, **words) -> Wish:
    return Wish(team, ask, **words)


def world(
    text: str, *wishes: Wish, parents=None, limit=None, guarantee=None, user_limit=None, jobs_limit=None, cells=None
) -> Snapshot:
    """The snapshot of a cluster in text and of those who wait.

    parents: {"ada": "lab"}. limit, guarantee: {("ada", "dev"): {"gpu_milli": 1000}}. user_limit: {"ada": {...}}.
    jobs_limit: {"ada": 2}. cells: {("ada", "dev"): 8}, of the guarantee as many whole nodes of 8 cards as it has.
    """
    nodes = [_Node(line) for line in text.strip().splitlines()]
    parents = parents or {}
    teams = _distinct(
        [name for node in nodes for name, _ in node.holds], [w.team for w in wishes], parents, parents.values()
    )
    pools = _distinct([node.pool for node in nodes], [wish.pool for wish in wishes])
    kinds = _distinct([model for node in nodes for model in node.models])
    snapshot = _empty(nodes, teams, pools, kinds, parents)
    _set_quota(snapshot, limit or {}, guarantee or {}, user_limit or {}, jobs_limit or {})
    snapshot.set_cells(tuple(_cell(snapshot, *whose, cards) for whose, cards in (cells or {}).items()))  # type: ignore[call-arg]
    for index, node in enumerate(nodes):
        for team, held in node.holds:
            _hold(snapshot, index, team, held)
    snapshot.waiting = tuple(build_waiting(snapshot, number, wish) for number, wish in enumerate(wishes, start=1))
    return snapshot


def build_waiting(snapshot: Snapshot, number: int, wish: Wish) -> WaitingJob:
    team = snapshot.team_names.index(wish.team)
    ask = build_ask(snapshot.kind_names, wish.ask, cores=wish.cores, memory_mib=wish.memory_mib)
    return WaitingJob(
        job=number,
        team=team,
        user=team,
        pool=snapshot.pool_names.index(wish.pool),
        priority=PRIORITIES.index(wish.priority),
        submitted_at=float(number) if wish.at is None else wish.at,
        gang=(Role("worker", wish.gang, wish.gang, ask),),
        held=wish.held,
        not_before=wish.not_before,
        time_s=wish.time_s,
        preemptible=wish.preemptible,
    )


def build_ask(kinds: tuple[str, ...], text: str, *, cores: float = 1, memory_mib: int = 1024) -> TaskResources:
    """The unit rule: a/b is floor(sellable*a/b) MiB and floor(100*a/b) %, NGB is ceil(N*10^9/2^20) MiB."""
    cpu_milli = int(cores * 1000)
    if text == "cpu":
        return TaskResources(0, False, (), (), (), (), cpu_milli, memory_mib)
    models, amount = re.fullmatch(r"(?:([A-Z][\w,-]*)(?:[:/]|$))?(.*)", text).groups()
    if models and "/" in text:
        amount = f"1/{amount}"
    chosen = models.split(",") if models else list(kinds)
    preference = tuple((chosen.index(kind) if models else 0) if kind in chosen else -1 for kind in kinds)
    if whole := re.fullmatch(r"\d*", amount):
        sizes = [(SELLABLE_MIB[kind], 100, 1000) for kind in kinds]
    else:
        sizes = [_slice(SELLABLE_MIB[kind], amount) for kind in kinds]
    mib, percent, milli = zip(*sizes, strict=True) if sizes else ((), (), ())
    gpus = int(amount or 1) if whole else 1
    return TaskResources(gpus, bool(whole), mib, percent, milli, preference, cpu_milli, memory_mib)


def _slice(sellable: int, amount: str) -> tuple[int, int, int]:
    amount, _, compute = amount.partition("@")
    if amount.endswith("GB"):
        mib = -(-int(amount[:-2]) * 10**9 // 2**20)
        percent = int(compute) if compute else 100 * mib // sellable
    else:
        mib, percent = int(sellable * Fraction(amount)), int(100 * Fraction(amount))
    return mib, percent, max(1000 * mib // sellable, 10 * percent, 1)


class _Node:
    def __init__(self, line: str):
        head, *holds = (part.strip() for part in line.split("|"))
        place, _, what = head.partition(":")
        self.name, _, pool = place.strip().partition(" ")
        self.pool = pool.strip() or "dev"
        self.open = "closed" not in what
        self.cores = float(_number(what, "cores", CORES))
        self.memory_mib = int(_number(what, "memory", MEMORY_MIB))
        numa = re.search(r"numa ([\d+]+)", what)
        self.numa = [int(cores) for cores in numa[1].split("+")] if numa else []
        cards = re.findall(r"([A-Z][\w-]*)x(\d+)", what)
        self.models = [model for model, count in cards for _ in range(int(count))]
        self.holds = [tuple(hold.split(" holds ")) for hold in holds]


def _number(text: str, word: str, otherwise: float):
    found = re.search(rf"{word} ([\d.]+)", text)
    return found[1] if found else otherwise


def _distinct(*lists) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for items in lists for item in items))


def _empty(nodes, teams, pools, kinds, parents) -> Snapshot:
    cards = [(index, node, model) for index, node in enumerate(nodes) for model in node.models]
    totals = [SELLABLE_MIB[model] for _, _, model in cards]
    cpu = [int(node.cores * 1000) for node in nodes]
    memory = [node.memory_mib for node in nodes]
    numa = np.zeros((len(nodes), max((len(node.numa) for node in nodes), default=0), 2), dtype=np.int64)
    for index, node in enumerate(nodes):
        for place, cores in enumerate(node.numa):
            numa[index, place] = cores * 1000, node.memory_mib * cores // sum(node.numa)
    quota = (len(teams), len(pools), len(RESOURCES))
    return Snapshot(
        gpu_node=[index for index, _, _ in cards],
        gpu_pool=[pools.index(node.pool) for _, node, _ in cards],
        gpu_kind=[kinds.index(model) for _, _, model in cards],
        gpu_total_mib=totals,
        gpu_free_mib=totals,
        gpu_free_percent=[100] * len(cards),
        gpu_slices=[0] * len(cards),
        gpu_max_slices=[1 if node.pool == "train" else 8 for _, node, _ in cards],
        gpu_open=[True] * len(cards),
        node_pool=[pools.index(node.pool) for node in nodes],
        node_cpu_free=cpu,
        node_memory_free=memory,
        node_open=[node.open for node in nodes],
        node_cpu_total=cpu,
        node_memory_total=memory,
        team_chain=tuple(_chain(team, teams, parents) for team in teams),
        held=np.zeros(quota),
        guarantee=np.zeros(quota),
        limit=np.full(quota, UNLIMITED),
        weight=np.ones(quota[:2]),
        user_held=np.zeros((len(teams), len(RESOURCES))),
        user_limit=np.full((len(teams), len(RESOURCES)), UNLIMITED),
        user_jobs=np.zeros(len(teams)),
        user_jobs_limit=np.full(len(teams), UNLIMITED),
        kind_names=kinds,
        node_names=tuple(node.name for node in nodes),
        pool_names=pools,
        team_names=teams,
        numa_total=numa,
        gpu_numa=[
            place * len(node.numa) // len(node.models) if node.numa else -1
            for node in nodes
            for place in range(len(node.models))
        ],
    )


def _chain(team: str, teams: tuple[str, ...], parents: dict[str, str]) -> tuple[int, ...]:
    above = _chain(parents[team], teams, parents) if team in parents else ()
    return (teams.index(team), *above)


def _set_quota(snapshot: Snapshot, limit: dict, guarantee: dict, user_limit: dict, jobs_limit: dict) -> None:
    for array, wanted in ((snapshot.limit, limit), (snapshot.guarantee, guarantee)):
        for (team, pool), amounts in wanted.items():
            for resource, amount in amounts.items():
                row = snapshot.team_names.index(team), snapshot.pool_names.index(pool)
                array[row][RESOURCES.index(resource)] = amount
    for user, amounts in user_limit.items():
        for resource, amount in amounts.items():
            snapshot.user_limit[snapshot.team_names.index(user), RESOURCES.index(resource)] = amount
    for user, most in jobs_limit.items():
        snapshot.user_jobs_limit[snapshot.team_names.index(user)] = most


def _cell(snapshot: Snapshot, team: str, pool: str, cards: int) -> Cell:
    place = snapshot.team_names.index(team), snapshot.pool_names.index(pool)
    return Cell(*place, cards, int(snapshot.guarantee[place][0]) // (1000 * cards))


def _hold(snapshot: Snapshot, node: int, team: str, text: str) -> None:
    """Give the ask to the team on the first cards of the node that have room, as a running job."""
    what, *words = text.split()
    ask = build_ask(snapshot.kind_names, what, cores=1, memory_mib=1024)
    cards, pool = [], int(snapshot.node_pool[node])
    for gpu in np.flatnonzero(snapshot.gpu_node == node).tolist():
        kind = int(snapshot.gpu_kind[gpu])
        room = (
            snapshot.gpu_free_mib[gpu] >= ask.need_mib[kind]
            and snapshot.gpu_free_percent[gpu] >= ask.need_percent[kind]
        )
        if room and len(cards) < ask.gpus:
            cards.append(CardShare(gpu, ask.need_mib[kind], ask.need_percent[kind], ask.need_milli[kind]))
    assert len(cards) == ask.gpus, f"{team} cannot hold that on {snapshot.node_name(node)}"
    index, number = snapshot.team_names.index(team), -1 - len(snapshot.running)
    preemptible, numbers = "preemptible" in words, dict(pairwise(words))
    tasks = (TaskPlacement("worker", 0, node, tuple(cards), ask.cpu_milli, ask.memory_mib),)
    priority = next((PRIORITIES.index(word) for word in words if word in PRIORITIES), 1)
    job = RunningJob(
        number,
        index,
        index,
        pool,
        priority,
        tasks,
        saved_at=float(numbers.get("saved", 0)),
        ends_at=float(numbers.get("until", inf)),
        time_s=float(numbers.get("until", inf)),
        preemptible=preemptible,
        leaving="leaving" in words,
    )
    gang = (Role("worker", 1, 1, ask),)
    snapshot.allocate(
        Placement(number, tasks), WaitingJob(number, index, index, pool, 1, 0.0, gang, preemptible=preemptible)
    )
    snapshot.running += (job,)


def with_waiting(snapshot: Snapshot, *jobs: WaitingJob) -> Snapshot:
    """The same cluster with other jobs waiting."""
    twin = snapshot.copy()
    twin.waiting = tuple(jobs)
    return twin


def of_roles(job: WaitingJob, *roles: tuple[str, int, TaskResources]) -> WaitingJob:
    """The same job with a gang of unlike roles: (name, how many, ask)."""
    return replace(job, gang=tuple(Role(name, count, count, ask) for name, count, ask in roles))


def in_order(
    snapshot: Snapshot, jobs: Sequence[WaitingJob], policy: Policy, now: float, turns: Turns = ANY_TURN
) -> list[WaitingJob]:
    """These jobs in the queue's order, while nobody starts."""
    return [job for job, *_ in order_jobs(snapshot, JobRows().columns_of(jobs), policy, now, turns)]
