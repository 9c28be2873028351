"""What a task is given of the secrets that its job names, and what is remembered of it until its log is complete."""

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from accounts.models import User
from common.locks import database_now, lock_rows
from common.secrets import Unreadable, seal_secret, unseal_secret
from jobs.job_tokens.tokens import VARIABLE, make_token
from jobs.models import GivenSecrets, Job, Task
from jobs.used_secrets.naming import split_wish
from runtimes.contract.task import TaskSecret
from runtimes.log_masking import LogMask
from secret_store.models import Secret
from secret_store.services import open_secret

log = logging.getLogger("tessera.jobs")

USE = "secrets given to tasks"
KEPT_AFTER = timedelta(days=1)
"""How long after its end a task's log may still be brought."""

REMEDY = "Set it again, then retry the job."

Attempt = tuple[int, int]
"""(job, attempt)."""


@dataclass(frozen=True)
class MissingSecret:
    """A secret that an attempt cannot be given, or its token. words: which, and what to do."""

    words: str


Given = tuple[TaskSecret, ...] | MissingSecret | None
"""None: given before, and not readable now. Whether a task started with them is for the runtime to tell."""


def give_secrets(jobs: Iterable[Job]) -> dict[int, Given]:
    """Return by job the values for its newest attempt, its token among them, and note that they are used.

    Call it in a transaction that has no row locked below people.
    They are remembered, sealed, before any task has them: all tasks of an attempt get the same ones, a start that is
    repeated too, and who finds a secret missing knows that none of its tasks ever started.
    """
    asking = [job for job in jobs if job.spec.get("secrets") or job.spec.get("token")]
    if not asking:
        return {}
    open_jobs = _lock_for_tokens(asking)
    wanted = {job: job.spec.get("secrets") or {} for job in asking}
    rows = _lock_secrets(wanted)  # first, so that whoever gives to the same attempt comes before or after
    kept = _load_given((job.pk, job.attempt) for job in wanted)
    found: dict[int, Given] = {job: given for (job, _), given in kept.items()}
    for job, wishes in wanted.items():
        if job.pk not in found:
            given: Given = _open_all(job, wishes, rows)
            if job.spec.get("token") and isinstance(given, tuple):
                given = _add_token(job, given) if job.pk in open_jobs else None
            found[job.pk] = given
            if isinstance(given, tuple):
                used = [rows[_key(job, name, wish)].pk for name, wish in wishes.items()]
                Secret.objects.filter(pk__in=used).update(used_at=Now(), used_by=job.pk)
                GivenSecrets.objects.create(job=job, attempt=job.attempt, sealed=_seal(given))
    return found


def load_masks(tasks: Collection[Task]) -> dict[str, LogMask | None]:
    """Return by uuid the mask of each task that was given secrets; None if it is not known any more.

    tasks: with their jobs.
    """
    users = [task for task in tasks if task.job.spec.get("secrets") or task.job.spec.get("token")]
    if not users:
        return {}
    given = _load_given((task.job_id, task.attempt) for task in users)
    return {task.uuid.hex: _build_mask(given.get((task.job_id, task.attempt))) for task in users}


def load_task_masks(uuids: Collection[str]) -> dict[str, LogMask | None]:
    """Return the masks of these tasks, as `load_masks`."""
    return load_masks(Task.objects.filter(uuid__in=uuids).select_related("job"))


def drop_given() -> int:
    """Delete what was given to attempts whose logs can change no more; return how many."""
    tasks = Task.objects.filter(job=OuterRef("job"), attempt=OuterRef("attempt"))
    recent = tasks.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=database_now() - KEPT_AFTER))
    return GivenSecrets.objects.filter(~Exists(recent)).delete()[0]


def _load_given(attempts: Iterable[Attempt]) -> dict[Attempt, tuple[TaskSecret, ...] | None]:
    asked = set(attempts)
    rows = GivenSecrets.objects.filter(job__in={job for job, _ in asked})
    return {(row.job_id, row.attempt): _unseal(row) for row in rows if (row.job_id, row.attempt) in asked}


def _lock_secrets(wanted: Mapping[Job, Mapping[str, str]]) -> dict[tuple[str, int, str], Secret]:
    """Return the secrets that jobs name, by (whose, owner, name)."""
    names = {name for wishes in wanted.values() for name in wishes}
    users, teams = {job.user_id for job in wanted}, {job.team_id for job in wanted}
    if not names:
        return {}
    named = Secret.objects.filter(name__in=names)
    rows = lock_rows(named.filter(user__in=users) | named.filter(team__in=teams))
    return {(("team", row.team_id) if row.team_id else ("own", row.user_id or 0)) + (row.name,): row for row in rows}


def _lock_for_tokens(jobs: Iterable[Job]) -> set[int]:
    """Lock the jobs that ask for a token, and their owners before them; return those whose attempt has not ended."""
    asked = {job.pk: job for job in jobs if job.spec.get("token")}
    if not asked:
        return set()
    lock_rows(User.objects.filter(pk__in={job.user_id for job in asked.values()}))
    rows = lock_rows(Job.objects.filter(pk__in=asked))
    return {row.pk for row in rows if not row.is_final and row.attempt == asked[row.pk].attempt}


def _add_token(job: Job, given: tuple[TaskSecret, ...]) -> tuple[TaskSecret, ...] | MissingSecret:
    token = make_token(job)
    if token is None:
        return MissingSecret("The token that submitted this job was revoked or has expired. Submit the job again.")
    return (*given, TaskSecret(VARIABLE, token))


def _key(job: Job, name: str, wish: str) -> tuple[str, int, str]:
    whose, _ = split_wish(wish)
    return whose, job.team_id if whose == "team" else job.user_id, name


def _open_all(
    job: Job, wishes: Mapping[str, str], rows: Mapping[tuple[str, int, str], Secret]
) -> tuple[TaskSecret, ...] | MissingSecret:
    given = []
    for name, wish in wishes.items():
        row = rows.get(_key(job, name, wish))
        if row is None:
            return MissingSecret(f"The secret {name} is not there any more. {REMEDY}")
        try:
            given.append(TaskSecret(name, open_secret(row), split_wish(wish)[1] == "variable"))
        except Unreadable:
            return MissingSecret(f"The secret {name} cannot be read any more. {REMEDY}")
    return tuple(given)


def _build_mask(given: tuple[TaskSecret, ...] | None) -> LogMask | None:
    return None if given is None else LogMask(secret.value for secret in given)


def _seal(given: tuple[TaskSecret, ...]) -> str:
    return seal_secret(json.dumps([[each.name, each.value, each.is_variable] for each in given]), USE)


def _unseal(row: GivenSecrets) -> tuple[TaskSecret, ...] | None:
    try:
        return tuple(TaskSecret(*each) for each in json.loads(unseal_secret(row.sealed, USE)))
    except Unreadable:
        log.error("what was given to attempt %s of job-%s was sealed under another SECRET_KEY", row.attempt, row.job_id)
        return None
