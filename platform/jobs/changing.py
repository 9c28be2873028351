"""Change what a waiting job asks for, and the labels of any. It keeps its id, history and place in the queue."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import transaction

from accounts.models import User
from accounts.permissions import require
from common.errors import Conflict, FieldError, InvalidInput, PlatformError, StaleState
from events.record_and_publish import hint, record
from jobs.control import answer_each, load_with_names
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.values import LABELS
from jobs.lifecycle import begin_attempt, load_attempt, lock_job
from jobs.models import Job, JobKind, Task
from jobs.pricing.price import admit_priority
from jobs.states import JobState
from jobs.submit import Check, Draft, build_scheduling_columns, build_start_columns, choose_pool, name_pools

START_KEYS = ("start_at", "wait_max")
CHANGEABLE = (
    *("cpu", "gpu", "max_time", "memory", "nodes", "place", "pool", "preemptible", "priority"),
    *(*START_KEYS, "time"),
)
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
    if job.kind != JobKind.BATCH:
        raise Conflict("only_batch_jobs_change")
    spec = parse_spec({**job.spec, **changes})
    draft = choose_pool(user=job.user, spec=spec, check=check, containers=containers, actor=actor, job=job)
    with transaction.atomic():
        return _store(actor, job, draft, changes)


def label_job(*, actor: User, job: Job, changes: Any) -> Job:
    """Set labels of a job, which may have ended. changes: {name: value, or None to remove it}; None removes all.

    Raises NotPermitted, InvalidInput.
    """
    require(actor, "job.label", job.team, job.user_id)
    with transaction.atomic():
        job = lock_job(job.pk)
        before, job.labels = job.labels, merge_labels(job.labels, changes)
        if job.labels != before:
            job.spec = {**job.spec, "labels": job.labels}
            job.save(update_fields=["labels", "spec"])
            record(job, "labels_changed", actor=actor.as_actor, params=_tell_labels(before, job.labels))
        return load_with_names(job)


def label_jobs(*, actor: User, jobs: Sequence[Job], changes: Any) -> dict[int, Job | PlatformError]:
    """Set labels of each by itself, as `label_job`; return by id each job as it is then, or why it was refused."""
    return {job.pk: answer_each(partial(label_job, actor=actor, job=job, changes=changes)) for job in jobs}


def merge_labels(labels: Mapping[str, str], changes: Any) -> dict[str, str]:
    """Return the labels with changes as of `label_job`. Raises InvalidInput."""
    if changes is None:
        return {}
    given = LABELS.entries(changes, "/labels")
    named = LABELS.read({name: value for name, value in given.items() if value is not None}, "/labels")
    kept = {name: value for name, value in labels.items() if name not in given}
    merged = {**kept, **named}
    if len(merged) > LABELS.most:
        raise InvalidInput([FieldError("/labels", "too_many", {"max": LABELS.most, "got": len(merged)})])
    return merged


def _tell_labels(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return what of labels was set and removed, as the job's history tells it."""
    given = [show_label(name, value) for name, value in after.items() if before.get(name) != value]
    gone = [name for name in before if name not in after]
    kind = "both" if given and gone else "removed" if gone else "set"
    return {"kind": kind, "set": ", ".join(given), "removed": ", ".join(gone)}


def show_label(name: str, value: str) -> str:
    """Return a label as people write it: "exp:a", or "debug"."""
    return f"{name}:{value}" if value else name


def read_label_lines(text: str) -> dict[str, str]:
    """Read labels as people write them, one in a line: "exp:a", "exp=a" or "debug"."""
    lines = [re.split(r"\s*[:=]\s*", line.strip(), maxsplit=1) for line in text.splitlines() if line.strip()]
    return {line[0]: line[1] if len(line) > 1 else "" for line in lines}


def read_label_changes(given: str, gone: str) -> dict[str, str | None]:
    """Read labels to set, one in a line, and names of labels to remove, as changes of `label_job`."""
    return {**dict.fromkeys(gone.replace(",", " ").split()), **read_label_lines(given)}


def read_change_value(key: str, text: str) -> object:
    """Return a value that is written as text as JSON has it, such as "prefer: switch" of `place`."""
    if key == "nodes" and text.isascii() and text.isdigit():
        return int(text)
    if key == "place" and ": " in text:
        return dict(part.split(": ", 1) for part in text.split(", ") if ": " in part)
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
    if any(key in changes for key in START_KEYS):  # else a pause before a retry goes on
        columns |= build_start_columns(draft.spec, job.submitted_at, job.waits_for)
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
