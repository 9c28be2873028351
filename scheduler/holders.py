"""Who holds what: the live holdings as columns, and the running jobs that the scheduler counts on."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
from django.db.models import Func

from jobs.models import JobKind
from jobs.states import TaskState
from scheduler.core.future import expected_end
from scheduler.core.types import CardShare, Running, TaskPlace
from scheduler.memory import kept, remembered
from scheduler.rows import is_set, seconds

LEAVING_S = 30.0
"""What is being stopped is expected to be gone after so long."""

GONE = -1
"""The place of a card that is not there any more."""


@dataclass(frozen=True)
class Places:
    """Where the rows of the database stand in the arrays: {id: index}."""

    team: dict[int, int]
    user: dict[int, int]
    pool: dict[int, int]
    node: dict[int, int] = field(default_factory=dict)
    gpu: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Holdings:
    """The live holdings as columns of H values: whose, where, and what. gpu: None for CPU and memory.

    amounts: int [H, 5], thousandths of a card, of a core, MiB of the node; then MiB and percent of the card.
    """

    task: Sequence[str] = ()
    team: Sequence[int] = ()
    user: Sequence[int] = ()
    pool: Sequence[int] = ()
    node: Sequence[int] = ()
    gpu: Sequence[int | None] = ()
    amounts: np.ndarray = field(default_factory=lambda: np.zeros((0, 5), dtype=np.int64))
    rows: list["HoldingRow"] = field(default_factory=list)

    def places_of(self, keys: Iterable[Hashable], places: Mapping[Any, int], nowhere: int) -> np.ndarray:
        """[H] where each stands by its key; `nowhere` where the key has no place."""
        return np.array([places.get(key, nowhere) for key in keys], dtype=np.int64)

    def sums(self, size: int, at: np.ndarray) -> np.ndarray:
        """[size, 5] the amounts at each place. at: [H], `size` for what is nowhere."""
        columns = [np.bincount(at, amounts, minlength=size + 1)[:size] for amounts in self.amounts.T]
        return np.stack(columns, axis=1).astype(np.int64)

    def lines(self) -> list["HoldingRow"]:
        """The same, row by row."""
        columns = (self.task, self.team, self.user, self.pool, self.node, self.gpu)
        return self.rows or [
            HoldingRow(*line, *amounts) for *line, amounts in zip(*columns, self.amounts.tolist(), strict=True)
        ]


class HoldingRow(NamedTuple):
    """As it is read. It begins and ends, and is never another."""

    task: str
    team_id: int
    user_id: int
    pool_id: int
    node_id: int
    gpu_id: int | None
    gpu_milli: int
    cpu_milli: int
    memory_mib: int
    gpu_memory_mib: int
    gpu_compute_percent: int


def load_holdings() -> Holdings:
    rows = remembered("holdings", HoldingRow, *HoldingRow._fields)
    last = kept("holdings")
    if last.get("rows") is not rows:
        task, team, user, pool, node, gpu, *sizes = zip(*rows, strict=True) if rows else [()] * len(HoldingRow._fields)
        columns = Holdings(task, team, user, pool, node, gpu, np.array(sizes, dtype=np.int64).T, rows)
        last.update(rows=rows, columns=columns)
    return last["columns"]


class Timed(Protocol):
    """What of a job tells how long it runs and whether it may be stopped."""

    @property
    def kind(self) -> str: ...
    @property
    def preemptible(self) -> bool: ...
    @property
    def time_s(self) -> int | None: ...
    @property
    def max_time_s(self) -> int | None: ...


class HolderRow(NamedTuple):
    """A task that holds something, and what matters of its job."""

    task: str
    job: int
    role: str
    rank: int
    state: str
    assigned_at: float | None
    started_at: float | None
    checkpointed_at: float | None
    team_id: int
    user_id: int
    pool_id: int
    priority: int
    submitted_at: float
    stops: int
    stopping: bool
    kind: str
    preemptible: bool
    time_s: int | None
    max_time_s: int | None


def load_running(holdings: Holdings, places: Places, now: float) -> Iterator[Running]:
    """The jobs that hold something and of whose tasks none is lost: nobody knows when those end.

    A task on a node or card that is gone keeps its holdings until its end is proved, and nobody waits for it.
    """
    of_task: dict[str, list[HoldingRow]] = defaultdict(list)
    for row in holdings.lines():
        of_task[row.task].append(row)
    known = kept("running", (places.team, places.pool, places.node, places.gpu))
    last = dict(known)
    known.clear()
    for job, group in groupby(load_holders(), key=attrgetter("job")):
        tasks = list(group)
        held = [of_task.get(task.task) for task in tasks]
        *before, running = last.get(job, (None,))
        if before != [tasks, held] or not _is_timeless(running, tasks, now):
            running = _build(tasks, held, places, now)
        if running:
            known[job] = tasks, held, running
            yield running


def _is_timeless(running: Running, tasks: list[HolderRow], now: float) -> bool:
    """Would it be the same now as when it was built?"""
    return not running.leaving and now < running.ends_at and all(task.started_at for task in tasks)


def _build(tasks: list[HolderRow], held: list[list[HoldingRow] | None], places: Places, now: float) -> Running | None:
    kept_by = [(task, own) for task, own in zip(tasks, held, strict=True) if own]
    if any(task.state == TaskState.LOST for task, _ in kept_by):
        return None
    seats = [_seat(task, own, places) for task, own in kept_by]
    there = [seat for seat in seats if seat is not None]
    if not there or len(there) < len(seats):
        return None
    return _running([task for task, _ in kept_by], tuple(there), places, now)


def load_holders() -> list[HolderRow]:
    """By job and rank."""
    moments = (seconds(name) for name in ("assigned_at", "started_at", "checkpointed_at"))
    columns: tuple[str | Func, ...] = ("uuid", "job_id", "role", "rank", "state", *moments)
    of_job = ("team_id", "user_id", "pool_id", "priority", seconds("job__submitted_at"), "stops")
    times = (is_set("job__stop_requested_at"), "kind", "preemptible", "time_s", "max_time_s")
    names = (column if isinstance(column, Func) else f"job__{column}" for column in (*of_job, *times))
    return sorted(remembered("holders", HolderRow, *columns, *names), key=attrgetter("job", "rank"))


def _seat(task: HolderRow, own: list[HoldingRow], places: Places) -> TaskPlace | None:
    """Where the task is, by its holdings; None where its node or a card of it is gone."""
    node, shares, cpu, memory = places.node.get(own[0].node_id), [], 0, 0
    for row in own:
        cpu, memory = cpu + row.cpu_milli, memory + row.memory_mib
        if row.gpu_id is not None:
            card = places.gpu.get(row.gpu_id, GONE)
            shares.append(CardShare(card, row.gpu_memory_mib, row.gpu_compute_percent, row.gpu_milli))
    if node is None or any(share.gpu == GONE for share in shares):
        return None
    return TaskPlace(task.role, task.rank, node, tuple(shares), cpu, memory)


def _running(tasks: list[HolderRow], seats: tuple[TaskPlace, ...], places: Places, now: float) -> Running:
    job = tasks[0]
    assigned_at = min(task.assigned_at or now for task in tasks)
    started_at = max(task.started_at or now for task in tasks)
    leaving = job.stopping or any(task.state == TaskState.STOPPING for task in tasks)
    up = all(task.state in (TaskState.STARTING, TaskState.RUNNING) for task in tasks)
    return Running(
        job=job.job,
        team=places.team[job.team_id],
        user=places.user[job.user_id],
        pool=places.pool[job.pool_id],
        priority=job.priority,
        tasks=seats,
        saved_at=max(started_at, min(task.checkpointed_at or 0.0 for task in tasks)),
        ends_at=now + LEAVING_S if leaving else expected_end(started_at, time_of(job), now, limit_of(job)),
        started_at=started_at,
        time_s=time_of(job),
        limit_s=limit_of(job),
        preemptible=may_be_stopped(job) and up,
        leaving=leaving,
        waited_s=max(assigned_at - job.submitted_at, 0.0),
        stops=job.stops,
    )


def time_of(job: Timed) -> float:
    """How long the job says that it runs, in seconds: its own estimate, or when it is stopped at the latest."""
    return min(float(job.time_s or inf), limit_of(job))


def limit_of(job: Timed) -> float:
    """After how many seconds it is stopped. What a notebook says is carried out by its own clock."""
    return float((job.time_s if job.kind == JobKind.INTERACTIVE else job.max_time_s) or inf)


def may_be_stopped(job: Timed) -> bool:
    return job.preemptible and job.kind != JobKind.INTERACTIVE
