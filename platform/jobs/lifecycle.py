"""Change the states of jobs and tasks, always with the job's row locked, before its tasks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest, Now
from django.utils import timezone

from accounts.team_names import get_team_name
from common.errors import StaleState
from common.locks import lock_rows
from common.steady_clock import steady_now
from events.notices import notify_all
from events.record_and_publish import SYSTEM, Actor, hint, publish_pool
from events.transitions import Move, advance
from jobs.job_tokens.tokens import end_tokens
from jobs.models import Job, JobKind, Priority, Task
from jobs.notices.recipients import list_recipients
from jobs.outputs.outputs import note_outputs
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
from metrics.process import QUEUE_WAIT_SECONDS, SLICE_KILLS, START_FAILURES, START_SECONDS, TASKS_ENDED
from quotas.models import Holding

RETRY_PAUSE_S = (5, 30, 120, 600)
"""Delay before the first, second, ... retry, so that a job that always fails does not fill the log."""

MADE_ROOM = frozenset({"preempted", "overtaken", "reclaimed", "window_closed", "maintenance"})
"""Jobs stopped for other jobs or for maintenance are requeued without limit or delay."""

LONG_WAIT = timedelta(minutes=1)
"""A start after less is no news: whoever submitted still looks."""

ENDS: dict[str, str] = {JobState.SUCCEEDED: "job_succeeded", JobState.FAILED: "job_failed"}
"""Kinds of notices about ends."""
NOTIFY_WORDS = {"job_succeeded": "success", "job_failed": "failure"}
"""What a job file's `notify` calls them."""

NOT_BEFORE_ITS_START = Greatest(Now(), F("started_at"))
"""The time of an end, also where the clock was set back since the start."""

REFUSALS = 3
"""How often in a row a job is requeued after its node refused it."""


def lock_job(pk: int) -> Job:
    return lock_jobs([pk])[0]


def lock_jobs(pks: Iterable[int]) -> list[Job]:
    """Lock jobs' rows, which serialises everything about them. Raises StaleState if one is gone."""
    wanted = set(pks)
    rows = lock_rows(Job.objects.filter(pk__in=wanted))
    if len(rows) < len(wanted):
        raise StaleState(kind="job", was="deleted")
    return rows


def load_attempt(job: Job) -> list[Task]:
    return load_attempts([job])[job.pk]


def load_attempts(jobs: Iterable[Job]) -> dict[int, list[Task]]:
    """Return the newest attempts' tasks by role and rank, {job id: tasks}, with `task.job` set to these objects."""
    of = {job.pk: job for job in jobs}
    newest = Q()
    for attempt in {job.attempt for job in of.values()}:
        newest |= Q(attempt=attempt, job__in=[job.pk for job in of.values() if job.attempt == attempt])
    found: dict[int, list[Task]] = {pk: [] for pk in of}
    for task in Task.objects.filter(newest).order_by("role", "rank"):
        task.job = of[task.job_id]
        found[task.job_id].append(task)
    return found


def begin_attempt(job: Job) -> list[Task]:
    """Create the PENDING tasks of `job.attempt`, ranked over the whole gang."""
    roles = [role["role"] for role in job.gang for _ in range(role["min"])]
    return add_tasks(job, dict(enumerate(roles)))


def add_tasks(job: Job, roles: Mapping[int, str]) -> list[Task]:
    """Create PENDING tasks of `job.attempt`, {rank: role}."""
    return Task.objects.bulk_create(
        Task(job=job, role=role, rank=rank, attempt=job.attempt) for rank, role in roles.items()
    )


@dataclass(frozen=True)
class TaskMove:
    """params: of its event. also: columns of the last step. The task's job is locked."""

    task: Task
    to: str
    reason: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)


def move_tasks(moves: Sequence[TaskMove], *, actor: Actor) -> None:
    """Move tasks by legal steps, all or none, release what they held, and settle their jobs.

    The jobs were locked just now. In few statements. Raises StaleState.
    """
    with transaction.atomic():
        _advance_tasks(moves, actor)
        settle_jobs([*{move.task.job_id: move.task.job for move in moves}.values()], actor=actor)


def _advance_tasks(moves: Sequence[TaskMove], actor: Actor) -> None:
    ways = [(move, list_steps(move.task.state, move.to)) for move in moves]
    freed = [move.task for move in moves if move.task.state in HOLDING and move.to not in HOLDING]
    for step in TaskState:  # no legal path goes against this order
        if some := [_step(move, step) for move, way in ways if step in way]:
            advance(some, step, actor=actor)
    transaction.on_commit(lambda: _count(ways), robust=True)
    if freed:
        Holding.objects.filter(task__in=[task.uuid for task in freed]).release()
        for pool_id in {task.pool_id for task in freed}:
            publish_pool(pool_id)
        hint("cycle")


def _count(ways: Iterable[tuple[TaskMove, list[str]]]) -> None:
    """Count starts and ends that were committed, for Prometheus."""
    for move, way in ways:
        task = move.task
        if TaskState.ASSIGNED in way and task.rank == 0 and task.assigned_at:
            wait = QUEUE_WAIT_SECONDS.labels(get_team_name(task.job.team_id), Priority(task.job.priority).name.lower())
            wait.observe(max((task.assigned_at - task.job.waits_from).total_seconds(), 0))
        if TaskState.RUNNING in way and task.assigned_at and task.started_at:
            executor = "kubernetes" if settings.IN_CONTAINERS else "local"
            START_SECONDS.labels(executor).observe(max((task.started_at - task.assigned_at).total_seconds(), 0))
        if move.to in TASK_FINAL:
            TASKS_ENDED.labels(move.to.lower(), move.reason).inc()
            SLICE_KILLS.inc(move.reason == "gpu_out_of_memory")
            if move.to == TaskState.FAILED and task.started_at is None:
                START_FAILURES.labels(move.reason).inc()


def _step(move: TaskMove, step: str) -> Move:
    """Return one step of a task's way. The reason and columns are those of the last one."""
    last, task = step == move.to, move.task
    params = {"role": task.role, "rank": task.rank, "attempt": task.attempt, **move.params}
    return Move(task, move.reason if last else "", params, {**_times(step), **(move.also if last else {})})


def list_steps(start: str, to: str) -> list[str]:
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


def settle_jobs(jobs: Sequence[Job], *, actor: Actor = SYSTEM) -> None:
    """Derive the states of freshly locked jobs from their newest attempts, or begin the next attempt.

    In few statements, unless some are queued again.
    """
    attempts = load_attempts(jobs)
    ended: list[Job] = []
    alike: dict[str, list[Move]] = defaultdict(list)
    for job in jobs:
        tasks = attempts[job.pk]
        state, done = _derive(job, tasks)
        if job.state in JOB_FINAL or state == job.state:
            continue
        reason, columns = "", _begin_columns(job, state, done)
        if state in JOB_FINAL:
            decisive = _decisive([task for task in tasks if task.state == TaskState.SUCCEEDED] if done else tasks)
            if (again := _another_try(job, decisive.reason)) is not None:
                requeue_job(job, actor=actor, reason=decisive.reason, **again)
                continue
            ended.append(job)
            reason = "completed" if state == JobState.SUCCEEDED else decisive.reason or job.stop_reason
            columns = _end_columns(job, tasks, decisive)
        alike[state].append(Move(job, reason, also=columns))
    for state, moves in sorted(alike.items()):
        advance(moves, state, actor=actor)
        if state == JobState.SUCCEEDED:
            note_outputs(move.row for move in moves)
        _notify_people([move for move in moves if move.row.is_told_alone], state)
        if any(move.row.array_id for move in moves):
            hint("make_elements")
        if any("stop_requested_at" in move.also for move in moves):
            hint("reconcile")
    end_tokens(ended)


def requeue_job(job: Job, *, actor: Actor, reason: str, **also: Any) -> None:
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
    move = Move(job, reason, {"attempt": job.attempt + 1}, {**fresh, **also})
    advance([move], JobState.QUEUED, actor=actor)
    end_tokens([job])
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
    return {"started_at": began, "ended_at": NOT_BEFORE_ITS_START, "exit_code": decisive.exit_code}


def _another_try(job: Job, because: str) -> dict[str, Any] | None:
    """Return the columns of the next attempt, if there is one."""
    if job.stop_requested_at is not None:
        return None
    if because in MADE_ROOM:
        return {"stops": job.stops + 1}
    if because == "refused_by_node" and (refused := _count_refusals(job)) <= REFUSALS:
        return {"not_before": steady_now() + _retry_delay(refused - 1)}
    if _may_retry(job, because):
        tried = max(job.spec.get("retry", {}).get("times", 0) - job.retries_left, 0)
        return {"not_before": steady_now() + _retry_delay(tried), "retries_left": job.retries_left - 1}
    return None


def _count_refusals(job: Job) -> int:
    """Count the newest attempts that a node refused."""
    newest = Task.objects.filter(job=job, attempt__gte=job.attempt - REFUSALS, reason="refused_by_node")
    return newest.values("attempt").distinct().count()


def _may_retry(job: Job, because: str) -> bool:
    named = because in job.spec.get("retry", {}).get("when", ())
    return named and because in REASONS and REASONS[because].retry and job.retries_left > 0


def _retry_delay(tried: int) -> timedelta:
    return timedelta(seconds=RETRY_PAUSE_S[min(tried, len(RETRY_PAUSE_S) - 1)])


def has_waited(job: Job) -> bool:
    """Check whether a job was long in the queue, or on its way from there, when it starts now."""
    return steady_now() - job.waits_from >= LONG_WAIT


def _notify_people(moves: Sequence[Move], state: str) -> None:
    """Notify of ends, and of starts after a wait but a notebook's, which is told when it answers."""
    if state == JobState.RUNNING:
        begun = [move.row for move in moves if "started_at" in move.also and move.row.kind != JobKind.INTERACTIVE]
        notify_all("job_started", list_recipients(begun, "start", of_owner=has_waited))
    elif state in ENDS:
        kind = ENDS[state]
        notify_all(kind, list_recipients([move.row for move in moves], NOTIFY_WORDS[kind]))


def _times(step: str) -> dict[str, Any]:
    if step == TaskState.ASSIGNED:
        return {"assigned_at": Now()}
    if step == TaskState.RUNNING:
        return {"started_at": Now(), "lost_at": None, "settled": None}
    if step == TaskState.LOST:
        return {"lost_at": Now()}
    return {"ended_at": NOT_BEFORE_ITS_START} if step in TASK_FINAL else {}
