"""One round: judge the rules, write what changes, tell whom it concerns. One process at a time does it."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import Membership, PlatformRole, TeamRole, User
from events.record_and_publish import SYSTEM
from events.transitions import Move, advance
from monitoring.alerts.actions import act_on_alerts
from monitoring.alerts.catalogue import build_shipped_rules
from monitoring.alerts.evaluation import Changes, compare, count_subjects
from monitoring.alerts.messages import TOGETHER, People, choose_endings, choose_messages
from monitoring.alerts.readings import load_readings
from monitoring.alerts.sending import send_messages
from monitoring.models import Alert, AlertRound, AlertRule, AlertState, Silence
from monitoring.models.alerts import OPEN

FIGURES = ("label", "value", "judged_at", "counted_ms", "owners", "teams", "node")
AT_ONCE = 1000
KEPT = timedelta(days=366)


def judge_alerts(platform: Mapping[str, float | None]) -> int | None:
    """Judge all rules once, and return how many alerts are open. None: another process is at it.

    platform: values that only rooms above this one know.
    """
    began = time.monotonic()
    ship_rules()
    AlertRound.objects.get_or_create(pk=1)
    with transaction.atomic():
        row = AlertRound.objects.select_for_update(skip_locked=True).filter(pk=1).first()
        if row is None:
            return None
        rules = list(AlertRule.objects.filter(enabled=True))
        stand = list(Alert.objects.filter(state__in=OPEN).select_related("rule"))
        readings = load_readings({(rule.subject, rule.metric) for rule in rules}, dict(platform))
        changes, now = _compare_and_write(readings, rules, stand)
        _tell(changes, now)
        row.at, row.took_ms = now, round(1000 * (time.monotonic() - began))
        row.counts = count_subjects(readings, rules)
        row.save()
    act_on_alerts()
    return Alert.objects.filter(state__in=OPEN).count()


def ship_rules() -> None:
    """Add the rules that ship and are not there yet."""
    known = set(AlertRule.objects.exclude(code="").values_list("code", flat=True))
    missing = [rule for rule in build_shipped_rules() if rule.code not in known]
    if missing:
        AlertRule.objects.bulk_create(missing, ignore_conflicts=True)


def drop_old_alerts() -> None:
    before = timezone.now() - KEPT
    Alert.objects.filter(ended_at__lt=before).delete()
    Silence.objects.filter(until__lt=before).delete()


def _compare_and_write(readings, rules: Sequence[AlertRule], stand: Sequence[Alert]) -> tuple[Changes, datetime]:
    now = timezone.now()
    changes = compare(readings, rules, stand, now)
    Alert.objects.bulk_create(changes.begun, batch_size=AT_ONCE)
    Alert.objects.filter(pk__in=[alert.pk for alert in changes.dropped]).delete()
    Alert.objects.bulk_update(changes.figures, FIGURES, batch_size=AT_ONCE)
    for to, moves in changes.moves.items():
        for start in range(0, len(moves), AT_ONCE):
            advance([_move(alert, why, to) for alert, why in moves[start : start + AT_ONCE]], to, actor=SYSTEM)
    return changes, now


def _move(alert: Alert, why: str, to: AlertState) -> Move:
    also: dict[str, object] = {}
    if to == AlertState.FIRING and alert.fired_at is None:
        also["fired_at"] = Now()
    if to == AlertState.RESOLVED:
        also["ended_at"] = Now()
    return Move(alert, reason=why, params=describe_alert(alert), also=also)


def describe_alert(alert: Alert) -> dict:
    """Return what an event says of an alert."""
    rule = alert.rule
    return {
        "rule": rule.code or rule.public_id,
        "severity": rule.severity,
        "subject": rule.subject,
        "label": alert.label,
        "metric": rule.metric,
        "value": alert.value,
        "comparison": rule.comparison,
        "threshold": rule.threshold,
    }


def _tell(changes: Changes, now: datetime) -> None:
    firing = list(Alert.objects.filter(state=AlertState.FIRING).select_related("rule"))
    recent = list(Alert.objects.filter(told_at__gt=now - TOGETHER).select_related("rule"))
    silences = list(Silence.objects.filter(until__gt=now))
    ended = [alert for alert, _ in changes.moves.get(AlertState.RESOLVED, ())]
    messages = choose_messages(firing, recent, silences, load_people(), now) if firing else []
    _mark_told(messages, now)
    send_messages([*messages, *choose_endings(ended)])


def _mark_told(messages: Iterable, now: datetime) -> None:
    told: dict[int, Alert] = {}
    for message in messages:
        for alert in message.alerts:
            alert.told[message.receiver] = now.isoformat()
            alert.told_at = now
            told[alert.pk] = alert
    Alert.objects.bulk_update(told.values(), ["told", "told_at"], batch_size=AT_ONCE)


def load_people() -> People:
    admins = User.objects.filter(platform_role=PlatformRole.ADMIN, suspended_at__isnull=True)
    leads: dict[int, set[int]] = defaultdict(set)
    rows = Membership.objects.filter(role=TeamRole.LEAD, user__suspended_at__isnull=True)
    for team, user in rows.values_list("team", "user"):
        leads[team].add(user)
    return People(
        frozenset(admins.values_list("pk", flat=True)), {team: frozenset(users) for team, users in leads.items()}
    )
