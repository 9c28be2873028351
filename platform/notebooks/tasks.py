"""Celery tasks of notebooks."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from asgiref.sync import async_to_sync
from celery import shared_task
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from common.errors import StaleState
from common.locks import database_now
from events.notices import notify
from events.record_and_publish import SYSTEM, record
from jobs.control import end_job
from jobs.lifecycle import has_waited
from jobs.models import Task
from jobs.states import JobState, TaskState
from jobs.task_access import get_access
from notebooks.environment import READY, drop_environment, environment_path, old_environments
from notebooks.jupyter_ready import is_jupyter_ready
from notebooks.models import Notebook
from notebooks.services import hours_of_start, lock_notebook, set_end
from notebooks.start_phases import measure_start_phases

SETTLED_AFTER = timedelta(hours=1)
"""How long after an upgrade processes of the previous version may still use their environment."""
WARN_BEFORE = timedelta(minutes=15)
NOTICED_WITHIN = timedelta(minutes=30)
FOLLOW_S, LOOK_S = 0.8, 0.1
"""How long one run keeps polling notebooks that start, rather than wait for the next beat."""


@shared_task
def look() -> None:
    """Keep time limits and mark the notebooks that answer as ready."""
    until = time.monotonic() + FOLLOW_S
    keep_time()
    while mark_ready_notebooks() and time.monotonic() < until:
        time.sleep(LOOK_S)


@shared_task
def sweep() -> None:
    """Remove environments of older versions, once no task from before this version's runs."""
    if not (old := old_environments(settings.TESSERA_DATA)):
        return
    stamp = (environment_path(settings.TESSERA_DATA) / READY).stat().st_mtime
    since = datetime.fromtimestamp(stamp, UTC) + SETTLED_AFTER
    if database_now() < since or Task.objects.holding().filter(assigned_at__lt=since).exists():
        return
    for environment in old:
        drop_environment(environment)


def mark_ready_notebooks() -> bool:
    """Mark notebooks ready that answer. Returns whether some do not yet."""
    starting = list(Notebook.objects.live().filter(ready_at=None, job__state=JobState.RUNNING).select_related("job"))
    tasks = {one.pk: task for one in starting if (task := one.task) and task.state == TaskState.RUNNING}
    if not tasks:
        return bool(starting)
    up = async_to_sync(_who_answers)(list(tasks.values()))
    for one in starting:
        task = tasks.get(one.pk)
        if task is not None and task.uuid in up:
            mark_ready(one, task)
    return len(up) < len(starting)


async def _who_answers(tasks: list[Task]) -> set:
    found = await asyncio.gather(*(is_jupyter_ready(get_access(), task) for task in tasks))
    return {task.uuid for task, up in zip(tasks, found, strict=True) if up}


@transaction.atomic
def mark_ready(notebook: Notebook, task: Task) -> None:
    """Mark a notebook ready, record its phases, and notify its owner if that took long."""
    try:
        row = lock_notebook(notebook.pk)
    except StaleState:
        return
    if row.ready_at is not None or row.job_id != task.job_id:
        return
    Notebook.objects.filter(pk=row.pk).update(ready_at=Now())
    row.refresh_from_db()
    record(row, "ready", actor=SYSTEM, params={"took_s": measure_start_phases(row)})
    if row.job is not None and has_waited(row.job):
        notify(user_id=row.user_id, kind="job_started", about=row, params={"name": row.name})


def keep_time() -> None:
    """Set the ends of started notebooks, warn before them, and stop at them."""
    running = Notebook.objects.live().filter(
        job__state__in=[JobState.STARTING, JobState.RUNNING], job__started_at__isnull=False
    )
    for one in running.filter(stops_at=None).select_related("user", "job"):
        if hours := hours_of_start(one):
            _begin_clock(one, hours)
    ending = running.filter(job__stop_requested_at=None)
    now = database_now()
    for one in ending.filter(stops_at__lte=now):
        _end(one)
    soon = Q(stops_at__lte=now + WARN_BEFORE, stops_at__gt=now, warned_at=None)
    # Very short ones would be warned just after their start.
    for one in ending.filter(soon, stops_at__gt=F("job__started_at") + 2 * WARN_BEFORE):
        _warn(one)


@transaction.atomic
def _begin_clock(notebook: Notebook, hours: int) -> None:
    row = lock_notebook(notebook.pk)
    if row.job is not None and row.job_id == notebook.job_id and row.stops_at is None and row.job.started_at:
        now = database_now()
        began = (
            row.job.started_at if now - NOTICED_WITHIN < row.job.started_at <= now else now
        )  # the clock was set since
        set_end(row, began + timedelta(hours=hours))


@transaction.atomic
def _end(notebook: Notebook) -> None:
    row = lock_notebook(notebook.pk)
    if row.job is None or row.stops_at is None or row.stops_at > database_now():
        return  # extended meanwhile
    end_job(by=SYSTEM, job=row.job, reason="time_limit")
    record(row, "time_over", actor=SYSTEM)


@transaction.atomic
def _warn(notebook: Notebook) -> None:
    row = lock_notebook(notebook.pk)
    if row.warned_at is not None or row.stops_at is None:
        return
    Notebook.objects.filter(pk=row.pk).update(warned_at=Now())
    at = {"at": row.stops_at.isoformat()}
    record(row, "about_to_end", actor=SYSTEM, params=at)
    notify(user_id=row.user_id, kind="about_to_end", about=row, params=at)
