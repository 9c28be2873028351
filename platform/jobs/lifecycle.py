"""How tasks and their job move. Everything that changes a job's state comes through here, with the job's row locked.

The lock order below a job: job, then its tasks. A task leaves HOLDING and its holdings end in the same transaction.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from common.errors import StaleState
from common.locks import lock_rows
from events.bus import SYSTEM, Actor, hint, ring_pool
from events.notices import Told, notify, notify_all
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
"""The wait before the first, second, ... retry: a job that always fails must not fill the log with starts."""


COMING = (TaskState.STARTING, TaskState.RUNNING)
"""The states of a task that comes up, in order."""

MADE_ROOM = frozenset({"preempted", "overtaken", "reclaimed", "window_closed", "maintenance"})
"""Whoever is stopped for others, or for a maintenance, loses its place and not its job: it is queued again, however
often, without a pause.
"""


REFUSALS = 3
"""So often in a row a job is queued again after its node refused it: it has done nothing wrong, and never ran."""


def lock_job(pk: int) -> Job:
    """The job's row, locked until the transaction ends. Everything about one job is serialised by it."""
    rows = lock_rows(Job.objects.filter(pk=pk))
    if not rows:
        raise StaleState(kind="job", was="deleted")
    return rows[0]


def lock_jobs(pks: Iterable[int]) -> list[Job]:
    """As `lock_job`, by their ids."""
    wanted = set(pks)
    rows = lock_rows(Job.objects.filter(pk__in=wanted))
    if len(rows) < len(wanted):
        raise StaleState(kind="job", was="deleted")
    return rows


def load_attempt(job: Job) -> list[Task]:
    """The tasks of the newest attempt by role and rank, all of this very job."""
    return load_attempts([job])[job.pk]


def load_attempts(jobs: Iterable[Job]) -> dict[int, list[Task]]:
    """As `load_attempt`, for each of these, by its id."""
    of = {job.pk: job for job in jobs}
    found: dict[int, list[Task]] = {pk: [] for pk in of}
    for task in load_newest([*of.values()]):
        task.job = of[task.job_id]
        found[task.job_id].append(task)
    return found


def load_newest(jobs: Sequence[Job]) -> list[Task]:
    """The tasks of their newest attempts, by role and rank."""
    newest = Q()
    for attempt in {job.attempt for job in jobs}:
        newest |= Q(attempt=attempt, job__in=[job.pk for job in jobs if job.attempt == attempt])
    return list(Task.objects.filter(newest).order_by("role", "rank"))


def begin_attempt(job: Job) -> list[Task]:
    """Make the PENDING tasks of `job.attempt`; ranks count over the whole gang. The job's row is locked."""
    roles = [role["role"] for role in job.gang for _ in range(role["min"])]
    return store_tasks(Task(job=job, role=role, rank=rank, attempt=job.attempt) for rank, role in enumerate(roles))


def add_tasks(job: Job, roles: Mapping[int, str]) -> list[Task]:
    """PENDING tasks beyond the least of an elastic gang, {rank: role}. The job's row is locked."""
    return store_tasks(Task(job=job, role=role, rank=rank, attempt=job.attempt) for rank, role in roles.items())


def store_tasks(tasks: Iterable[Task]) -> list[Task]:
    return Task.objects.bulk_create(tasks)


def move_task(task: Task, to: str, *, reason: str = "", actor: Actor, params: dict | None = None, **also: Any) -> None:
    """Advance a task, step by step where the table wants steps, end its holdings when it leaves HOLDING, then settle
    its job. The job's row is locked by the caller. Raises StaleState where somebody else moved it first.
    """
    with transaction.atomic():
        for step in path(task.state, to):
            last = step == to
            was = task.state
            extra = {**_times(step), **(also if last else {})}
            words = {"role": task.role, "rank": task.rank, "attempt": task.attempt, **(params or {})}
            advance(task, step, reason=reason if last else "", actor=actor, params=words, **extra)
            if was in HOLDING and step not in HOLDING:
                release_holdings(task)
                ring_pool(task.pool_id)
                hint("cycle")
        settle_job(task.job, actor=actor)


def move_gangs(moves: Sequence[Move], to: str, *, reason: str = "", actor: Actor) -> None:
    """As `move_task` for all tasks of the newest attempts of some jobs, in as many statements for a hundred as for two.

    The jobs are of one team and owner; their rows were locked before they were read. to: one step away for all, and a
    state in which a task holds something and none has run to its end. Each move with its own params and columns.
    """
    assert to in HOLDING, "the end of a task goes through move_task, which ends its holdings"
    tasks: list[Task] = [move.row for move in moves]  # type: ignore[misc]
    told = [
        Move(
            task,
            {"role": task.role, "rank": task.rank, "attempt": task.attempt, **move.params},
            {**_times(to), **move.also},
        )
        for task, move in zip(tasks, moves, strict=True)
    ]
    with transaction.atomic():
        advance_all(told, to, reason=reason, actor=actor)
        attempts: dict[int, list[Task]] = defaultdict(list)
        for task in tasks:
            attempts[task.job_id].append(task)
        settle_jobs([*{task.job_id: task.job for task in tasks}.values()], attempts, actor=actor)


def bring_up(moves: Sequence[tuple[Move, str]], *, actor: Actor) -> None:
    """As `move_task` for tasks of any number of jobs that come up, in as many statements for a hundred as for two.

    moves: of each task, which carries its locked job, what it writes and where it goes, one of COMING. Raises
    StaleState, and moves none, where one is elsewhere than it was read.
    """
    ways = [(move, to, path(move.row.state, to)) for move, to in moves]  # type: ignore[attr-defined]
    with transaction.atomic():
        for step in COMING:
            alike: dict[tuple, list[Move]] = defaultdict(list)
            for move, to, way in ways:
                if step in way:
                    task: Task = move.row  # type: ignore[assignment]
                    words = {"role": task.role, "rank": task.rank, "attempt": task.attempt, **move.params}
                    columns = {**_times(step), **(move.also if step == to else {})}
                    alike[tuple(sorted(columns))].append(Move(task, words, columns))
            for some in alike.values():
                advance_all(some, step, actor=actor)
        settle_jobs(list({move.row.job.pk: move.row.job for move, _ in moves}.values()), actor=actor)  # type: ignore[attr-defined]


def release_holdings(task: Task) -> None:
    Holding.objects.filter(task=task.uuid).release()


def path(start: str, to: str) -> list[str]:
    """The shortest legal way between two task states, without `start`. A short task may be over before it is seen."""
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


def settle_jobs(
    jobs: Sequence[Job], attempts: Mapping[int, Sequence[Task]] | None = None, *, actor: Actor = SYSTEM
) -> None:
    """As `settle_job`, for jobs that were read when they were locked; those that come up, in a few statements.

    attempts: the tasks of their newest ones by job, as they are now; None: they are looked up.
    """
    attempts = load_attempts(jobs) if attempts is None else attempts
    alike: dict[tuple[str, bool], list[Job]] = defaultdict(list)
    for job in jobs:
        state, done = _derive(job, attempts[job.pk])
        if state not in (JobState.STARTING, JobState.RUNNING) or done:
            settle_job(job, actor=actor)
        elif state != job.state and job.state not in JOB_FINAL:
            alike[state, _begins(job, state)].append(job)
    for (state, first), some in sorted(alike.items()):
        began: dict[str, Any] = {"started_at": Now()} if first else {}
        advance_all([Move(job, {}, began) for job in some], state, actor=actor)
        if first:
            _tell_begin(some)


def settle_job(job: Job, *, actor: Actor = SYSTEM) -> None:
    """Derive the job's state from its newest attempt, or begin the next attempt. The job's row is locked."""
    reload_job(job)
    if job.state in JOB_FINAL:
        return
    tasks = load_attempt(job)
    stopping = job.stop_requested_at is not None
    state, done = _derive(job, tasks)
    if state == job.state:
        return
    if state not in JOB_FINAL:
        first = _begins(job, state)
        began: dict[str, Any] = {"started_at": Now()} if first else {}
        # Whoever still runs is stopped as by a wish: the same reconciling, and no further attempt.
        wish: dict[str, Any] = {"stop_requested_at": Now(), "stop_reason": "job_done"} if done and not stopping else {}
        advance(job, state, actor=actor, **began, **wish)
        if wish:
            hint("reconcile")
        if first:
            _tell_begin([job])
        return
    decisive = _decisive([task for task in tasks if task.state == TaskState.SUCCEEDED] if done else tasks)
    if decisive.reason in MADE_ROOM and job.stop_requested_at is None:
        requeue(job, actor=actor, reason=decisive.reason, stops=job.stops + 1)
    elif decisive.reason == "refused_by_node" and not stopping and (refused := count_refusals(job)) <= REFUSALS:
        pause = timedelta(seconds=RETRY_PAUSE_S[refused - 1])
        requeue(job, actor=actor, reason=decisive.reason, not_before=timezone.now() + pause)
    elif may_retry(job, decisive.reason):
        retry(job, actor=actor, because=decisive.reason)
    else:
        reason = "completed" if state == JobState.SUCCEEDED else decisive.reason or job.stop_reason
        starts = [task.started_at for task in tasks if task.started_at]
        times: dict[str, Any] = {"started_at": job.started_at or min(starts, default=None), "ended_at": Now()}
        advance(job, state, reason=reason, actor=actor, exit_code=decisive.exit_code, **times)
        _tell_end(job)


def reload_job(job: Job) -> None:
    job.refresh_from_db()


def may_retry(job: Job, reason: str) -> bool:
    """A failed attempt is tried again where the job's own rule names its reason, and never against a stop wish."""
    rule = job.spec.get("retry", {})
    return bool(
        reason in REASONS
        and REASONS[reason].retry
        and reason in rule.get("when", ())
        and job.retries_left > 0
        and job.stop_requested_at is None
    )


def count_refusals(job: Job) -> int:
    """In how many of its newest attempts, up to one more than REFUSALS, a node refused it. It is the same in a row."""
    newest = Task.objects.filter(job=job, attempt__gte=job.attempt - REFUSALS, reason="refused_by_node")
    return newest.values("attempt").distinct().count()


def retry(job: Job, *, actor: Actor, because: str) -> None:
    """Queue the next attempt after a pause that grows with each try."""
    tried = max(job.spec.get("retry", {}).get("times", 0) - job.retries_left, 0)
    pause = timedelta(seconds=RETRY_PAUSE_S[min(tried, len(RETRY_PAUSE_S) - 1)])
    requeue(job, actor=actor, reason=because, not_before=timezone.now() + pause, retries_left=job.retries_left - 1)


def requeue(job: Job, *, actor: Actor, reason: str, **also: Any) -> None:
    """Begin attempt + 1 in the queue, at the place that the first submit gave it. The job's row is locked."""
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
    """The task that tells why the attempt ended: the first that failed of itself, else the first that was stopped."""
    ended = [task for task in tasks if task.state in TASK_FINAL]
    by_itself = [task for task in ended if task.state == TaskState.FAILED and task.reason != "gang_broken"]
    stopped = [task for task in ended if task.state == TaskState.STOPPED and task.reason != "gang_broken"]
    return min(by_itself or stopped or ended, key=lambda task: (task.ended_at or timezone.now(), task.rank))


def _derive(job: Job, tasks: Sequence[Task]) -> tuple[str, bool]:
    """(its state, whether a role that ends it has done well), from the tasks of its newest attempt."""
    done = is_done(job.gang, ((task.role, task.state) for task in tasks))
    stopping = job.stop_requested_at is not None
    return derive_job_state((task.state for task in tasks), stopping=stopping, done=done), done


def _begins(job: Job, state: str) -> bool:
    return state == JobState.RUNNING and job.started_at is None


def _tell_begin(jobs: Iterable[Job]) -> None:
    """A notebook tells by itself when it can be opened."""
    told = [Told(job.user_id, job, {"name": job.name}) for job in jobs if job.kind != JobKind.INTERACTIVE]
    notify_all("job_started", told)


def _tell_end(job: Job) -> None:
    """A short job may end before it was seen to run: then its end is all that is told."""
    kinds = {JobState.SUCCEEDED: "job_succeeded", JobState.FAILED: "job_failed"}
    if kind := kinds.get(JobState(job.state)):
        notify(user_id=job.user_id, kind=kind, about=job, params={"name": job.name, "reason": job.reason})


def _times(step: str) -> dict[str, Any]:
    if step == TaskState.ASSIGNED:
        return {"assigned_at": Now()}
    if step == TaskState.RUNNING:
        return {"started_at": Now(), "lost_at": None}
    if step == TaskState.LOST:
        return {"lost_at": Now()}
    return {"ended_at": Now()} if step in TASK_FINAL else {}
