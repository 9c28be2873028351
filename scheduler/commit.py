"""The steps of a plan, each run in a transaction of its own."""

import logging
from collections.abc import Iterable

from django.db import transaction

from common.errors import StaleState
from events.bus import SCHEDULER, hint
from events.transitions import Move
from jobs.lifecycle import load_attempt, lock_job, move_gang
from jobs.states import TaskState
from scheduler.explaining import explain_jobs
from scheduler.lease import check_epoch
from scheduler.starting import start_job
from scheduler.steps import StartJob, Step, StopJob
from scheduler.truth import load_job

log = logging.getLogger("tessera.commit")

STOPPABLE = frozenset({TaskState.STARTING, TaskState.RUNNING})
"""A task that has no container yet is not asked to end: it would be lost, not stopped."""


def run_steps(steps: Iterable[Step], epoch: int) -> int:
    """Run each step in its own transaction; one that went stale is dropped. Returns how many jobs were started."""
    started = 0
    for step in steps:
        try:
            if isinstance(step, StartJob):
                start_job(step, epoch)
                started += 1
            elif isinstance(step, StopJob):
                stop_job(step, epoch)
            else:
                explain_jobs(step, epoch)
        except StaleState as stale:
            log.info("%s dropped: %s", type(step).__name__, stale)
    return started


@transaction.atomic
def stop_job(step: StopJob, epoch: int) -> None:
    """Move all that runs of the job to STOPPING; reconcile asks it to end. Changes nothing where the truth moved on."""
    check_epoch("cycle", epoch)
    job = lock_job(step.job_id)
    tasks = load_attempt(job)
    if job.stop_requested_at is not None or any(task.state not in STOPPABLE for task in tasks):
        raise StaleState(kind="job", was=job.state)
    params = {"team": load_job(step.to).team.name} if step.to is not None else {}
    moves = [Move(task, params) for task in tasks]
    move_gang(moves, TaskState.STOPPING, reason=step.reason, actor=SCHEDULER)
    hint("reconcile")
