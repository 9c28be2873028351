"""Who is told of what now. Pure.

A receiver is "user:7", who gets a notice, or "team:3", whose webhooks do. It hears of one rule at most once in five
minutes, of all that is due together; of what goes on, again after some hours; and of what ends, if it had heard of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from monitoring.models import Alert, AlertRule, Audience, Severity, Silence

TOGETHER = timedelta(minutes=5)
AGAIN = {
    Severity.CRITICAL: timedelta(hours=4),
    Severity.WARNING: timedelta(hours=12),
    Severity.INFO: timedelta(hours=24),
}


@dataclass(frozen=True)
class People:
    """admins: of the platform. leads: of each team."""

    admins: frozenset[int]
    leads: Mapping[int, frozenset[int]]


@dataclass(frozen=True)
class Message:
    receiver: str
    rule: AlertRule
    alerts: tuple[Alert, ...]
    ended: bool = False


def choose_messages(
    firing: Iterable[Alert], recent: Iterable[Alert], silences: Iterable[Silence], people: People, now: datetime
) -> list[Message]:
    """Return what is to be told of alerts that fire. recent: also others of which was told lately."""
    last: dict[tuple[int, str], datetime] = {}
    for alert in recent:
        for receiver in alert.told:
            if (at := alert.told_when(receiver)) is not None:
                key = alert.rule_id, receiver
                last[key] = max(at, last.get(key, at))
    quiet, due = tuple(silences), defaultdict(list)
    for alert in firing:
        if alert.acknowledged_at is None:
            for receiver in list_receivers(alert, people):
                if _is_due(alert, receiver, now) and not is_silenced(alert, receiver, quiet):
                    due[receiver, alert.rule].append(alert)
    return [
        Message(receiver, rule, tuple(alerts))
        for (receiver, rule), alerts in due.items()
        if now - last.get((rule.pk, receiver), now - TOGETHER) >= TOGETHER
    ]


def choose_endings(ended: Iterable[Alert]) -> list[Message]:
    """Return what is to be told of alerts that ended just now."""
    due = defaultdict(list)
    for alert in ended:
        for receiver in alert.told:
            due[receiver, alert.rule].append(alert)
    return [Message(receiver, rule, tuple(alerts), ended=True) for (receiver, rule), alerts in due.items()]


def list_receivers(alert: Alert, people: People) -> set[str]:
    """Return whom the rule wants to be told of this alert."""
    audience, users = alert.rule.audience, set()
    if Audience.OWNER in audience:
        users |= set(alert.owners)
    if Audience.LEAD in audience:
        users |= {lead for team in alert.teams for lead in people.leads.get(team, ())}
    if Audience.ADMIN in audience:
        users |= people.admins
    return {f"user:{pk}" for pk in users} | {f"team:{pk}" for pk in alert.teams}


def is_silenced(alert: Alert, receiver: str, silences: Iterable[Silence]) -> bool:
    return any((one.for_all or receiver == f"user:{one.user_id}") and matches(one, alert) for one in silences)


def matches(silence: Silence, alert: Alert) -> bool:
    return (
        silence.rule_id in (None, alert.rule_id)
        and silence.severity in ("", alert.rule.severity)
        and (not silence.label or fnmatchcase(alert.label, silence.label))
    )


def _is_due(alert: Alert, receiver: str, now: datetime) -> bool:
    at = alert.told_when(receiver)
    return at is None or now - at >= AGAIN[Severity(alert.rule.severity)]
