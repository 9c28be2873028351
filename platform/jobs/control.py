"""Request a stop, hold, release or retry of a job."""

from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from accounts.models import User
from accounts.permissions import require
from common.errors import Conflict
from events.bus import Actor, hint, record
from jobs.lifecycle import TaskMove, load_attempt, lock_job, move_tasks, requeue_job
from jobs.models import Job
from jobs.states import JobState, TaskState
from quotas.services import admit_waiting_job


@transaction.atomic
def stop_job(*, actor: User, job: Job, reason: str = "stopped_by_user") -> Job:
    """Request a stop, if none was. A waiting job is cancelled at once."""
    require(actor, "job.stop", job.team, job.user_id)
    return end_job(by=actor.as_actor, job=job, reason=reason)


@transaction.atomic
def end_job(*, by: Actor, job: Job, reason: str) -> Job:
    """Request a stop without a permission check, such as at a time limit."""
    job = lock_job(job.pk)
    if job.is_final or job.stop_requested_at is not None:
        return job
    _write(job, stop_requested_at=Now(), stop_requested_by=by.name, stop_reason=reason)
    record(job, "stop_requested", actor=by, params={"reason": reason})
    waiting = [task for task in load_attempt(job) if task.state == TaskState.PENDING]
    if waiting:
        job.refresh_from_db()  # its next state depends on the request
    for task in waiting:
        move_tasks([TaskMove(task, TaskState.STOPPED, reason)], actor=by)
    hint("reconcile")
    return load_with_names(job)


@transaction.atomic
def hold_job(*, actor: User, job: Job) -> Job:
    """Keep a waiting job from starting, in its queue position."""
    require(actor, "job.hold", job.team, job.user_id)
    job = lock_job(job.pk)
    if job.state != JobState.QUEUED:
        raise Conflict("only_waiting_jobs", state=job.state.lower())
    if job.held_at is None:
        _write(job, held_at=Now(), held_by=actor.username)
        record(job, "held", actor=actor.as_actor)
        hint("cycle")
    return load_with_names(job)


@transaction.atomic
def release_job(*, actor: User, job: Job) -> Job:
    require(actor, "job.release", job.team, job.user_id)
    job = lock_job(job.pk)
    if job.held_at is not None:
        _write(job, held_at=None, held_by="")
        record(job, "released", actor=actor.as_actor)
        hint("cycle")
    return load_with_names(job)


@transaction.atomic
def retry_job(*, actor: User, job: Job) -> Job:
    require(actor, "job.retry", job.team, job.user_id)
    admit_waiting_job(user=job.user, waiting=lambda: Job.objects.waiting().filter(user=job.user).count())
    job = lock_job(job.pk)
    if not job.is_final:
        raise Conflict("only_ended_jobs", state=job.state.lower())
    wishes = {"stop_requested_at": None, "stop_requested_by": "", "stop_reason": "", "not_before": None}
    times = job.spec.get("retry", {}).get("times", 0)
    requeue_job(job, actor=actor.as_actor, reason="", retries_left=times, stops=0, **wishes)
    return load_with_names(job)


def load_with_names(job: Job) -> Job:
    return Job.objects.with_names().get(pk=job.pk)


def _write(job: Job, **columns: Any) -> None:
    """Update columns, not the state, of a locked job."""
    Job.objects.filter(pk=job.pk).update(**columns)
