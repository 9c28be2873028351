"""Create, change, clone, delete, start, stop and extend notebooks.

Lock the notebook, then the person's limit, then the job.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from accounts.models import Team, User
from accounts.permissions import require
from common.disk import check_disk
from common.errors import (
    ChangedMeanwhile,
    Conflict,
    FieldError,
    InvalidInput,
    NameTaken,
    NotFound,
    QuotaExceeded,
    StaleState,
    Unavailable,
)
from common.locks import database_now, lock_rows
from events.record_and_publish import record
from files.file_areas import FileArea
from files.usage import record_removal
from jobs.control import stop_job
from jobs.idempotency import find_answer, keep_answer
from jobs.jobfile.spec import JobSpec, from_json, to_json
from jobs.lifecycle import lock_job
from jobs.models import Job, JobKind
from jobs.submit import Check, find_submit_refusal, find_team, submit_job
from notebooks.changes import apply_changes, check_notebook_name
from notebooks.environment import READY, environment_state
from notebooks.job_spec import build_spec
from notebooks.kept_packages import find_kept_folder
from notebooks.models import Notebook, NotebookQuerySet
from notebooks.states import NotebookState
from quotas.services import admit_notebook, find_full_limit, get_notebook_hours

LONGEST_HOURS = 24 * 366
PREPARED_IN_S = 60
"""When to ask again while the environment is being prepared, which takes minutes."""


def create_notebook(
    *,
    user: User,
    name: str,
    gpu: str,
    cpu_milli: int | None = None,
    memory_mib: int | None = None,
    team: str | None = None,
    pool: str | None = None,
    env: dict | None = None,
    secrets: dict | None = None,
    data: dict | None = None,
    environment: str | None = None,
    hours: int | None = None,
    key: str = "",
    body: bytes = b"",
) -> Notebook:
    """Create a notebook. gpu, secrets: as in a job file. environment: instead of one of its own, which it may change.

    hours: limit of each start. key, body: see jobs.idempotency.

    Raises InvalidInput, NameTaken, NotPermitted, KeyReused, DiskFull.
    """
    if (done := find_answer(user=user, key=key, body=body)) is not None:
        return Notebook.objects.with_names().get(pk=done)
    check_disk()
    in_team = find_team(user, team)
    require(user, "job.submit", in_team)
    base = JobSpec(run="", name="", team=in_team.name, retry_times=0)
    sizes = {"gpu": gpu, "cpu_milli": cpu_milli, "memory_mib": memory_mib}
    spec = apply_changes(
        user,
        base,
        {
            "name": name,
            **sizes,
            "pool": pool,
            "env": env or {},
            "secrets": secrets or {},
            "data": data or {},
            "environment": environment,
            "hours": hours,
        },
    )
    try:
        with transaction.atomic():
            made = _store(user, in_team, spec)
            record(made, "created", actor=user.as_actor, params={"name": made.name, "gpu": spec.gpu.text})
            keep_answer(user=user, key=key, body=body, made=made)
    except IntegrityError:
        if (done := find_answer(user=user, key=key, body=body)) is None:  # else sent twice at once
            raise NameTaken(name=name) from None
        return Notebook.objects.with_names().get(pk=done)
    return find_again(made)


def change_notebook(
    *, actor: User, notebook: Notebook, versions: Collection[str] | None = None, **changes: Any
) -> Notebook:
    """Rename a notebook, or change settings for its next start.

    versions: only if Notebook.version is one of these. changes: some of CHANGES.
    Raises InvalidInput, NameTaken, NotPermitted, ChangedMeanwhile.
    """
    require(actor, "notebook.change", notebook.team, notebook.user_id)
    try:
        with transaction.atomic():
            return _change(actor, lock_notebook(notebook.pk), versions, changes)
    except IntegrityError:
        raise NameTaken(name=changes["name"]) from None


def _change(actor: User, row: Notebook, versions: Collection[str] | None, changes: dict[str, Any]) -> Notebook:
    if versions is not None and row.version not in versions:
        raise ChangedMeanwhile()
    spec = apply_changes(row.user, from_json(row.spec), changes)
    before, after = row.spec, to_json(spec)
    changed = [key for key in before | after if before.get(key) != after.get(key)]
    if changed:
        Notebook.objects.filter(pk=row.pk).update(name=spec.name, spec=after)
        told = [key for key in changed if key not in ("env", "data")]  # their values may be private
        params = {"from": {k: before.get(k) for k in told}, "to": {k: after.get(k) for k in told}, "fields": changed}
        record(row, "changed", actor=actor.as_actor, params=params)
    return find_again(row)


def clone_notebook(*, actor: User, notebook: Notebook, name: str) -> Notebook:
    """Create a notebook with the same settings and an empty folder."""
    require(actor, "notebook.change", notebook.team, notebook.user_id)
    spec = replace(from_json(notebook.spec), name=check_notebook_name(name))
    try:
        with transaction.atomic():
            made = _store(actor, notebook.team, spec)
            params = {"name": made.name, "gpu": spec.gpu.text, "of": notebook.public_id}
            record(made, "created", actor=actor.as_actor, params=params)
    except IntegrityError:
        raise NameTaken(name=name) from None
    return find_again(made)


def delete_notebook(*, actor: User, notebook: Notebook, confirm: str, with_files: bool) -> None:
    """Delete a stopped notebook, if `confirm` is its name. with_files: as only its owner may.

    Raises InvalidInput, Conflict (notebook_started), NotPermitted.
    """
    require(actor, "notebook.delete", notebook.team, notebook.user_id)
    if with_files:
        require(actor, "notebook.change", notebook.team, notebook.user_id)
    with transaction.atomic():
        row = lock_notebook(notebook.pk)
        if confirm != row.name:
            raise InvalidInput([FieldError("/confirm", "confirm_name", {"name": row.name})])
        if row.is_started:
            raise Conflict("notebook_started", name=row.name)
        Notebook.objects.filter(pk=row.pk).update(deleted_at=Now())
        params = {"name": row.name, "with_files": with_files}
        record(row, "deleted", actor=actor.as_actor, params=params)
        if with_files:
            remove_files(row)


@transaction.atomic
def start_notebook(
    *,
    actor: User,
    notebook: Notebook,
    check: Check,
    containers: bool,
    gpu: str | None = None,
    key: str = "",
    body: bytes = b"",
) -> Notebook:
    """Submit the notebook as a job, unless it is starting or running.

    gpu: for this start only; it replaces a start that still waits. key, body: see jobs.idempotency.
    Raises Unavailable, QuotaExceeded, Impossible, InvalidInput, NotPermitted, KeyReused.
    """
    require(actor, "notebook.start", notebook.team, notebook.user_id)
    prepared = environment_state()
    if prepared["state"] != READY:
        raise Unavailable(f"notebooks_{prepared['state']}", step=prepared["step"], retry_after_s=PREPARED_IN_S)
    row = lock_notebook(notebook.pk)
    if find_answer(user=actor, key=key, body=body) is not None:
        return find_again(row)
    keep_answer(user=actor, key=key, body=body, made=row)
    if row.state == NotebookState.QUEUED and gpu is not None and row.job is not None:
        stop_job(actor=actor, job=row.job)
    elif row.is_started and row.state != NotebookState.STOPPING:
        return find_again(row)
    admit_notebook(user=row.user, running=list_other_starts(row.user, row))
    job = submit_job(
        user=row.user,
        spec=build_start_spec(row, gpu),
        check=check,
        containers=containers,
        kind=JobKind.INTERACTIVE,
    )
    Notebook.objects.filter(pk=row.pk).update(job=job, ready_at=None, opened_at=None, stops_at=None, warned_at=None)
    params = {"job": job.public_id, "gpu": job.gang[0]["request"]["gpu"]}
    record(row, "started", actor=actor.as_actor, params=params)
    return find_again(row)


@transaction.atomic
def create_and_start(
    *, user: User, check: Check, containers: bool, key: str = "", body: bytes = b"", **settings: Any
) -> Notebook:
    """Create a notebook and start it; a start that is refused leaves none behind.

    While JupyterLab is being installed it is only created: its page starts it afterwards. settings: of create_notebook.
    key, body: see jobs.idempotency.
    """
    if (done := find_answer(user=user, key=key, body=body)) is not None:
        return Notebook.objects.with_names().get(pk=done)
    made = create_notebook(user=user, key=key, body=body, **settings)
    if environment_state()["state"] != READY:
        return made
    return start_notebook(actor=user, notebook=made, check=check, containers=containers)


def find_start_refusal(user: User, notebook: Notebook | None = None) -> QuotaExceeded | None:
    """Return what would refuse a start now, of this notebook or a new one; None if the person's limits have room."""
    too_many = find_full_limit(user, "notebooks_running", list_other_starts(user, notebook))
    return too_many or find_submit_refusal(user, but=notebook.job if notebook else None)


def list_other_starts(user: User, notebook: Notebook | None = None) -> NotebookQuerySet:
    """Return the person's started notebooks, without this one."""
    started = Notebook.objects.started().filter(user=user)
    return started.exclude(pk=notebook.pk) if notebook else started


@transaction.atomic
def stop_notebook(*, actor: User, notebook: Notebook) -> Notebook:
    require(actor, "job.stop", notebook.team, notebook.user_id)
    row = lock_notebook(notebook.pk)
    if row.job is not None and row.is_started:
        stop_job(actor=actor, job=row.job)
        record(row, "stop_requested", actor=actor.as_actor)
    return find_again(row)


@transaction.atomic
def extend_notebook(*, actor: User, notebook: Notebook, hours: int) -> Notebook:
    """Extend a notebook, to at most the person's limit from now. Raises Conflict (not_running)."""
    require(actor, "notebook.start", notebook.team, notebook.user_id)
    if hours < 1:
        raise InvalidInput([FieldError("/hours", "too_small", {"min": 1, "got": hours})])
    row = lock_notebook(notebook.pk)
    if row.job is None or row.state not in (NotebookState.STARTING, NotebookState.RUNNING):
        raise Conflict("not_running", name=row.name, state=row.state.lower())
    if row.stops_at is None:
        return find_again(row)
    most = get_notebook_hours(row.user)
    latest = database_now() + timedelta(hours=most if most is not None else LONGEST_HOURS)
    set_end(row, max(min(row.stops_at + timedelta(hours=min(hours, LONGEST_HOURS)), latest), row.stops_at))
    row.refresh_from_db()
    params = {"hours": hours, "at": row.stops_at.isoformat() if row.stops_at else ""}
    record(row, "extended", actor=actor.as_actor, params=params)
    return find_again(row)


def mark_opened(*, notebook: Notebook) -> None:
    """Record the owner's first opening of this start."""
    Notebook.objects.filter(pk=notebook.pk, job=notebook.job_id, opened_at=None).update(opened_at=Now())


def _store(owner: User, team: Team, spec: JobSpec) -> Notebook:
    """Insert a notebook with an unused folder. Raises IntegrityError."""
    taken = set(Notebook.objects.live().filter(user=owner).values_list("folder_name", flat=True))
    names = (spec.name if number == 1 else f"{spec.name}-{number}" for number in count(1))
    folder = next(name for name in names if name not in taken)
    return Notebook.objects.create(user=owner, team=team, name=spec.name, folder_name=folder, spec=to_json(spec))


def remove_files(notebook: Notebook) -> None:
    home = FileArea(notebook.user, None)
    for folder in (notebook.folder, find_kept_folder(notebook.public_id)):
        try:
            record_removal(area=home, freed_bytes=home.store.remove(folder))
        except NotFound:
            pass  # never started


def lock_notebook(pk: int) -> Notebook:
    """Lock a notebook, before any limit or job. Raises StaleState where it was deleted."""
    rows = lock_rows(Notebook.objects.live().filter(pk=pk))
    if not rows:
        raise StaleState(kind="notebook", was="deleted")
    return rows[0]


def find_again(notebook: Notebook) -> Notebook:
    return Notebook.objects.with_names().get(pk=notebook.pk)


def set_end(notebook: Notebook, stops_at: datetime) -> None:
    """Set a locked notebook's end, and its job's estimate for the scheduler."""
    Notebook.objects.filter(pk=notebook.pk).update(stops_at=stops_at, warned_at=None)
    if notebook.job_id is not None:
        job = lock_job(notebook.job_id)
        if job.started_at is not None:
            Job.objects.filter(pk=job.pk).update(time_s=max(round((stops_at - job.started_at).total_seconds()), 1))


def build_start_spec(notebook: Notebook, gpu: str | None = None) -> JobSpec:
    """Return what a start submits. gpu: for this start only."""
    return build_spec(notebook, hours=hours_of_start(notebook), gpu=gpu, image=settings.TESSERA_NOTEBOOK_IMAGE)


def hours_of_start(notebook: Notebook) -> int | None:
    """Return the setting, within the person's limit. None means no end."""
    chosen = from_json(notebook.spec).max_time_s
    known = [hours for hours in (chosen // 3600 if chosen else None, get_notebook_hours(notebook.user)) if hours]
    return min(known, default=None)
