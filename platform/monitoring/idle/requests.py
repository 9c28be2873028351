"""What people ask for: more time, an exemption, a word to the owner, the release of what is idle, the GPU again."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.functions import Now

from accounts.models import User
from accounts.permissions import require
from common.errors import Conflict, FieldError, InvalidInput
from common.locks import database_now, lock_rows
from events.models import Event
from events.notices import notify
from events.record_and_publish import record
from jobs.control import end_job
from jobs.lifecycle import lock_job
from jobs.models import Job
from jobs.states import JobState
from monitoring.idle.acting import GPU, REGRET, act
from monitoring.idle.loading import load_held_jobs
from monitoring.idle.rungs import Rung, Then
from monitoring.idle.watching import begin_ladder, lock_watch
from monitoring.models import Exemption, IdleSnooze, IdleTold, IdleWatch
from notebooks.models import Notebook
from notebooks.services import lock_notebook

SNOOZE = timedelta(hours=1)
SNOOZES_A_DAY = 2
LEADS_HOURS, ADMINS_HOURS = 24, 30 * 24
NUDGE_EVERY = timedelta(hours=1)
MOST_REASON = 200


@transaction.atomic
def snooze(*, actor: User, job: Job) -> IdleWatch:
    """Let an idle job keep what it holds for another hour. Raises Conflict."""
    require(actor, "idle.snooze", job.team, job.user_id)
    job = lock_job(job.pk)
    watch = _lock_idle(job)
    now = database_now()
    if watch.snoozes.filter(at__gt=now - timedelta(days=1)).count() >= SNOOZES_A_DAY:
        raise Conflict("snoozes_spent", max=SNOOZES_A_DAY)
    until = max(watch.snoozed_until or now, now) + SNOOZE
    if watch.rung >= Rung.WARNED:  # to be warned again before the hour is over
        _step_back(watch, job, now)
    watch.snoozed_until = until
    watch.plan = []
    watch.save()
    IdleSnooze.objects.create(watch=watch, user=actor, at=now, until=until)
    IdleTold.objects.filter(watch=watch, user=actor, shown_at__isnull=True).update(shown_at=Now())
    record(job, "idle_snoozed", actor=actor.as_actor, params={"until": until.isoformat()})
    return watch


def _step_back(watch: IdleWatch, job: Job, now: datetime) -> None:
    """Begin another ladder, below its warning, of which its owner knows."""
    begin_ladder(watch)
    watch.rung, watch.rung_at = Rung.NOTED, now
    IdleTold.objects.create(watch=watch, ladder=watch.ladder, rung=Rung.NOTED, user=job.user, shown_at=now)


@transaction.atomic
def exempt(*, actor: User, job: Job, hours: int, reason: str) -> Exemption:
    """Keep the rules off a job, or off a notebook and all its starts. Raises InvalidInput.

    Leads for a day at most, administrators for thirty.
    """
    require(actor, "idle.exempt", job.team, job.user_id)
    most = ADMINS_HOURS if actor.is_admin else LEADS_HOURS
    reason = " ".join(reason.split())
    _check_exemption(hours, most, reason)
    notebook = find_notebook(job)
    job = lock_job(job.pk)
    of = {"notebook": notebook} if notebook else {"job": job}
    made = Exemption.objects.create(reason=reason, by=actor, until=database_now() + timedelta(hours=hours), **of)
    record(job, "idle_exempted", actor=actor.as_actor, params={"until": made.until.isoformat(), "reason": reason})
    return made


def _check_exemption(hours: int, most: int, reason: str) -> None:
    errors = []
    if not 1 <= hours <= most:
        errors.append(FieldError("/hours", "out_of_range", {"min": 1, "max": most, "got": hours}))
    if not reason:
        errors.append(FieldError("/reason", "required"))
    elif len(reason) > MOST_REASON:
        errors.append(FieldError("/reason", "too_long", {"max": MOST_REASON}))
    if errors:
        raise InvalidInput(errors)


@transaction.atomic
def end_exemption(*, actor: User, exemption: Exemption) -> Exemption:
    """Let the rules hold again, as its owner may, too."""
    about = exemption.job or exemption.notebook
    assert about is not None
    require(actor, "idle.snooze", about.team, about.user_id)
    row = lock_rows(Exemption.objects.filter(pk=exemption.pk))[0]
    if row.ended_at is None:
        Exemption.objects.filter(pk=row.pk).update(ended_at=Now())
        job = exemption.job or (exemption.notebook.job if exemption.notebook else None)
        if job is not None:
            record(lock_job(job.pk), "idle_exemption_ended", actor=actor.as_actor)
    row.refresh_from_db()
    return row


@transaction.atomic
def nudge(*, actor: User, job: Job) -> None:
    """Ask the owner of an idle job whether it is still needed. Raises Conflict."""
    require(actor, "idle.nudge", job.team, job.user_id)
    notebook = find_notebook(job)
    job = lock_job(job.pk)
    watch = _lock_idle(job)
    lately = Event.objects.filter(
        kind=Job.KIND, object_id=job.pk, verb="idle_nudged", at__gt=database_now() - NUDGE_EVERY
    )
    if lately.exists():
        raise Conflict("nudged_lately")
    params = {
        "name": notebook.name if notebook else job.name,
        "minutes": int(watch.clock.measure_idle_s(database_now()) // 60),
        "by": actor.username,
        "seen": watch.evidence,
    }
    record(job, "idle_nudged", actor=actor.as_actor, params=params)
    notify(user_id=job.user_id, kind="idle_noticed", about=notebook or job, params=params)


@transaction.atomic
def release_now(*, actor: User, job: Job) -> IdleWatch:
    """Release what an idle job holds, without waiting for the rule: a notebook goes on without its GPU."""
    require(actor, "job.stop", job.team, job.user_id)
    notebook = find_notebook(job)
    if notebook is not None:
        lock_notebook(notebook.pk)
    job = lock_job(job.pk)
    watch = _lock_idle(job)
    held = next(iter(load_held_jobs([job.pk])), None)
    if held is None:
        raise Conflict("not_idle")
    now = database_now()
    then = Then.RELEASE_GPU if notebook is not None else Then.STOP
    done = act(watch, job, then, held, now, by=actor.as_actor)
    params = {**done, "minutes": int(watch.clock.measure_idle_s(now) // 60)}
    watch.rung, watch.rung_at, watch.plan = Rung.ACTED, now, []
    watch.save()
    record(job, "idle_released", actor=actor.as_actor, params=params)
    if actor.pk != job.user_id:
        about = notebook or job
        told = {**params, "name": notebook.name if notebook else job.name, "by": actor.username, "seen": watch.evidence}
        notify(user_id=job.user_id, kind="idle_acted", about=about, params=told)
    return watch


@transaction.atomic
def resume_on_gpu(*, actor: User, notebook: Notebook) -> Notebook:
    """Start a notebook on its GPU again, once the start without it has ended. Raises Conflict."""
    require(actor, "notebook.start", notebook.team, notebook.user_id)
    row = lock_notebook(notebook.pk)
    watch = find_released(row)
    if watch is None:
        raise Conflict("nothing_released", name=row.name)
    now = database_now()
    if watch.acted_at is not None and now < watch.acted_at + REGRET:
        watch.regretted = True
    if watch.returned_until is not None:
        watch.returned_until = max(min(watch.returned_until, now), watch.acted_at or now)
    if row.job is not None and row.is_started:
        end_job(by=actor.as_actor, job=row.job, reason="stopped_by_user")
    watch.wish, watch.next_job = GPU, row.job
    watch.save()
    record(row, "idle_resume_requested", actor=actor.as_actor)
    return row


def find_released(notebook: Notebook) -> IdleWatch | None:
    """Return the watch by which a notebook lost its GPU, if it is still without."""
    watch = IdleWatch.objects.filter(notebook=notebook, acted_at__isnull=False).order_by("-acted_at").first()
    if watch is None or watch.wish == GPU:
        return None
    return watch if notebook.job_id in (watch.job_id, watch.next_job_id) else None


def find_notebook(job: Job) -> Notebook | None:
    """Return the notebook whose newest start a job is."""
    return Notebook.objects.live().select_related("user", "team", "job").filter(job=job).first()


def _lock_idle(job: Job) -> IdleWatch:
    """Lock the watch of a running job that is idle. Raises Conflict."""
    watch = lock_watch(job)
    if job.state != JobState.RUNNING or job.stop_requested_at is not None or watch.since is None:
        raise Conflict("not_idle")
    return watch
