"""What was seen of tasks, into their rows and history. Each write carries the term of the loop that saw it.

Where a queue moves tasks come up and end by the hundred: what was seen of them is recorded together, under the locks of
all their jobs.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from django.db import transaction

from common.errors import StaleState
from events.bus import RUNTIME, ring
from jobs.lifecycle import MADE_ROOM, TaskMove, lock_jobs, move_tasks, path
from jobs.models import Task
from jobs.states import TASK_FINAL, TaskState
from runtimes.base import ContainerView
from scheduler.lease import check_epoch
from scheduler.reconcile import LONGEST_DETAIL, Noted, Sighting

log = logging.getLogger("tessera.reconcile")

TOGETHER = 100
"""So many tasks at most move in one transaction: others wait for their jobs meanwhile."""


def in_batches(steps: Iterable[Sighting]) -> Iterator[list[Sighting]]:
    """By the hundred."""
    steps = list(steps)
    for at in range(0, len(steps), TOGETHER):
        yield steps[at : at + TOGETHER]


def record_sightings(steps: Sequence[Sighting], epoch: int) -> set[str]:
    """One batch. What went stale is dropped and takes nothing with it. The uuids of those that are as was seen now."""
    if not steps:
        return set()
    try:
        return record_together(steps, epoch)
    except StaleState as stale:
        if len(steps) == 1:
            log.info("Sighting dropped: %s", stale)
            return set()
        log.info("%d sightings are recorded one by one: %s", len(steps), stale)
    return set().union(*(record_sightings([step], epoch) for step in steps))


def record_sighting(step: Sighting, epoch: int) -> None:
    """Raises StaleState where the rows say otherwise by now."""
    if not record_together([step], epoch):
        raise StaleState(kind="task", was=step.state)


@transaction.atomic
def record_together(steps: Sequence[Sighting], epoch: int) -> set[str]:
    """Move tasks, of whatever jobs, to what was seen, with the engine's own words and times. Those of which the rows
    say otherwise by now are left out. Raises StaleState, and moves none, where a job is gone or the term is over.
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
def record_news(step: Noted, epoch: int) -> None:
    check_epoch("reconcile", epoch)
    told = {"checkpointed_at": step.checkpointed_at, "gpu_use": [asdict(use) for use in step.gpu_use]}
    news = {name: value for name, value in told.items() if value}
    write_news(step.uuid, news | (step.coming._asdict() if step.coming is not None else {}))
    if step.coming is not None:  # somebody looks at a page and waits
        ring(load_task(step.uuid))


def write_news(uuid: str, told: dict[str, Any]) -> None:
    """told: columns of the task."""
    Task.objects.filter(uuid=uuid).update(**told)


def load_task(uuid: str) -> Task:
    return Task.objects.select_related("job").get(uuid=uuid)


def load_tasks(uuids: Sequence[str]) -> list[Task]:
    """Those that there are, without their jobs."""
    return list(Task.objects.filter(uuid__in=uuids))


def lost_work(task: Task, ended: ContainerView, step: Sighting) -> dict[str, object]:
    """What making room cost this task, for its history: seconds since its last checkpoint, else since its start."""
    began, saved_at = task.started_at or ended.started_at, ended.checkpointed_at or task.checkpointed_at
    if step.reason not in MADE_ROOM or began is None or ended.ended_at is None:
        return {}
    kind, since = ("saved", saved_at) if saved_at is not None and saved_at > began else ("unsaved", began)
    return {"kind": kind, "lost_s": max(round((ended.ended_at - since).total_seconds()), 0)}


def _is_open(task: Task, step: Sighting) -> bool:
    """Whether it is there, or may go there."""
    try:
        return task.state == step.state or bool(path(task.state, step.state))
    except StaleState as stale:
        log.info("Sighting dropped: %s", stale)
        return False


def _move_of(task: Task, step: Sighting) -> TaskMove:
    ended = step.seen if step.state in TASK_FINAL else None
    params = {"exit_code": ended.exit_code, "detail": ended.detail, **lost_work(task, ended, step)} if ended else {}
    return TaskMove(task, step.state, step.reason, params, _columns(task, step))


def _columns(task: Task, step: Sighting) -> dict[str, object]:
    """What the runtime told besides."""
    also: dict[str, object] = {}
    if view := step.seen:
        found = {
            "detail": view.detail[:LONGEST_DETAIL],
            "exit_code": view.exit_code,
            "exit_signal": view.signal,
            "peak_memory_mib": view.peak_memory_mib,
            "address": view.address,
            # A task that is over before it was seen running still ran: the runtime knows since when.
            "started_at": view.started_at if task.started_at is None and step.state in TASK_FINAL else None,
        }
        also = {name: value for name, value in found.items() if value not in (None, "")}
    return also | ({"fetching_since": None, "detail": ""} if step.state == TaskState.RUNNING else {})
