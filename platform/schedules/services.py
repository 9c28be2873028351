"""Create, change, suspend, resume and delete schedules, and ask for a run by hand."""

import re
from dataclasses import replace
from typing import Any

from django.db import IntegrityError, transaction

from accounts.credentials import find_scope_errors
from accounts.models import User
from accounts.permissions import require
from accounts.time_zones import is_zone
from common.errors import FieldError, InvalidInput, NameTaken, NotFound, QuotaExceeded, StaleState
from common.locks import database_now, lock_rows
from common.text import check_name, shorten_text
from events.record_and_publish import record, record_change
from jobs.idempotency import find_answer, keep_answer
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.spec import JobSpec
from jobs.submit import Check, choose_pool
from schedules.cron import check_cron
from schedules.due import find_next
from schedules.models import Missed, Outcome, Overlap, Schedule, ScheduledRun, SuspendedWhy
from schedules.notebook_starts import find_own_notebook

SCHEDULE_ID = re.compile(r"sch-([1-9][0-9]{0,17})")
MOST_SCHEDULES = 200
"""Of one person."""
MOST_KEPT = 100
WHAT = ("job_file", "notebook", "stop_at")
"""What is done at each time."""
CHANGES = ("name", *WHAT, "cron", "zone", "overlap", "missed", "until", "keep")
TOLD = ("name", "cron", "zone", "overlap", "missed", "keep")
"""What the history tells of a change: a job file may hold private values."""


def find_schedule(user: User, schedule_id: str) -> Schedule:
    """Return a schedule ("sch-7") that the user may see. Raises NotFound."""
    rows = Schedule.objects.visible_to(user).with_names().with_last_run()
    named = SCHEDULE_ID.fullmatch(schedule_id)
    found = rows.filter(pk=int(named[1])).first() if named else None
    if found is None:
        raise NotFound(kind="schedule", id=shorten_text(schedule_id))
    return found


def create_schedule(
    *, user: User, check: Check, containers: bool, key: str = "", body: bytes = b"", **values: Any
) -> Schedule:
    """Create a schedule, unless its job could never run now. values: CHANGES, of job_file and notebook one; notebook as
    its id or name. check, containers: see jobs.submit.

    Raises InvalidInput, Impossible, NameTaken, NotPermitted, QuotaExceeded.
    """
    if (done := find_answer(user=user, key=key, body=body)) is not None:
        return find_again(done)
    made = _apply(Schedule(user=user), {"job_file": "", **values}, check=check, containers=containers)
    _check_token(user, made)
    try:
        with transaction.atomic():
            lock_rows(User.objects.filter(pk=user.pk))
            if (used := Schedule.objects.filter(user=user).count()) >= MOST_SCHEDULES:
                raise QuotaExceeded(what="schedules", used=used, limit=MOST_SCHEDULES)
            made.save(force_insert=True)
            record(made, "created", actor=user.as_actor, params={"name": made.name, "cron": made.cron})
            keep_answer(user=user, key=key, body=body, made=made)
    except IntegrityError:
        if (done := find_answer(user=user, key=key, body=body)) is None:  # else sent twice at once
            raise NameTaken(name=made.name) from None
        return find_again(done)
    return find_again(made.pk)


def change_schedule(*, actor: User, schedule: Schedule, check: Check, containers: bool, **changes: Any) -> Schedule:
    """Change a schedule. A run that is due already is submitted by the new job file. changes: some of CHANGES."""
    require(actor, "schedule.change", schedule.team, schedule.user_id)
    wanted = _apply(find_again(schedule.pk), changes, check=check, containers=containers)
    _check_token(actor, wanted)
    try:
        with transaction.atomic():
            before = _lock(schedule.pk)
            fields = {*changes, *(("team", *WHAT) if {"job_file", "notebook"} & changes.keys() else ())}
            Schedule.objects.filter(pk=before.pk).update(**{name: getattr(wanted, name) for name in fields})
            row = find_again(before.pk)
            if {"cron", "zone", "until"} & changes.keys() and row.suspended_at is None:
                row.next_at = find_next(row, database_now())
                row.save(update_fields=["next_at"])
            record_change(row, before, TOLD, "changed", actor=actor.as_actor)
            if row.job_file != before.job_file:
                record(row, "file_changed", actor=actor.as_actor)
    except IntegrityError:
        raise NameTaken(name=wanted.name) from None
    return find_again(schedule.pk)


@transaction.atomic
def suspend_schedule(*, actor: User, schedule: Schedule) -> Schedule:
    """Let nothing run of a schedule until it is resumed. Jobs that it has submitted go on."""
    require(actor, "schedule.suspend", schedule.team, schedule.user_id)
    row = _lock(schedule.pk)
    if row.suspended_at is None:
        mark_suspended(row, SuspendedWhy.BY_HAND)
        record(row, "suspended", actor=actor.as_actor)
    return find_again(row.pk)


@transaction.atomic
def resume_schedule(*, actor: User, schedule: Schedule) -> Schedule:
    """Let a suspended schedule go on with its next time; those that passed meanwhile were not missed."""
    require(actor, "schedule.suspend", schedule.team, schedule.user_id)
    row = _lock(schedule.pk)
    if row.suspended_at is not None:
        row.suspended_at, row.suspended_why, row.refusals = None, "", 0
        row.next_at = find_next(row, database_now())
        row.save(update_fields=["suspended_at", "suspended_why", "refusals", "next_at"])
        record(row, "resumed", actor=actor.as_actor)
    return find_again(row.pk)


@transaction.atomic
def ask_for_run(*, actor: User, schedule: Schedule, key: str = "", body: bytes = b"") -> ScheduledRun:
    """Store a run by hand, which is due at once. key, body: see jobs.idempotency."""
    require(actor, "schedule.change", schedule.team, schedule.user_id)
    if (done := find_answer(user=actor, key=key, body=body)) is not None:
        return ScheduledRun.objects.get(pk=done)
    row, now = _lock(schedule.pk), database_now()
    run = ScheduledRun.objects.create(schedule=row, tick_at=now, due_at=now, made_at=now, asked_by=actor.username)
    record(row, "run_asked", actor=actor.as_actor)
    keep_answer(user=actor, key=key, body=body, made=run)
    return run


@transaction.atomic
def delete_schedule(*, actor: User, schedule: Schedule) -> None:
    """Delete a schedule and the list of its runs. Their jobs stay."""
    require(actor, "schedule.delete", schedule.team, schedule.user_id)
    row = _lock(schedule.pk)
    record(row, "deleted", actor=actor.as_actor, params={"name": row.name})
    row.delete()


def read_spec(schedule: Schedule) -> JobSpec:
    """Return what a run submits. Raises InvalidInput."""
    return replace(_parse(schedule.job_file), team=schedule.team.name)


def mark_suspended(schedule: Schedule, why: str) -> None:
    """Suspend a locked schedule, with what is due of it and could not be submitted yet."""
    schedule.suspended_at, schedule.suspended_why, schedule.next_at = database_now(), why, None
    schedule.save(update_fields=["suspended_at", "suspended_why", "next_at"])
    due = schedule.runs.filter(due_at__isnull=False)
    due.update(due_at=None, outcome=Outcome.SKIPPED, why={"code": "suspended"})


def find_again(pk: int) -> Schedule:
    """Raises StaleState where it was deleted."""
    found = Schedule.objects.with_names().filter(pk=pk).first()
    if found is None:
        raise StaleState(kind="schedule", was="deleted")
    return found


def _lock(pk: int) -> Schedule:
    """Lock a schedule, before any job. Raises StaleState where it was deleted."""
    rows = lock_rows(Schedule.objects.filter(pk=pk))
    if not rows:
        raise StaleState(kind="schedule", was="deleted")
    return rows[0]


def _apply(row: Schedule, values: dict[str, Any], *, check: Check, containers: bool) -> Schedule:
    """Set values on a row that is not stored. Raises InvalidInput with the errors of all fields."""
    for name, value in values.items():
        if name != "notebook":
            setattr(row, name, value)
    errors = [*_find_problems(row, values), *_choose_what(row, values)]
    if not values.get("notebook") and row.notebook is None and {"job_file", "notebook"} & values.keys():
        errors += _resolve_job(row, check=check, containers=containers)
    if errors:
        raise InvalidInput(errors)
    row.cron = check_cron(row.cron)
    row.next_at = find_next(row, database_now())
    if row.next_at is None and {"until", "cron", "zone"} & values.keys():
        raise InvalidInput([FieldError("/until", "until_has_passed")])
    return row


def _choose_what(row: Schedule, values: dict[str, Any]) -> list[FieldError]:
    """Set what is done at each time: what is named last takes the place of the other. Return what is wrong with it."""
    try:
        if values.get("notebook"):
            row.notebook = find_own_notebook(row.user, values["notebook"])
            row.team, row.job_file = row.notebook.team, values.get("job_file", "")
        elif "notebook" in values or values.get("job_file"):
            row.notebook = None
            row.stop_at = values.get("stop_at")
    except InvalidInput as error:
        return list(error.errors)
    if row.notebook is None:
        return [FieldError("/stop_at", "stop_without_notebook")] if row.stop_at else []
    errors = [FieldError("/job_file", "job_beside_notebook")] if row.job_file else []
    if row.overlap != Overlap.SKIP:
        errors.append(FieldError("/overlap", "overlap_of_notebook"))
    return errors


def _find_problems(row: Schedule, values: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for checked, text in ((check_name, row.name), (check_cron, row.cron)):
        try:
            checked(text)
        except InvalidInput as error:
            errors += error.errors
    if not is_zone(row.zone):
        errors.append(FieldError("/zone", "unknown_zone", {"got": shorten_text(row.zone)}))
    for name, known in (("overlap", Overlap.values), ("missed", Missed.values)):
        if (got := getattr(row, name)) not in known:
            errors.append(FieldError(f"/{name}", "unknown_value", {"got": shorten_text(got), "allowed": known}))
    if not 1 <= row.keep <= MOST_KEPT:
        errors.append(FieldError("/keep", "out_of_range", {"min": 1, "max": MOST_KEPT}))
    return errors


def _resolve_job(row: Schedule, *, check: Check, containers: bool) -> list[FieldError]:
    """Set the team by the job file, and return what is wrong with it. Raises Impossible and what a submit raises."""
    try:
        spec = _parse(row.job_file)
        row.team = choose_pool(user=row.user, spec=replace(spec, after={}), check=check, containers=containers).team
    except InvalidInput as error:
        return [FieldError(f"/job_file{one.pointer}", one.code, one.params) for one in error.errors]
    return []


def _check_token(actor: User, row: Schedule) -> None:
    """Refuse a job with a token of its own to whoever asks by a token, which would end before the schedule does; and a
    notebook to whose token may start none.
    """
    if row.notebook is not None:
        if errors := find_scope_errors(["notebooks:write"], "/notebook", actor.acting_token):
            raise InvalidInput(errors)
        return
    if actor.acting_token and _parse(row.job_file).token:
        raise InvalidInput([FieldError("/job_file/token", "token_in_schedule")])


def _parse(job_file: str) -> JobSpec:
    spec = parse_spec(load_jobfile(job_file.encode("utf-8", "surrogatepass")))
    if spec.start_at is not None:
        raise InvalidInput([FieldError("/start_at", "start_at_in_schedule")])
    return spec
