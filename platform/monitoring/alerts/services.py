"""What people do with alerts: see, acknowledge and silence them, and keep the rules."""

from collections.abc import Iterable
from copy import copy
from datetime import datetime, timedelta
from math import isfinite

from django.contrib.postgres.expressions import ArraySubquery
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import Membership, Team, TeamRole, User
from accounts.permissions import require
from common.errors import Conflict, FieldError, InvalidInput, NotFound, QuotaExceeded
from common.locks import lock_rows
from events.record_and_publish import publish_person, record, record_change
from monitoring.alerts.catalogue import CHECK, METRICS, find_metric
from monitoring.alerts.stopping import is_acknowledged
from monitoring.models import Action, Alert, AlertRound, AlertRule, AlertState, Audience, Comparison, Silence, Subject
from monitoring.models.alerts import OPEN

LATE_AFTER = timedelta(seconds=60)
LONGEST_S = 7 * 86_400
LONGEST_SILENCE = timedelta(days=30)
MOST_SILENCES, MOST_RULES = 100, 200
LOUD = (AlertState.FIRING, AlertState.NO_DATA)
KEPT_FIELDS = (
    "name", "subject", "metric", "comparison", "threshold", "for_s", "clear_threshold", "clear_for_s", "pool_id",
    "least_gpus", "severity", "audience", "action", "runbook", "enabled",
)  # fmt: skip
OF_WORK = (Subject.JOB, Subject.TASK, Subject.TEAM)


def alerts_visible_to(user: User) -> models.QuerySet[Alert]:
    """Return the alerts that concern the user, of whom the rule's audience tells; all for admins and auditors."""
    rows = Alert.objects.select_related("rule", "rule__pool", "node")
    if user.sees_all:
        return rows
    if not user.is_active:
        return rows.none()
    led = Membership.objects.filter(user=user, role=TeamRole.LEAD).values("team")
    return rows.filter(Q(owners__contains=[user.pk]) | Q(teams__overlap=ArraySubquery(led)))


def list_loud(user: User) -> models.QuerySet[Alert]:
    """Return what fires now, or fired and is not known any more."""
    return alerts_visible_to(user).filter(state__in=LOUD)


def count_loud(user: User) -> int:
    """Count what fires and nobody acknowledged yet."""
    return list_loud(user).filter(acknowledged_at=None).count()


def find_alert(user: User, alert_id: int) -> Alert:
    alert = alerts_visible_to(user).filter(pk=alert_id).first()
    if alert is None:
        raise NotFound(kind="alert", id=alert_id)
    return alert


def is_engine_late(now: datetime | None = None) -> bool:
    """Whether the rules were not judged within the last minute."""
    at = judged_at()
    return at is None or (now or timezone.now()) - at > LATE_AFTER


def judged_at() -> datetime | None:
    return AlertRound.objects.filter(pk=1).values_list("at", flat=True).first()


@transaction.atomic
def acknowledge_alert(*, actor: User, alert: Alert) -> Alert:
    """Say that somebody is at it: nobody is told again. Raises Conflict if it has ended."""
    _require_of(actor, alert)
    (locked,) = lock_rows(Alert.objects.filter(pk=alert.pk))
    if locked.state not in OPEN:
        raise Conflict("alert_ended")
    if not is_acknowledged(locked):
        Alert.objects.filter(pk=alert.pk).update(acknowledged_at=Now(), acknowledged_by=actor.username)
        record(alert, "acknowledged", actor=actor.as_actor)
        for user_id in {actor.pk, *alert.owners}:
            publish_person(user_id, "alerts")
    return find_alert(actor, alert.pk)


def silences_visible_to(user: User) -> models.QuerySet[Silence]:
    """Return silences that have not ended: one's own; all for admins and auditors."""
    rows = Silence.objects.filter(until__gt=Now()).select_related("rule")
    return rows if user.sees_all else rows.filter(user_id=user.pk)


def find_silence(user: User, silence_id: int) -> Silence:
    silence = silences_visible_to(user).filter(pk=silence_id).first()
    if silence is None:
        raise NotFound(kind="silence", id=silence_id)
    return silence


@transaction.atomic
def make_silence(
    *, actor: User, until: datetime, reason: str, rule: AlertRule | None = None, severity: str = "", label: str = ""
) -> Silence:
    """Tell nothing of what matches until then. An admin's silence is for everybody, anyone else's for themselves."""
    _check_silence(until, reason, rule, severity, label)
    used = silences_visible_to(actor).filter(user_id=actor.pk).count()
    if used >= MOST_SILENCES:
        raise QuotaExceeded(what="silences", used=used, limit=MOST_SILENCES)
    silence = Silence.objects.create(
        user_id=actor.pk,
        made_by=actor.username,
        for_all=actor.is_admin,
        rule=rule,
        severity=severity,
        label=label.strip(),
        reason=reason.strip(),
        until=until,
    )
    record(silence, "made", actor=actor.as_actor, params={"why": silence.reason, "until": until.isoformat()})
    return silence


@transaction.atomic
def end_silence(*, actor: User, silence: Silence) -> None:
    if silence.user_id != actor.pk:
        require(actor, "alert_rule.change")
    if Silence.objects.filter(pk=silence.pk, until__gt=Now()).update(until=Now()):
        record(silence, "ended", actor=actor.as_actor)


def find_rule(rule_id: int) -> AlertRule:
    rule = AlertRule.objects.filter(pk=rule_id).select_related("pool").first()
    if rule is None:
        raise NotFound(kind="alert_rule", id=rule_id)
    return rule


@transaction.atomic
def save_rule(*, actor: User, rule: AlertRule) -> AlertRule:
    """Store a new or changed rule. Raises InvalidInput, naming each field."""
    require(actor, "alert_rule.change")
    before = AlertRule.objects.filter(pk=rule.pk).first() if rule.pk else None
    check_rule(rule, before)
    if before is None and (used := AlertRule.objects.count()) >= MOST_RULES:
        raise QuotaExceeded(what="alert_rules", used=used, limit=MOST_RULES)
    rule.audience = [one for one in Audience.values if one in rule.audience]
    rule.save()
    record_change(rule, before, KEPT_FIELDS, "changed" if before else "made", actor=actor.as_actor)
    return rule


@transaction.atomic
def delete_rule(*, actor: User, rule: AlertRule) -> None:
    """Delete a rule with its alerts. One that ships is switched off instead, or it would come back."""
    require(actor, "alert_rule.change")
    if rule.code:
        raise Conflict("shipped_rule")
    record(rule, "deleted", actor=actor.as_actor, params={"name": rule.name})
    rule.delete()


def check_rule(rule: AlertRule, before: AlertRule | None = None) -> None:
    """Raise InvalidInput for a rule that says nothing, or everything."""
    if errors := [*_check_subject(rule, before), *_check_threshold(rule), *_check_times(rule), *_check_reach(rule)]:
        raise InvalidInput(errors)


def change_rule(rule: AlertRule, changes: dict) -> AlertRule:
    """Return a copy of the rule with some fields changed, not saved."""
    changed = copy(rule)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _require_of(actor: User, alert: Alert) -> None:
    """An owner and a lead answer for their work; for machines and the platform, admins do."""
    team = Team.objects.filter(pk__in=alert.teams).first() if alert.rule.subject in OF_WORK else None
    owner = actor.pk if actor.pk in alert.owners else None
    if team is None:
        require(actor, "alert_rule.change")
    else:
        require(actor, "alert.acknowledge", team, owner)


def _check_silence(until: datetime, reason: str, rule: AlertRule | None, severity: str, label: str) -> None:
    errors, now = [], timezone.now()
    if rule is None and not severity and not label.strip(" *"):
        errors.append(FieldError("/rule", "silence_everything"))
    if until <= now:
        errors.append(FieldError("/until", "silence_over"))
    elif until > now + LONGEST_SILENCE:
        errors.append(FieldError("/until", "silence_too_long", {"most_days": LONGEST_SILENCE.days}))
    if not reason.strip():
        errors.append(FieldError("/reason", "required"))
    if errors:
        raise InvalidInput(errors)


def _check_subject(rule: AlertRule, before: AlertRule | None) -> Iterable[FieldError]:
    if before is not None and before.code and (before.subject, before.metric) != (rule.subject, rule.metric):
        yield FieldError("/metric", "shipped_rule_metric")
    elif rule.subject not in Subject.values:
        yield FieldError("/subject", "unknown_value", {"got": rule.subject[:40], "allowed": list(Subject.values)})
    elif find_metric(rule.subject, rule.metric) is None:
        known = ", ".join([*METRICS[Subject(rule.subject)], *([f"{CHECK}NAME"] if _has_machine(rule) else [])])
        yield FieldError("/metric", "unknown_metric", {"got": rule.metric[:40], "known": known})
    if not rule.code and not rule.name.strip():
        yield FieldError("/name", "required")


def _check_threshold(rule: AlertRule) -> Iterable[FieldError]:
    """Refuse what holds for every value, or for none."""
    metric = find_metric(rule.subject, rule.metric) if rule.subject in Subject.values else None
    if metric is None or rule.comparison not in Comparison.values:
        return
    values = [rule.threshold, *([] if rule.clear_threshold is None else [rule.clear_threshold])]
    if not all(isfinite(value) for value in values):
        yield FieldError("/threshold", "number_out_of_range")
        return
    comparison = Comparison(rule.comparison)
    least, most = (metric.low, metric.high) if comparison.rises else (metric.high, metric.low)
    if least is not None and comparison.holds(least, rule.threshold):
        yield FieldError("/threshold", "rule_matches_everything", {"least": least})
    elif most is not None and not comparison.holds(most, rule.threshold):
        yield FieldError("/threshold", "rule_matches_nothing", {"most": most})
    if rule.clear_threshold is not None and comparison.holds(rule.clear_threshold, rule.threshold):
        yield FieldError("/clear_threshold", "clears_while_it_holds", {"threshold": rule.threshold})


def _check_times(rule: AlertRule) -> Iterable[FieldError]:
    for name in ("for_s", "clear_for_s"):
        if getattr(rule, name) > LONGEST_S:
            yield FieldError(f"/{name}", "alert_window_too_long", {"most": LONGEST_S, "most_days": LONGEST_S // 86_400})


def _check_reach(rule: AlertRule) -> Iterable[FieldError]:
    """Who is told, what is done, and to what the rule is narrowed."""
    if not rule.audience:
        yield FieldError("/audience", "required")
    elif unknown := sorted(set(rule.audience) - set(Audience.values)):
        yield FieldError("/audience", "unknown_value", {"got": unknown[0][:40], "allowed": list(Audience.values)})
    elif rule.subject in (Subject.POOL, Subject.PLATFORM) and Audience.ADMIN not in rule.audience:
        yield FieldError("/audience", "nobody_is_told")
    if rule.action not in Action.values:
        yield FieldError("/action", "unknown_value", {"got": rule.action[:40], "allowed": list(Action.values)})
    elif rule.action == Action.STOP and rule.subject != Subject.JOB:
        yield FieldError("/action", "stop_without_job")
    elif rule.action == Action.DRAIN_CARD and rule.subject != Subject.CARD:
        yield FieldError("/action", "drain_without_card")
    elif rule.action and rule.action != Action.STOP and not _has_machine(rule):
        yield FieldError("/action", "action_without_machine")
    elif rule.action and not {Audience.OWNER, Audience.ADMIN} <= set(rule.audience):
        yield FieldError("/audience", "action_untold")
    if rule.least_gpus is not None and rule.subject != Subject.JOB:
        yield FieldError("/least_gpus", "only_for_jobs")
    if rule.pool_id is not None and rule.subject in (Subject.TEAM, Subject.PLATFORM):
        yield FieldError("/pool", "in_no_pool")


def _has_machine(rule: AlertRule) -> bool:
    return rule.subject in (Subject.CARD, Subject.NODE)
