"""Change what a waiting job asks for. It keeps its id, its history and its place in the queue."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from accounts.models import User
from accounts.permissions import require
from common.errors import Conflict, FieldError, InvalidInput, StaleState
from events.record_and_publish import hint, record
from jobs.control import load_with_names
from jobs.jobfile.parse import parse_spec
from jobs.lifecycle import begin_attempt, load_attempt, lock_job
from jobs.models import Job, JobKind, Task
from jobs.pricing.price import admit_priority
from jobs.states import JobState
from jobs.submit import Check, Draft, build_scheduling_columns, choose_pool, name_pools

CHANGEABLE = ("cpu", "gpu", "max_time", "memory", "nodes", "pool", "preemptible", "priority", "time")
"""Keys of the job file that say what a job needs and how urgent it is, and not what it is."""


def change_job(*, actor: User, job: Job, changes: Mapping[str, Any], check: Check, containers: bool) -> Job:
    """Set keys of a waiting job's file. Nothing is written unless the changed job could be submitted.

    Leads and admins set the priority of others' jobs, and so give the consent that it may need.
    changes: {key of CHANGEABLE: value as in the file, None for its default}. check, containers: as for a submit.
    Raises InvalidInput, Impossible, NotPermitted, BudgetSpent, Conflict.
    """
    action = "job.prioritize" if set(changes) == {"priority"} else "job.change"
    require(actor, action, job.team, job.user_id)
    _check_keys(changes)
    if job.kind == JobKind.INTERACTIVE:
        raise Conflict("only_batch_jobs_change")
    spec = parse_spec({**job.spec, **changes})
    draft = choose_pool(user=job.user, spec=spec, check=check, containers=containers, actor=actor, job=job)
    with transaction.atomic():
        return _store(actor, job, draft, changes)


def read_change_value(key: str, text: str) -> object:
    """Return a value that is written as text as JSON has it."""
    if key == "nodes" and text.isascii() and text.isdigit():
        return int(text)
    return text == "true" if key == "preemptible" and text in ("true", "false") else text


def _check_keys(changes: Mapping[str, Any]) -> None:
    known = ", ".join(CHANGEABLE)
    refused = [key for key in changes if key not in CHANGEABLE]
    errors = [FieldError(f"/{key}", "not_changeable", {"key": key, "known": known}) for key in refused]
    if not changes:
        errors = [FieldError("", "nothing_to_change", {"known": known})]
    if errors:
        raise InvalidInput(errors)


def _store(actor: User, read: Job, draft: Draft, changes: Mapping[str, Any]) -> Job:
    admit_priority(actor=actor, asked=draft.asked, job=read)
    job = lock_job(read.pk)
    if job.state != JobState.QUEUED or job.stop_requested_at is not None:
        raise Conflict("only_waiting_jobs_change")
    if job.spec != read.spec:
        raise StaleState(kind="job", was="changed by somebody else")
    before = job.gang
    columns = {**build_scheduling_columns(draft, job.kind), "revision": job.revision + 1}  # so no older plan starts it
    columns |= {"wait_position": None, "wait_of": None, "wait_places": []}  # perhaps of pools where it waits no more
    for name, value in columns.items():
        setattr(job, name, value)
    job.save(update_fields=list(columns))
    if [(role["role"], role["min"]) for role in before] != [(role["role"], role["min"]) for role in job.gang]:
        _renew_tasks(job)
    said = {key: {"was": read.spec.get(key), "now": job.spec.get(key)} for key in changes}
    record(job, "changed", actor=actor.as_actor, params={"changes": said, **name_pools(draft)})
    hint("cycle")
    return load_with_names(job)


def _renew_tasks(job: Job) -> None:
    """Replace the attempt's tasks. None of them has been placed, so nothing that ran is forgotten."""
    Task.objects.filter(pk__in=[task.pk for task in load_attempt(job)]).delete()
    begin_attempt(job)
