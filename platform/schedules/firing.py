"""Submit the jobs of schedules, or start their notebooks, at their times: each time once, whatever is killed when.

`claim_due` makes a run of each schedule that has come due and moves the schedule to its next time, in one transaction.
`fire_next` submits the job of a run and marks the run as done, in one transaction, too: what a killed worker leaves
behind is a run that is due still.
"""

import logging
import time
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction
from django.db.models import Q

from common.errors import PlatformError, describe_as_json
from common.locks import database_now
from events.notices import notify
from events.record_and_publish import SYSTEM, publish_row, record
from jobs.control import end_jobs
from jobs.models import Job
from jobs.states import JOB_FINAL
from jobs.submit import Check, submit_job
from schedules.due import find_due
from schedules.models import Outcome, Overlap, Schedule, ScheduledRun, SuspendedWhy
from schedules.notebook_starts import find_stop, start_until
from schedules.services import mark_suspended, read_spec

log = logging.getLogger("tessera.schedules")

CLAIMED_AT_ONCE = 500
FIRE_S = 5.0
"""How long one call submits; the next one goes on."""
TRY_AGAIN = timedelta(seconds=60)
TRIED_FOR = timedelta(hours=1)
"""How long a run is tried again while the platform cannot accept it, as its disk is full or a registry is away."""
MOST_REFUSALS = 5
"""In a row; then the schedule is suspended."""
TRIMMED_AT_ONCE = 200


def fire_due(check: Check, containers: bool) -> int:
    """Claim all that is due and submit it, for FIRE_S at most; return how many runs were looked at.

    check, containers: as jobs.submit has them.
    """
    while claim_due() == CLAIMED_AT_ONCE:
        pass
    fired, until = 0, time.monotonic() + FIRE_S
    while time.monotonic() < until and fire_next(check, containers) is not None:
        fired += 1
    return fired


@transaction.atomic
def claim_due() -> int:
    """Make a run of each of some schedules that have come due, and move them to their next times; return how many."""
    now = database_now()
    due = Schedule.objects.filter(next_at__lte=now).select_for_update(skip_locked=True, no_key=True)
    schedules = list(due.order_by("next_at", "pk")[:CLAIMED_AT_ONCE])
    runs = [run for schedule in schedules if (run := _claim(schedule, now))]
    # A tick that is there already has been fired: the clock was set back, and each tick is fired once.
    ScheduledRun.objects.bulk_create(runs, ignore_conflicts=True)
    Schedule.objects.bulk_update(schedules, ["next_at"])
    return len(schedules)


def _claim(schedule: Schedule, now: datetime) -> ScheduledRun | None:
    if (due := find_due(schedule, now)) is None:
        return None
    schedule.next_at = due.next_at
    run = ScheduledRun(schedule=schedule, tick_at=due.tick, missed_since=due.missed_since, due_at=now, made_at=now)
    if due.is_missed:
        run.due_at, run.outcome, run.why = None, Outcome.SKIPPED, {"code": "missed"}
    return run


@transaction.atomic
def fire_next(check: Check, containers: bool, pk: int | None = None) -> ScheduledRun | None:
    """Submit the job of the run that has been due for the longest; None if none is. pk: of this run and no other.

    The schedule's lock keeps two workers from deciding about overlaps at once. What asks a registry holds it for as
    long, so that only who changes this schedule waits.
    """
    due = ScheduledRun.objects.filter(due_at__lte=database_now(), **({"pk": pk} if pk else {}))
    locked = due.select_for_update(skip_locked=True, no_key=True, of=("self", "schedule"))
    run = (
        locked.select_related("schedule__user", "schedule__team", "schedule__notebook__job")
        .order_by("due_at", "pk")
        .first()
    )
    if run is None:
        return None
    _fire(run, check, containers)
    _trim(run.schedule)
    publish_row(run.schedule)
    return run


def _fire(run: ScheduledRun, check: Check, containers: bool) -> None:
    schedule, still_open = run.schedule, _list_open_jobs(run.schedule)
    if (stop := find_stop(schedule, run.tick_at)) and stop <= database_now():
        return _finish(run, Outcome.SKIPPED, why={"code": "stop_has_passed"})
    if still_open and schedule.overlap == Overlap.SKIP:
        code = "notebook_open" if schedule.notebook else "still_open"
        said = {"code": code, "params": {"job": still_open[0].public_id}}
        return _finish(run, Outcome.SKIPPED, why=said)
    try:
        with transaction.atomic():
            job = _submit(run, still_open, check, containers)
    except PlatformError as error:
        if error.status < 500 or not _put_off(run):
            _refuse(run, error)
    except DatabaseError:
        raise
    except Exception:
        log.exception("%s was not submitted", run)
        if not _put_off(run):
            _refuse(run, PlatformError())
    else:
        _finish(run, Outcome.SUBMITTED, job=job)
        Schedule.objects.filter(pk=schedule.pk).update(refusals=0)


def _submit(run: ScheduledRun, still_open: list[Job], check: Check, containers: bool) -> Job:
    """Submit the job, after those that are still open; they are stopped if the schedule says so."""
    if run.schedule.notebook is not None:
        return _start(run, check, containers)
    spec = read_spec(run.schedule)
    if still_open:
        spec = replace(spec, after={**spec.after, still_open[0].public_id: "any"})
    job = submit_job(user=run.schedule.user, spec=spec, check=check, containers=containers, key=_key_of(run))
    if run.schedule.overlap == Overlap.REPLACE and still_open:
        end_jobs(by=SYSTEM, jobs=still_open, reason="replaced")
    return job


def _start(run: ScheduledRun, check: Check, containers: bool) -> Job:
    schedule = run.schedule
    stop = find_stop(schedule, run.tick_at)
    return start_until(schedule, stop, database_now(), check=check, containers=containers, key=_key_of(run))


def _key_of(run: ScheduledRun) -> str:
    return f"{run.schedule.public_id} {run.tick_at.isoformat()}"


def _list_open_jobs(schedule: Schedule) -> list[Job]:
    """Return the jobs of a schedule that have not ended, newest first; of a notebook's its start, whoever asked."""
    if (notebook := schedule.notebook) is not None:
        return [notebook.job] if notebook.job and notebook.is_started else []
    return list(Job.objects.open().filter(scheduled_run__schedule=schedule).order_by("-pk"))


def _put_off(run: ScheduledRun) -> bool:
    """Let a run be tried again in a while, unless it was for long."""
    now = database_now()
    if now - run.made_at > TRIED_FOR:
        return False
    run.due_at = now + TRY_AGAIN
    run.save(update_fields=["due_at"])
    return True


def _refuse(run: ScheduledRun, error: PlatformError) -> None:
    """Mark a run as refused, and tell the owner: of the first in a row, and of the one that suspends the schedule."""
    schedule, why = run.schedule, describe_as_json(error)
    _finish(run, Outcome.REFUSED, why=why)
    record(schedule, "refused", actor=SYSTEM, reason=error.code[:40])
    if run.asked_by:
        return
    schedule.refusals += 1
    schedule.save(update_fields=["refusals"])
    suspends = schedule.refusals >= MOST_REFUSALS and schedule.suspended_at is None
    if suspends:
        mark_suspended(schedule, SuspendedWhy.REFUSED)
        record(schedule, "suspended", actor=SYSTEM, params={"refusals": schedule.refusals})
    if suspends or schedule.refusals == 1:
        said = {"name": schedule.name, "why": why, "suspended": suspends, "refusals": schedule.refusals}
        notify(user_id=schedule.user_id, kind="schedule_refused", about=schedule, params=said)


def _finish(run: ScheduledRun, outcome: str, *, job: Job | None = None, why: dict | None = None) -> None:
    run.due_at, run.outcome, run.job, run.why = None, outcome, job, why
    run.save(update_fields=["due_at", "outcome", "job", "why"])


def _trim(schedule: Schedule) -> None:
    """Delete the oldest ended runs beyond those that are kept."""
    ended = schedule.runs.filter(Q(job=None) | Q(job__state__in=JOB_FINAL), due_at=None).order_by("-tick_at")
    some = list(ended.values_list("pk", flat=True)[schedule.keep : schedule.keep + TRIMMED_AT_ONCE])
    ScheduledRun.objects.filter(pk__in=some).delete()
