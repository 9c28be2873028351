"""Jobs that rules stop: their owners are warned first, and what is well again or in somebody's hands is not stopped.

A warning has reached its owner once they opened it, or its mail was sent; the time until the stop runs from then.
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.functions import Now

from accounts.models import User
from common.locks import database_now, lock_rows
from events.models import Notice
from events.notices import notify
from events.record_and_publish import Actor, record
from jobs.control import end_job, retry_job
from jobs.lifecycle import lock_job
from jobs.models import Job
from monitoring.models import Action, Alert, AlertState

ALERTS = Actor("alerts")
WARNING = timedelta(minutes=30)
REASON = "alert"
NOTICE = "stop_warned"


def find_stop(alert: Alert, reached_at: datetime | None, now: datetime) -> str:
    """Return what to do about a job whose owner was warned: "", "stop", "ask", "call_off" or "warn_anew". Pure.

    reached_at: when the warning reached the owner, None if it did not yet.
    """
    if alert.acts_at is None or alert.state == AlertState.RESOLVED or alert.rule.action != Action.STOP:
        return "call_off"
    if is_acknowledged(alert):
        return "call_off"
    if alert.state != AlertState.FIRING:
        return "warn_anew"
    if now < alert.acts_at:
        return ""
    if reached_at is None:
        return "ask"
    return "stop" if now >= reached_at + WARNING else ""


def is_acknowledged(alert: Alert) -> bool:
    """Return whether somebody answers for it: of a stop that was warned of, since the warning. Pure."""
    if alert.acknowledged_at is None:
        return False
    return alert.acts != Alert.Acts.WARNED or alert.acts_at is None or alert.acknowledged_at >= alert.acts_at - WARNING


def follow_warnings() -> None:
    """Stop the jobs whose time is over, and let go those that are well again."""
    for alert in Alert.objects.filter(acts=Alert.Acts.WARNED):
        _follow(alert)


def stop_or_warn(alert: Alert, actor: Actor) -> bool:
    """Act on a locked alert that fires: warn, or stop at once whom a warning did not reach. False if nothing is left.

    Only a person's word brings here an alert that was warned of.
    """
    job = Job.objects.filter(pk=alert.subject_id).first()
    if job is None or (job := lock_job(job.pk)).is_final or job.stop_requested_at is not None:
        Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.UNDONE)
        return False
    if alert.acts_at is None:
        _warn(alert, job, actor)
    else:
        _stop(alert, job, actor)
    return True


def take_back(alert: Alert, actor: User) -> None:
    """Call a stop off, or queue the job again that was stopped. Raises Conflict while it is stopping."""
    if alert.acts == Alert.Acts.WARNED:
        _call_off(alert, actor.as_actor)
        return
    job = retry_job(actor=actor, job=Job.objects.select_related("team", "user").get(pk=alert.subject_id))
    Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.UNDONE)
    record(alert, "requeued", actor=actor.as_actor, params={"job": job.public_id})


@transaction.atomic
def _follow(alert: Alert) -> None:
    (locked,) = lock_rows(Alert.objects.filter(pk=alert.pk).select_related("rule"))
    if locked.acts != Alert.Acts.WARNED:
        return
    do = find_stop(locked, _find_reached(locked), database_now())
    if do == "stop":
        stop_or_warn(locked, ALERTS)
    elif do == "ask":
        Alert.objects.filter(pk=locked.pk).update(acts=Alert.Acts.ASKS)
    elif do == "call_off":
        _call_off(locked, ALERTS)
    elif do == "warn_anew":
        Alert.objects.filter(pk=locked.pk).update(acts=Alert.Acts.NONE, acts_at=None)


def _warn(alert: Alert, job: Job, actor: Actor) -> None:
    at = database_now() + WARNING
    params = {"job": job.public_id, "until": at.isoformat()}
    Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.WARNED, acts_at=at)
    record(alert, "warned", actor=actor, params=params)
    record(job, "stop_warned", actor=actor, params={"until": at.isoformat(), "alert": alert.public_id})
    told = {"alert": alert.public_id, "rule": alert.rule.code, "title": alert.rule.name, "at": at.isoformat()}
    notify(user_id=job.user_id, kind=NOTICE, about=job, params=told | {"name": job.name})


def _stop(alert: Alert, job: Job, actor: Actor) -> None:
    end_job(by=actor, job=job, reason=REASON)
    Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.DONE, acted_at=Now())
    record(alert, "stopped", actor=actor, params={"job": job.public_id})


def _call_off(alert: Alert, actor: Actor) -> None:
    Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.UNDONE)
    record(alert, "called_off", actor=actor, params={"job": alert.label})
    if job := Job.objects.filter(pk=alert.subject_id).first():
        record(lock_job(job.pk), "stop_called_off", actor=actor, params={"alert": alert.public_id})


def _find_reached(alert: Alert) -> datetime | None:
    """Return when its warning was opened, or its mail sent."""
    notices = Notice.objects.filter(kind=NOTICE, object_kind=Job.KIND, object_id=alert.subject_id)
    at = alert.acts_at.isoformat() if alert.acts_at else ""
    notice = notices.filter(params__alert=alert.public_id, params__at=at).first()
    times = [at for at in (notice.read_at, notice.sent_at) if at is not None] if notice else []
    return min(times, default=None)
