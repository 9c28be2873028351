"""What a task is given of the secrets that its job names, and what is remembered of it until its log is complete."""

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from accounts.models import User
from common.locks import database_now, lock_rows
from common.secrets import Unreadable, seal_secret, unseal_secret
from jobs.job_tokens.tokens import VARIABLE, make_token
from jobs.models import GivenSecrets, Job, Task
from jobs.used_secrets.naming import list_wishes, split_wish
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


class Asked(NamedTuple):
    """One secret that a job names. role: "" for all of its tasks. wish: as its spec keeps it."""

    role: str
    name: str
    wish: str


@dataclass(frozen=True)
class MissingSecret:
    """A secret that an attempt cannot be given, or its token. words: which, and what to do."""

    words: str


@dataclass(frozen=True)
class GivenSecret:
    """A secret that an attempt is given. role: whose tasks get it; "" for all."""

    role: str
    secret: TaskSecret


Given = tuple[GivenSecret, ...] | MissingSecret | None
"""None: given before, and not readable now. Whether a task started with them is for the runtime to tell."""


def give_secrets(jobs: Iterable[Job]) -> dict[int, Given]:
    """Return by job the values for its newest attempt, its token among them, and note that they are used.

    Call it in a transaction that has no row locked below people.
    They are remembered, sealed, before any task has them: all tasks of an attempt get the same ones, a start that is
    repeated too, and who finds a secret missing knows that none of its tasks ever started.
    """
    asking = [job for job in jobs if _is_given_any(job)]
    if not asking:
        return {}
    open_jobs = _lock_for_tokens(asking)
    wanted = {job: _list_asked(job) for job in asking}
    rows = _lock_secrets(wanted)  # first, so that whoever gives to the same attempt comes before or after
    kept = _load_given((job.pk, job.attempt) for job in wanted)
    found: dict[int, Given] = {job: given for (job, _), given in kept.items()}
    for job, asked in wanted.items():
        if job.pk not in found:
            given: Given = _open_all(job, asked, rows)
            if job.spec.get("token") and isinstance(given, tuple):
                given = _add_token(job, given) if job.pk in open_jobs else None
            found[job.pk] = given
            if isinstance(given, tuple):
                used = [rows[_key(job, one)].pk for one in asked]
                Secret.objects.filter(pk__in=used).update(used_at=Now(), used_by=job.pk)
                GivenSecrets.objects.create(job=job, attempt=job.attempt, sealed=_seal(given))
    return found


def pick_secrets(given: Iterable[GivenSecret], role: str) -> tuple[TaskSecret, ...]:
    """Return what the tasks of a role get of what an attempt is given."""
    return tuple(one.secret for one in given if one.role in ("", role))


def load_masks(tasks: Collection[Task]) -> dict[str, LogMask | None]:
    """Return by uuid the mask of each task whose job was given secrets; None if it is not known any more.

    It covers those of other roles too, which may have sent them. tasks: with their jobs.
    """
    users = [task for task in tasks if _is_given_any(task.job)]
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


def _is_given_any(job: Job) -> bool:
    return bool(job.spec.get("token") or list_wishes(job.spec))


def _list_asked(job: Job) -> list[Asked]:
    return [Asked(role, name, wish) for role, wishes in list_wishes(job.spec).items() for name, wish in wishes.items()]


def _load_given(attempts: Iterable[Attempt]) -> dict[Attempt, tuple[GivenSecret, ...] | None]:
    asked = set(attempts)
    rows = GivenSecrets.objects.filter(job__in={job for job, _ in asked})
    return {(row.job_id, row.attempt): _unseal(row) for row in rows if (row.job_id, row.attempt) in asked}


def _lock_secrets(wanted: Mapping[Job, Iterable[Asked]]) -> dict[tuple[str, int, str], Secret]:
    """Return the secrets that jobs name, by (whose, owner, name)."""
    names = {one.name for asked in wanted.values() for one in asked}
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


def _add_token(job: Job, given: tuple[GivenSecret, ...]) -> tuple[GivenSecret, ...] | MissingSecret:
    token = make_token(job)
    if token is None:
        return MissingSecret("The token that submitted this job was revoked or has expired. Submit the job again.")
    return (*given, GivenSecret("", TaskSecret(VARIABLE, token)))


def _key(job: Job, asked: Asked) -> tuple[str, int, str]:
    whose, _ = split_wish(asked.wish)
    return whose, job.team_id if whose == "team" else job.user_id, asked.name


def _open_all(
    job: Job, asked: Iterable[Asked], rows: Mapping[tuple[str, int, str], Secret]
) -> tuple[GivenSecret, ...] | MissingSecret:
    given = []
    for one in asked:
        row = rows.get(_key(job, one))
        if row is None:
            return MissingSecret(f"The secret {one.name} is not there any more. {REMEDY}")
        try:
            secret = TaskSecret(one.name, open_secret(row), split_wish(one.wish)[1] == "variable")
        except Unreadable:
            return MissingSecret(f"The secret {one.name} cannot be read any more. {REMEDY}")
        given.append(GivenSecret(one.role, secret))
    return tuple(given)


def _build_mask(given: tuple[GivenSecret, ...] | None) -> LogMask | None:
    return None if given is None else LogMask(one.secret.value for one in given)


def _seal(given: tuple[GivenSecret, ...]) -> str:
    return seal_secret(json.dumps([_to_list(one.secret, one.role) for one in given]), USE)


def _to_list(secret: TaskSecret, role: str) -> list:
    """Return one entry; without a role it is as the previous version wrote it, which still reads in an upgrade."""
    return [secret.name, secret.value, secret.is_variable, *([role] if role else [])]


def _unseal(row: GivenSecrets) -> tuple[GivenSecret, ...] | None:
    try:
        kept = json.loads(unseal_secret(row.sealed, USE))
        return tuple(GivenSecret("".join(entry[3:]), TaskSecret(*entry[:3])) for entry in kept)
    except Unreadable:
        log.error("what was given to attempt %s of job-%s was sealed under another SECRET_KEY", row.attempt, row.job_id)
        return None
