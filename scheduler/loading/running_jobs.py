"""Load running jobs for the scheduler core."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from django.db.models import Func

from jobs.models import may_be_stopped
from jobs.states import TaskState
from scheduler.core.model.types import CardShare, NumaShare, RunningJob, TaskPlacement
from scheduler.core.queueing.release_times import estimate_end
from scheduler.loading.holdings import HoldingRow, Holdings
from scheduler.loading.json_rows import is_set, seconds
from scheduler.loading.predicted_lengths import JobLengths, get_max_time_s
from scheduler.loading.row_cache import cached_rows, match_rows, memo_for

LEAVING_S = 30.0
"""Expected duration of a stop, in seconds."""

GONE = -1
"""Index of a card that no longer exists."""


@dataclass(frozen=True)
class ArrayIndex:
    """Database ids to array indices."""

    team: dict[int, int]
    user: dict[int, int]
    pool: dict[int, int]
    node: dict[int, int] = field(default_factory=dict)
    gpu: dict[int, int] = field(default_factory=dict)
    numa: dict[tuple[int, int], int] = field(default_factory=dict)
    """{(node's id, NUMA node): its place among those of the node}, of nodes with several."""


class RunningTaskRow(NamedTuple):
    """A task with holdings and its job's fields."""

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
    eligible_at: float
    queued_at: float
    stops: int
    stopping: bool
    kind: str
    preemptible: bool
    time_s: int | None
    max_time_s: int | None


@dataclass(frozen=True)
class RunningTasks:
    """A job with holdings. tasks: by rank. seats: None if lost."""

    tasks: tuple[RunningTaskRow, ...]
    seats: tuple[TaskPlacement, ...] | None
    running: RunningJob | None
    until: float
    """Valid until this time; in the past if it must be recomputed each time."""

    def now(self, places: ArrayIndex, now: float, lengths: JobLengths) -> "RunningTasks":
        if self.seats is None or now < self.until:
            return self
        running = _running(self.tasks, self.seats, places, now, lengths)
        timeless = not running.leaving and all(task.started_at for task in self.tasks)
        return replace(self, running=running, until=running.ends_at if timeless else -inf)


def load_running(holdings: Holdings, places: ArrayIndex, now: float, lengths: JobLengths) -> list[RunningJob]:
    """Load jobs with holdings, except with lost parts: their end is unknown."""
    last = memo_for("running", (places.team, places.pool, places.node, places.gpu, places.numa, lengths.version))
    known: dict[int, RunningTasks] = last.setdefault("known", {})
    holders, held = load_running_tasks(), holdings.rows
    changed = _differing(holders, last.get("holders", []))
    tasks = {row.task for row in _differing(held, last.get("held", []))}
    jobs = {task.job for task in changed} | {task.job for task in holders if task.task in tasks}
    last.update(holders=holders, held=held)
    for job in jobs:
        known.pop(job, None)
    known.update((seated.tasks[0].job, seated) for seated in _build_running_tasks(jobs, holders, held, places))
    lengths.read(dict.fromkeys(jobs & known.keys()))
    for job in sorted(known):
        known[job] = known[job].now(places, now, lengths)
    return [seated.running for _, seated in sorted(known.items()) if seated.running]


def load_running_tasks() -> list[RunningTaskRow]:
    moments = (seconds(name) for name in ("assigned_at", "started_at", "checkpointed_at"))
    columns: tuple[str | Func, ...] = ("uuid", "job_id", "role", "rank", "state", *moments)
    since = seconds("job__eligible_at"), seconds("job__queued_at")
    of_job = ("team_id", "user_id", "pool_id", "priority", *since, "stops")
    times = (is_set("job__stop_requested_at"), "kind", "preemptible", "time_s", "max_time_s")
    names = (column if isinstance(column, Func) else f"job__{column}" for column in (*of_job, *times))
    return cached_rows("holders", RunningTaskRow, *columns, *names)


def _differing(rows: list, before: list) -> list:
    """Return added and removed rows."""
    at = match_rows(rows, before)
    gone = np.ones(len(before), dtype=bool)
    gone[at[at >= 0]] = False
    return [rows[place] for place in (at < 0).nonzero()[0].tolist()] + [
        before[place] for place in gone.nonzero()[0].tolist()
    ]


def _build_running_tasks(
    jobs: set[int], holders: list[RunningTaskRow], held: list[HoldingRow], places: ArrayIndex
) -> Iterator[RunningTasks]:
    """Yield jobs with holdings."""
    mine = sorted((task for task in holders if task.job in jobs), key=attrgetter("job", "rank")) if jobs else []
    of_task: dict[str, list[HoldingRow]] = {task.task: [] for task in mine}
    for row in held if mine else ():
        if row.task in of_task:
            of_task[row.task].append(row)
    for _, group in groupby(mine, key=attrgetter("job")):
        tasks = tuple(task for task in group if of_task[task.task])
        if tasks:
            yield RunningTasks(tasks, _placements(tasks, of_task, places), None, -inf)


def _placements(
    tasks: tuple[RunningTaskRow, ...], of_task: dict[str, list[HoldingRow]], places: ArrayIndex
) -> tuple[TaskPlacement, ...] | None:
    seats = [_placement(task, of_task[task.task], places) for task in tasks]
    there = tuple(seat for seat in seats if seat is not None)
    lost = any(task.state == TaskState.LOST for task in tasks)
    return there if len(there) == len(seats) and not lost else None


def _placement(task: RunningTaskRow, own: list[HoldingRow], places: ArrayIndex) -> TaskPlacement | None:
    """Return the task's place, None if it is gone."""
    node, shares, near, cpu, memory = places.node.get(own[0].node_id), [], [], 0, 0
    for row in own:
        cpu, memory = cpu + row.cpu_milli, memory + row.memory_mib
        if row.gpu_id is not None:
            card = places.gpu.get(row.gpu_id, GONE)
            shares.append(CardShare(card, row.gpu_memory_mib, row.gpu_compute_percent, row.gpu_milli))
        elif row.numa is not None and (row.node_id, row.numa) in places.numa:
            near.append(NumaShare(places.numa[row.node_id, row.numa], row.cpu_milli, row.memory_mib))
    if node is None or any(share.gpu == GONE for share in shares):
        return None
    return TaskPlacement(task.role, task.rank, node, tuple(shares), cpu, memory, tuple(near))


def _running(
    tasks: tuple[RunningTaskRow, ...],
    seats: tuple[TaskPlacement, ...],
    places: ArrayIndex,
    now: float,
    lengths: JobLengths,
) -> RunningJob:
    job = tasks[0]
    assigned_at = min(task.assigned_at or now for task in tasks)
    started_at = max(task.started_at or now for task in tasks)
    leaving = job.stopping or any(task.state == TaskState.STOPPING for task in tasks)
    up = all(task.state in (TaskState.STARTING, TaskState.RUNNING) for task in tasks)
    limit_s = get_max_time_s(job)
    length = lengths.predict(job, job.job, max(now - started_at, 0.0))
    return RunningJob(
        job=job.job,
        team=places.team[job.team_id],
        user=places.user[job.user_id],
        pool=places.pool[job.pool_id],
        priority=job.priority,
        tasks=seats,
        saved_at=max(started_at, min(task.checkpointed_at or 0.0 for task in tasks)),
        ends_at=now + LEAVING_S if leaving else estimate_end(started_at, length.expected_s, now, limit_s),
        started_at=started_at,
        time_s=length.expected_s,
        limit_s=limit_s,
        latest_s=length.latest_s,
        preemptible=may_be_stopped(job) and up,
        leaving=leaving,
        waited_s=max(assigned_at - max(job.eligible_at, job.queued_at), 0.0),
        stops=job.stops,
    )
