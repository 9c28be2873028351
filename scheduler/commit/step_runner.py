"""Commit a plan's steps, each in its own transaction."""

import logging
import time
from collections.abc import Iterable, Iterator

from django.db import transaction

from common.errors import StaleState
from events.record_and_publish import SCHEDULER, hint
from jobs.lifecycle import TaskMove, load_attempt, lock_job, move_tasks
from jobs.models import Job
from jobs.states import TaskState
from scheduler.commit.explaining import explain_jobs
from scheduler.commit.starting import start_jobs
from scheduler.commit.steps import ExplainJobs, StartJob, Step, StopJob
from scheduler.lease import check_epoch

log = logging.getLogger("tessera.commit")

STOPPABLE = frozenset({TaskState.STARTING, TaskState.RUNNING})
"""States that can be stopped; a task without a container would become LOST instead."""

TOGETHER = 32
"""Maximum number of tasks that one transaction starts, since it holds the locks of all."""
STARTING_S = 4.0
"""How long one cycle may start jobs; the next one, which knows newer jobs, decides about the rest.
Must be shorter than the lease.
"""


def run_steps(steps: Iterable[Step], epoch: int) -> int:
    """Run the steps, drop stale ones, return how many jobs started.

    Starting similar jobs together costs a tenth. Starts left after STARTING_S wait for the next cycle.
    """
    started, until = 0, time.monotonic() + STARTING_S
    for alike in list_batches(steps):
        if isinstance(alike, list):
            if time.monotonic() < until:
                started += _start(alike, epoch)
            else:
                hint("cycle")
            continue
        try:
            if isinstance(alike, StopJob):
                stop_job(alike, epoch)
            else:
                explain_jobs(alike, epoch)
        except StaleState as stale:
            log.info("%s dropped: %s", type(alike).__name__, stale)
    return started


def list_batches(steps: Iterable[Step]) -> Iterator[list[StartJob] | StopJob | ExplainJobs]:
    """Yield lists of similar starts, then the other steps."""
    lists: list[list[StartJob]] = []
    newest: dict[tuple[int, int, int], list[StartJob]] = {}
    others: list[StopJob | ExplainJobs] = []
    for step in steps:
        if not isinstance(step, StartJob):
            others.append(step)
        elif step.whose in newest and _has_room(newest[step.whose], step):
            newest[step.whose].append(step)
        else:
            lists.append([step])
            if step.whose is not None:
                newest[step.whose] = lists[-1]
    yield from lists
    yield from others


def _has_room(alike: list[StartJob], step: StartJob) -> bool:
    return sum(len(one.tasks) for one in alike) + len(step.tasks) <= TOGETHER


def _start(steps: list[StartJob], epoch: int) -> int:
    """Return how many started; retry singly so that a stale step fails no other."""
    try:
        start_jobs(steps, epoch)
    except StaleState as stale:
        if len(steps) > 1:
            return sum(_start([step], epoch) for step in steps)
        log.info("StartJob dropped: %s", stale)
        return 0
    return len(steps)


@transaction.atomic
def stop_job(step: StopJob, epoch: int) -> None:
    """Move the job's tasks to STOPPING. Raise StaleState if the job changed."""
    check_epoch("cycle", epoch)
    job = lock_job(step.job_id)
    tasks = load_attempt(job)
    if job.stop_requested_at is not None or any(task.state not in STOPPABLE for task in tasks):
        raise StaleState(kind="job", was=job.state)
    params = {"team": Job.objects.get(pk=step.to).team.name} if step.to is not None else {}
    moves = [TaskMove(task, TaskState.STOPPING, step.reason, params) for task in tasks]
    move_tasks(moves, actor=SCHEDULER)
    hint("reconcile")
