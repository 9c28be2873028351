"""Change the states of jobs and tasks, always with the job's row locked, before its tasks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from common.errors import StaleState
from common.locks import lock_rows
from events.bus import SYSTEM, Actor, hint, publish_pool
from events.notices import Told, notify_all
from events.transitions import Move, advance, advance_all
from jobs.models import Job, JobKind, Task
from jobs.states import (
    HOLDING,
    JOB_FINAL,
    REASONS,
    TASK_FINAL,
    TASK_MOVES,
    JobState,
    TaskState,
    derive_job_state,
    is_done,
)
from quotas.models import Holding

RETRY_PAUSE_S = (5, 30, 120, 600)
"""Delay before the first, second, ... retry, so that a job that always fails does not fill the log."""

MADE_ROOM = frozenset({"preempted", "overtaken", "reclaimed", "window_closed", "maintenance"})
"""Jobs stopped for other jobs or for maintenance are requeued without limit or delay."""


REFUSALS = 3
"""How often in a row a job is requeued after its node refused it."""


def lock_job(pk: int) -> Job:
    """Lock a job's row, which serialises everything about the job."""
    rows = lock_rows(Job.objects.filter(pk=pk))
    if not rows:
        raise StaleState(kind="job", was="deleted")
    return rows[0]


def lock_jobs(pks: Iterable[int]) -> list[Job]:
    wanted = set(pks)
    rows = lock_rows(Job.objects.filter(pk__in=wanted))
    if len(rows) < len(wanted):
        raise StaleState(kind="job", was="deleted")
    return rows


def load_attempt(job: Job) -> list[Task]:
    """Return the newest attempt's tasks by role and rank, with `task.job` set to this object."""
    return load_attempts([job])[job.pk]


def load_attempts(jobs: Iterable[Job]) -> dict[int, list[Task]]:
    of = {job.pk: job for job in jobs}
    found: dict[int, list[Task]] = {pk: [] for pk in of}
    for task in load_newest([*of.values()]):
        task.job = of[task.job_id]
        found[task.job_id].append(task)
    return found


def load_newest(jobs: Sequence[Job]) -> list[Task]:
    newest = Q()
    for attempt in {job.attempt for job in jobs}:
        newest |= Q(attempt=attempt, job__in=[job.pk for job in jobs if job.attempt == attempt])
    return list(Task.objects.filter(newest).order_by("role", "rank"))


def begin_attempt(job: Job) -> list[Task]:
    """Create the PENDING tasks of `job.attempt`, ranked over the whole gang."""
    roles = [role["role"] for role in job.gang for _ in range(role["min"])]
    return store_tasks(Task(job=job, role=role, rank=rank, attempt=job.attempt) for rank, role in enumerate(roles))


def add_tasks(job: Job, roles: Mapping[int, str]) -> list[Task]:
    """Create tasks beyond an elastic gang's minimum, {rank: role}."""
    return store_tasks(Task(job=job, role=role, rank=rank, attempt=job.attempt) for rank, role in roles.items())


def store_tasks(tasks: Iterable[Task]) -> list[Task]:
    return Task.objects.bulk_create(tasks)


@dataclass(frozen=True)
class TaskMove:
    """params: of its event. also: columns of the last step. The task's job is locked."""

    task: Task
    to: str
    reason: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)


def move_task(task: Task, to: str, *, reason: str = "", actor: Actor, params: dict | None = None, **also: Any) -> None:
    """Move a task to a state by legal steps, release holdings, and settle its locked job. Raises StaleState."""
    with transaction.atomic():
        _advance_tasks([TaskMove(task, to, reason, params or {}, also)], actor)
        settle_job(task.job, actor=actor)


def move_tasks(moves: Sequence[TaskMove], *, actor: Actor) -> None:
    """Move tasks of locked jobs, all or none, in a constant number of statements. Raises StaleState."""
    with transaction.atomic():
        _advance_tasks(moves, actor)
        settle_jobs([*{move.task.job_id: move.task.job for move in moves}.values()], actor=actor)


def _advance_tasks(moves: Sequence[TaskMove], actor: Actor) -> None:
    ways = [(move, path(move.task.state, move.to)) for move in moves]
    freed = [move.task for move in moves if move.task.state in HOLDING and move.to not in HOLDING]
    for step in TaskState:  # no legal path goes against this order
        alike: dict[tuple, list[Move]] = defaultdict(list)
        for move, way in ways:
            if step in way:
                last, task = step == move.to, move.task
                words = {"role": task.role, "rank": task.rank, "attempt": task.attempt, **move.params}
                columns = {**_times(step), **(move.also if last else {})}
                alike[move.reason if last else "", *sorted(columns)].append(Move(task, words, columns))
        for (reason, *_), some in alike.items():
            advance_all(some, step, reason=reason, actor=actor)
    if freed:
        release_holdings(freed)
        for pool_id in {task.pool_id for task in freed}:
            publish_pool(pool_id)
        hint("cycle")


def release_holdings(tasks: Sequence[Task]) -> None:
    Holding.objects.filter(task__in=[task.uuid for task in tasks]).release()


def path(start: str, to: str) -> list[str]:
    """Return the shortest legal path: a short task may end unobserved."""
    between = {TaskState.STARTING, TaskState.RUNNING} | ({TaskState.STOPPING} if to == TaskState.STOPPED else set())
    ways: list[list[str]] = [[start]]
    while ways:
        way = ways.pop(0)
        for step in sorted(TASK_MOVES[way[-1]]):
            if step == to:
                return [*way[1:], step]
            if step in between and step not in way:
                ways.append([*way, step])
    raise StaleState(kind="task", was=start)


def settle_job(job: Job, *, actor: Actor = SYSTEM) -> None:
    """Derive a locked job's state from its newest attempt, or begin the next attempt."""
    reload_job(job)
    settle_jobs([job], actor=actor)


def settle_jobs(jobs: Sequence[Job], *, actor: Actor = SYSTEM) -> None:
    """Settle freshly locked jobs, in few statements unless some are requeued."""
    attempts = load_attempts(jobs)
    alike: dict[tuple, list[Move]] = defaultdict(list)
    for job in jobs:
        tasks = attempts[job.pk]
        state, done = _derive(job, tasks)
        if job.state in JOB_FINAL or state == job.state:
            continue
        reason, columns = "", _begin_columns(job, state, done)
        if state in JOB_FINAL:
            decisive = _decisive([task for task in tasks if task.state == TaskState.SUCCEEDED] if done else tasks)
            if (again := _another_try(job, decisive.reason)) is not None:
                requeue(job, actor=actor, reason=decisive.reason, **again)
                continue
            reason = "completed" if state == JobState.SUCCEEDED else decisive.reason or job.stop_reason
            columns = _end_columns(job, tasks, decisive)
        alike[state, reason, *sorted(columns)].append(Move(job, {}, columns))
    for (state, reason, *names), moves in sorted(alike.items()):
        advance_all(moves, state, reason=reason, actor=actor)
        _tell([move.row for move in moves], state, begins="started_at" in names)  # type: ignore[misc]
        if "stop_requested_at" in names:
            hint("reconcile")


def reload_job(job: Job) -> None:
    job.refresh_from_db()


def count_refusals(job: Job) -> int:
    """Count the newest attempts that a node refused."""
    newest = Task.objects.filter(job=job, attempt__gte=job.attempt - REFUSALS, reason="refused_by_node")
    return newest.values("attempt").distinct().count()


def requeue(job: Job, *, actor: Actor, reason: str, **also: Any) -> None:
    """Queue a locked job as attempt + 1, at its first submit's position."""
    fresh: dict[str, Any] = {
        "attempt": job.attempt + 1,
        "started_at": None,
        "ended_at": None,
        "exit_code": None,
        "wait_reasons": [],
        "explained_at": None,
        "queued_at": Now(),
    }
    advance(job, JobState.QUEUED, reason=reason, actor=actor, params={"attempt": job.attempt + 1}, **{**fresh, **also})
    begin_attempt(job)
    hint("cycle")


def _decisive(tasks: list[Task]) -> Task:
    """Return the task that explains the end: the first that failed of itself, else the first stopped."""
    ended = [task for task in tasks if task.state in TASK_FINAL]
    by_itself = [task for task in ended if task.state == TaskState.FAILED and task.reason != "gang_broken"]
    stopped = [task for task in ended if task.state == TaskState.STOPPED and task.reason != "gang_broken"]
    return min(by_itself or stopped or ended, key=lambda task: (task.ended_at or timezone.now(), task.rank))


def _derive(job: Job, tasks: Sequence[Task]) -> tuple[str, bool]:
    """Return (state, whether a role that ends the job succeeded)."""
    done = is_done(job.gang, ((task.role, task.state) for task in tasks))
    stopping = job.stop_requested_at is not None
    return derive_job_state((task.state for task in tasks), stopping=stopping, done=done), done


def _begin_columns(job: Job, state: str, done: bool) -> dict[str, Any]:
    if done and job.stop_requested_at is None:
        # Tasks still running are stopped as by a stop request.
        return {"stop_requested_at": Now(), "stop_reason": "job_done"}
    return {"started_at": Now()} if state == JobState.RUNNING and job.started_at is None else {}


def _end_columns(job: Job, tasks: Sequence[Task], decisive: Task) -> dict[str, Any]:
    starts = [task.started_at for task in tasks if task.started_at]
    began = job.started_at or min(starts, default=None)
    return {"started_at": began, "ended_at": Now(), "exit_code": decisive.exit_code}


def _another_try(job: Job, because: str) -> dict[str, Any] | None:
    """Return the columns of the next attempt, if there is one."""
    if job.stop_requested_at is not None:
        return None
    if because in MADE_ROOM:
        return {"stops": job.stops + 1}
    if because == "refused_by_node" and (refused := count_refusals(job)) <= REFUSALS:
        return {"not_before": timezone.now() + _pause(refused - 1)}
    if _may_retry(job, because):
        tried = max(job.spec.get("retry", {}).get("times", 0) - job.retries_left, 0)
        return {"not_before": timezone.now() + _pause(tried), "retries_left": job.retries_left - 1}
    return None


def _may_retry(job: Job, because: str) -> bool:
    named = because in job.spec.get("retry", {}).get("when", ())
    return named and because in REASONS and REASONS[because].retry and job.retries_left > 0


def _pause(tried: int) -> timedelta:
    return timedelta(seconds=RETRY_PAUSE_S[min(tried, len(RETRY_PAUSE_S) - 1)])


def _tell(jobs: Sequence[Job], state: str, *, begins: bool) -> None:
    """Notify owners of starts and ends, but of a notebook's start."""
    kinds = {JobState.SUCCEEDED: "job_succeeded", JobState.FAILED: "job_failed"}
    if state == JobState.RUNNING and begins:
        told = [Told(job.user_id, job, {"name": job.name}) for job in jobs if job.kind != JobKind.INTERACTIVE]
        notify_all("job_started", told)
    elif kind := kinds.get(JobState(state)):
        notify_all(kind, [Told(job.user_id, job, {"name": job.name, "reason": job.reason}) for job in jobs])


def _times(step: str) -> dict[str, Any]:
    if step == TaskState.ASSIGNED:
        return {"assigned_at": Now()}
    if step == TaskState.RUNNING:
        return {"started_at": Now(), "lost_at": None}
    if step == TaskState.LOST:
        return {"lost_at": Now()}
    return {"ended_at": Now()} if step in TASK_FINAL else {}
