"""Request a stop, hold, release or retry of a job, or the end of its lost tasks."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from accounts.models import User
from accounts.permissions import find_refusals, require
from cluster.models import Node, NodeState
from common.errors import Conflict, FieldError, InvalidInput, NotPermitted, PlatformError
from common.locks import database_now
from common.steady_clock import steady_now
from events.record_and_publish import Actor, EventLine, hint, record, record_all
from jobs.arrays.reopening import admit_element
from jobs.dependencies.naming import check_retry, list_open
from jobs.jobfile.spec import from_json
from jobs.lifecycle import TaskMove, load_attempt, load_attempts, lock_job, lock_jobs, move_tasks, requeue_job
from jobs.models import Job, Task
from jobs.pricing.price import admit_retry
from jobs.states import JobState, TaskState
from jobs.submit import build_start_columns, list_waiting_jobs
from quotas.services import admit_waiting_job

MOST_WHY = 200
SILENT_AFTER = timedelta(seconds=120)


def stop_job(*, actor: User, job: Job, reason: str = "stopped_by_user") -> Job:
    """Request a stop, if none was. A waiting job is cancelled at once."""
    require(actor, "job.stop", job.team, job.user_id)
    return end_job(by=actor.as_actor, job=job, reason=reason)


def stop_jobs(*, actor: User, jobs: Sequence[Job]) -> dict[int, Job | NotPermitted]:
    """Request stops in few statements, and return by id each job as it is then, or why it was refused."""
    refusals = find_refusals(actor, "job.stop", ((job.pk, job.team, job.user_id) for job in jobs))
    permitted = [job for job in jobs if job.pk not in refusals]
    return {**refusals, **end_jobs(by=actor.as_actor, jobs=permitted, reason="stopped_by_user")}


def end_job(*, by: Actor, job: Job, reason: str) -> Job:
    """Request a stop without a permission check, such as at a time limit."""
    return end_jobs(by=by, jobs=[job], reason=reason)[job.pk]


@transaction.atomic
def end_jobs(*, by: Actor, jobs: Sequence[Job], reason: str) -> dict[int, Job]:
    """Request stops without a permission check, all or none, and return the jobs by id, as they are then."""
    keys = [job.pk for job in jobs]
    going = [job for job in lock_jobs(keys) if not job.is_final and job.stop_requested_at is None]
    if going:
        wish = {"stop_requested_at": Now(), "stop_requested_by": by.name, "stop_reason": reason}
        Job.objects.filter(pk__in=[job.pk for job in going]).update(**wish)
        record_all([EventLine(job, {"reason": reason}) for job in going], "stop_requested", actor=by)
        _cancel_waiting_tasks([job.pk for job in going], by=by, reason=reason)
        hint("reconcile")
    return Job.objects.with_names().in_bulk(keys)


def _cancel_waiting_tasks(keys: Sequence[int], *, by: Actor, reason: str) -> None:
    """Stop the tasks that did not start. The jobs are read again: their next states depend on the request."""
    tasks = chain.from_iterable(load_attempts(Job.objects.filter(pk__in=keys)).values())
    waiting = [TaskMove(task, TaskState.STOPPED, reason) for task in tasks if task.state == TaskState.PENDING]
    if waiting:
        move_tasks(waiting, actor=by)


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
    admit_element(job)
    pools = admit_retry(actor=actor, job=job)
    admit_waiting_job(user=job.user, waiting=list_waiting_jobs(job.user))
    job = lock_job(job.pk)
    if not job.is_final:
        raise Conflict("only_ended_jobs", state=job.state.lower())
    wishes: dict[str, Any] = {"stop_requested_at": None, "stop_requested_by": "", "stop_reason": ""}
    times = job.spec.get("retry", {}).get("times", 0)
    where = _keep_choices(job, [pool.pk for pool in pools])
    spec = from_json(job.spec)
    check_retry(spec.after)
    wishes["waits_for"] = waits_for = list_open(spec.after)
    when = {**build_start_columns(spec, steady_now(), waits_for), "eligible_at": job.eligible_at}
    requeue_job(job, actor=actor.as_actor, reason="", retries_left=times, stops=0, **wishes, **where, **when)
    return load_with_names(job)


def retry_jobs(*, actor: User, jobs: Sequence[Job]) -> dict[int, Job | PlatformError]:
    """Retry each by itself, and return by id each job as it is then, or why it was refused.

    Whether a person may have one more job depends on those before.
    """
    return {job.pk: answer_each(partial(retry_job, actor=actor, job=job)) for job in jobs}


def answer_each(act: Callable[[], Job]) -> Job | PlatformError:
    """Return what comes of a job, or its refusal, which is not that of others."""
    try:
        return act()
    except PlatformError as error:
        return error


def _keep_choices(job: Job, pool_ids: list[int]) -> dict[str, Any]:
    """Let a job wait in these of its pools alone; return the columns that change."""
    choices = [choice for choice in job.choices if choice["pool"] in pool_ids]
    if choices == job.choices:
        return {}
    job.enter_pool(pool_ids[0])
    asked = {"pool_id": job.pool_id, "gang": job.gang, "max_time_s": job.max_time_s, "preemptible": job.preemptible}
    return {"choices": choices if len(choices) > 1 else [], **asked}


@transaction.atomic
def settle_job(*, actor: User, job: Job, why: str, task: str = "") -> Job:
    """Ask to end lost tasks, such as after somebody removed their records. Raises InvalidInput and Conflict.

    The word is a wish: reconciling has the runtime end what is left of a task, and a task ends only when nothing is.
    task: such as worker.1, "" for all.
    """
    require(actor, "job.settle")
    why = _read_why(why)
    job = lock_job(job.pk)
    lost = [one for one in load_attempt(job) if one.state == TaskState.LOST and task in ("", one.name)]
    if not lost:
        raise Conflict("only_lost_tasks")
    for node in Node.objects.filter(pk__in=[one.node_id for one in lost]).order_by("name"):
        if is_silent(node):
            raise Conflict("settle_silent_node", node=node.name)
    Task.objects.filter(pk__in=[one.pk for one in lost]).update(settled={"by": actor.username, "why": why})
    record(job, "settled", actor=actor.as_actor, params={"tasks": [one.name for one in lost], "why": why})
    hint("reconcile")
    return load_with_names(job)


def is_silent(node: Node) -> bool:
    """Return whether a machine that is still there cannot be asked what it runs."""
    if node.removed_at is not None:
        return False
    return node.state in (NodeState.NOT_READY, NodeState.SUSPECT) or database_now() - node.last_seen_at > SILENT_AFTER


def load_with_names(job: Job) -> Job:
    return Job.objects.with_names().get(pk=job.pk)


def _write(job: Job, **columns: Any) -> None:
    """Update columns, not the state, of a locked job."""
    Job.objects.filter(pk=job.pk).update(**columns)


def _read_why(why: str) -> str:
    why = " ".join(why.split())
    if not why:
        raise InvalidInput([FieldError("/why", "required")])
    if len(why) > MOST_WHY:
        raise InvalidInput([FieldError("/why", "too_long", {"max": MOST_WHY})])
    return why
