"""Record observed task changes, many jobs at a time, fenced by lease epoch."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from django.db import transaction

from common.errors import StaleState
from events.record_and_publish import RUNTIME, publish_row
from jobs.lifecycle import MADE_ROOM, TaskMove, list_steps, lock_jobs, move_tasks
from jobs.models import Task
from jobs.states import TASK_FINAL, TaskState
from runtimes.contract.container import ContainerView
from scheduler.lease import check_epoch
from scheduler.reconcile.compare import LONGEST_DETAIL, TaskObserved, TaskProgress

log = logging.getLogger("tessera.reconcile")

TOGETHER = 100
"""Maximum number of tasks moved in one transaction, which locks their jobs."""


def in_batches(steps: Iterable[TaskObserved]) -> Iterator[list[TaskObserved]]:
    """Yield batches of TOGETHER."""
    steps = list(steps)
    for at in range(0, len(steps), TOGETHER):
        yield steps[at : at + TOGETHER]


def record_observations(steps: Sequence[TaskObserved], epoch: int) -> set[str]:
    """Record a batch, drop stale observations, return uuids now as observed."""
    if not steps:
        return set()
    try:
        return record_batch(steps, epoch)
    except StaleState as stale:
        if len(steps) == 1:
            log.info("Sighting dropped: %s", stale)
            return set()
        log.info("%d sightings are recorded one by one: %s", len(steps), stale)
    return set().union(*(record_observations([step], epoch) for step in steps))


def record_observation(step: TaskObserved, epoch: int) -> None:
    """Record one observation. Raise StaleState if outdated."""
    if not record_batch([step], epoch):
        raise StaleState(kind="task", was=step.state)


@transaction.atomic
def record_batch(steps: Sequence[TaskObserved], epoch: int) -> set[str]:
    """Move tasks as observed, skipping outdated ones.

    Raise StaleState, moving none, if a job is gone or the epoch is over.
    """
    check_epoch("reconcile", epoch)
    jobs = {job.pk: job for job in lock_jobs({step.job_id for step in steps})}
    tasks = {task.uuid.hex: task for task in load_tasks([step.uuid for step in steps])}
    moves, recorded = [], set()
    for step in steps:
        task = tasks.get(step.uuid)
        if task is None or not _is_open(task, step):
            continue
        recorded.add(step.uuid)
        if task.state != step.state:
            task.job = jobs[step.job_id]
            moves.append(_move_of(task, step))
    if moves:
        move_tasks(moves, actor=RUNTIME)
    return recorded


@transaction.atomic
def record_progress(step: TaskProgress, epoch: int) -> None:
    check_epoch("reconcile", epoch)
    told = {"checkpointed_at": step.checkpointed_at, "gpu_use": [asdict(use) for use in step.gpu_use]}
    news = {name: value for name, value in told.items() if value}
    if step.start_progress is not None:
        news |= step.start_progress._asdict()
    if since := news.get("fetching_since"):
        news["fetch_began_at"] = since
    write_progress(step.uuid, news)
    if step.start_progress is not None:  # a page may be waiting
        publish_row(load_task(step.uuid))


def write_progress(uuid: str, told: dict[str, Any]) -> None:
    """Write columns of a task that are no state."""
    Task.objects.filter(uuid=uuid).update(**told)


def load_task(uuid: str) -> Task:
    """Read a task without locking it."""
    return Task.objects.select_related("job").get(uuid=uuid)


def load_tasks(uuids: Sequence[str]) -> list[Task]:
    return list(Task.objects.filter(uuid__in=uuids))


def measure_lost_work(task: Task, ended: ContainerView, step: TaskObserved) -> dict[str, object]:
    """Return work lost by preemption: seconds since checkpoint or start."""
    began, saved_at = task.started_at or ended.started_at, ended.checkpointed_at or task.checkpointed_at
    if step.reason not in MADE_ROOM or began is None or ended.ended_at is None:
        return {}
    kind, since = ("saved", saved_at) if saved_at is not None and saved_at > began else ("unsaved", began)
    return {"kind": kind, "lost_s": max(round((ended.ended_at - since).total_seconds()), 0)}


def _is_open(task: Task, step: TaskObserved) -> bool:
    """Return whether the task has, or may take, that state."""
    try:
        return task.state == step.state or bool(list_steps(task.state, step.state))
    except StaleState as stale:
        log.info("Sighting dropped: %s", stale)
        return False


def _move_of(task: Task, step: TaskObserved) -> TaskMove:
    ended = step.seen if step.state in TASK_FINAL else None
    params = (
        {"exit_code": ended.exit_code, "detail": ended.detail, **measure_lost_work(task, ended, step)} if ended else {}
    )
    return TaskMove(task, step.state, step.reason, params, _columns(task, step))


def _columns(task: Task, step: TaskObserved) -> dict[str, object]:
    """Return further columns that the runtime reported."""
    also: dict[str, object] = {}
    if view := step.seen:
        found = {
            "detail": view.detail[:LONGEST_DETAIL],
            "exit_code": view.exit_code,
            "exit_signal": view.signal,
            "peak_memory_mib": view.peak_memory_mib,
            "address": view.address,
            # A task that ended before it was seen running still ran.
            "started_at": view.started_at if task.started_at is None and step.state in TASK_FINAL else None,
        }
        also = {name: value for name, value in found.items() if value not in (None, "")}
    return also | ({"fetching_since": None, "detail": ""} if step.state == TaskState.RUNNING else {})
