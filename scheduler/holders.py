"""Who holds what: the live holdings as columns, and the running jobs that the scheduler counts on."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np
from django.db.models import Func

from jobs.models import JobKind, Task
from jobs.states import TaskState
from quotas.models import RESOURCES, Holding
from scheduler.core.future import expected_end
from scheduler.core.types import CardShare, Running, TaskPlace
from scheduler.rows import is_set, load_rows, seconds

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

    def sums(self, size: int, places: Mapping[Any, int], keys: Sequence[Hashable]) -> np.ndarray:
        """[size, 5] the amounts of those whose key has a place."""
        at = np.array([places.get(key, size) for key in keys], dtype=np.int64)
        total = np.zeros((size + 1, self.amounts.shape[1]), dtype=np.int64)
        np.add.at(total, at, self.amounts)
        return total[:size]


def load_holdings() -> Holdings:
    amounts = (*RESOURCES, "gpu_memory_mib", "gpu_compute_percent")
    rows = load_rows(
        Holding.objects.live().order_by("pk"), "task", "team_id", "user_id", "pool_id", "node_id", "gpu_id", *amounts
    )
    if not rows:
        return Holdings()
    task, team, user, pool, node, gpu, *sizes = zip(*rows, strict=True)
    return Holdings(task, team, user, pool, node, gpu, np.array(sizes, dtype=np.int64).T)


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
    started_at: float | None
    checkpointed_at: float | None
    team_id: int
    user_id: int
    pool_id: int
    priority: int
    stopping: bool
    kind: str
    preemptible: bool
    time_s: int | None
    max_time_s: int | None


def load_running(holdings: Holdings, places: Places, now: float) -> Iterator[Running]:
    """The jobs that hold something and of whose tasks none is lost: nobody knows when those end.

    A task on a node or card that is gone keeps its holdings until its end is proved, and nobody waits for it.
    """
    of_task: dict[str, list[int]] = {}
    for row, task in enumerate(holdings.task):
        of_task.setdefault(task, []).append(row)
    cards, amounts = [key is not None for key in holdings.gpu], holdings.amounts.tolist()
    for _, group in groupby(load_holders(), key=lambda row: row.job):
        tasks = list(group)
        held = [(task, of_task[task.task]) for task in tasks if task.task in of_task]
        if any(task.state == TaskState.LOST for task, _ in held):
            continue
        seats = [_seat(task, own, holdings, cards, amounts, places) for task, own in held]
        there = [seat for seat in seats if seat is not None]
        if there and len(there) == len(seats):
            yield _running([task for task, _ in held], tuple(there), places, now)


def load_holders() -> list[HolderRow]:
    """By job and rank."""
    columns = ("uuid", "job_id", "role", "rank", "state", seconds("started_at"), seconds("checkpointed_at"))
    of_job = ("team_id", "user_id", "pool_id", "priority", is_set("job__stop_requested_at"), "kind")
    times = ("preemptible", "time_s", "max_time_s")
    names = (column if isinstance(column, Func) else f"job__{column}" for column in (*of_job, *times))
    rows = load_rows(Task.objects.holding().order_by("job_id", "rank"), *columns, *names)
    return [HolderRow(*row) for row in rows]


def _seat(
    task: HolderRow, own: list[int], holdings: Holdings, cards: list[bool], amounts: list[list[int]], places: Places
) -> TaskPlace | None:
    """Where the task is, by its rows of `holdings`; None where its node or a card of it is gone."""
    node, shares, cpu, memory = places.node.get(holdings.node[own[0]]), [], 0, 0
    for row in own:
        milli, cpu_milli, memory_mib, card_mib, percent = amounts[row]
        cpu, memory = cpu + cpu_milli, memory + memory_mib
        if cards[row]:
            shares.append(CardShare(places.gpu.get(holdings.gpu[row], GONE), card_mib, percent, milli))  # type: ignore[arg-type]
    if node is None or any(share.gpu == GONE for share in shares):
        return None
    return TaskPlace(task.role, task.rank, node, tuple(shares), cpu, memory)


def _running(tasks: list[HolderRow], seats: tuple[TaskPlace, ...], places: Places, now: float) -> Running:
    job = tasks[0]
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
        ends_at=now + LEAVING_S if leaving else expected_end(started_at, time_of(job), now),
        started_at=started_at,
        time_s=time_of(job),
        preemptible=may_be_stopped(job) and up,
        leaving=leaving,
    )


def time_of(job: Timed) -> float:
    """How long the job says that it runs, in seconds: its own estimate, else when it is stopped at the latest."""
    return float(job.time_s or job.max_time_s or inf)


def may_be_stopped(job: Timed) -> bool:
    return job.preemptible and job.kind != JobKind.INTERACTIVE
