"""What a person does to a job: stop, hold, release, retry. The wish is written; reconciling drives to it."""

from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from accounts.models import User
from accounts.permissions import require
from common.errors import Conflict
from events.bus import Actor, hint, record
from jobs.lifecycle import load_attempt, lock_job, move_task, requeue
from jobs.models import Job
from jobs.states import JobState, TaskState
from quotas.services import admit_waiting_job


@transaction.atomic
def stop_job(*, actor: User, job: Job, reason: str = "stopped_by_user") -> Job:
    """Write the stop wish. A waiting job is cancelled at once; stopping an ended or stopping job changes nothing."""
    require(actor, "job.stop", job.team, job.user_id)
    return end_job(by=Actor(actor.username, actor.pk), job=job, reason=reason)


@transaction.atomic
def end_job(*, by: Actor, job: Job, reason: str) -> Job:
    """The same wish by whoever needs no leave: the platform itself, where a limit of time is reached."""
    job, who = lock_job(job.pk), by
    if job.is_final or job.stop_requested_at is not None:
        return job
    write_job(job, stop_requested_at=Now(), stop_requested_by=by.name, stop_reason=reason)
    record(job, "stop_requested", actor=who, params={"reason": reason})
    for task in load_attempt(job):
        if task.state == TaskState.PENDING:
            move_task(task, TaskState.STOPPED, reason=reason, actor=who)
    hint("reconcile")
    return _fresh(job)


@transaction.atomic
def hold_job(*, actor: User, job: Job) -> Job:
    """Keep a waiting job from starting, without losing its place."""
    require(actor, "job.hold", job.team, job.user_id)
    job = lock_job(job.pk)
    if job.state != JobState.QUEUED:
        raise Conflict("only_waiting_jobs", state=job.state.lower())
    if job.held_at is None:
        write_job(job, held_at=Now(), held_by=actor.username)
        record(job, "held", actor=Actor(actor.username, actor.pk))
        hint("cycle")
    return _fresh(job)


@transaction.atomic
def release_job(*, actor: User, job: Job) -> Job:
    require(actor, "job.release", job.team, job.user_id)
    job = lock_job(job.pk)
    if job.held_at is not None:
        write_job(job, held_at=None, held_by="")
        record(job, "released", actor=Actor(actor.username, actor.pk))
        hint("cycle")
    return _fresh(job)


@transaction.atomic
def retry_job(*, actor: User, job: Job) -> Job:
    """Queue an ended job once more, as a new attempt. It counts against the person's waiting jobs."""
    require(actor, "job.retry", job.team, job.user_id)
    admit_waiting_job(user=job.user, waiting=lambda: Job.objects.waiting().filter(user=job.user).count())
    job = lock_job(job.pk)
    if not job.is_final:
        raise Conflict("only_ended_jobs", state=job.state.lower())
    wishes = {"stop_requested_at": None, "stop_requested_by": "", "stop_reason": "", "not_before": None}
    times = job.spec.get("retry", {}).get("times", 0)
    requeue(job, actor=Actor(actor.username, actor.pk), reason="", retries_left=times, stops=0, **wishes)
    return _fresh(job)


def write_job(job: Job, **wishes: Any) -> None:
    """Its row is locked. The state is not written here."""
    Job.objects.filter(pk=job.pk).update(**wishes)


def _fresh(job: Job) -> Job:
    return Job.objects.with_names().get(pk=job.pk)
