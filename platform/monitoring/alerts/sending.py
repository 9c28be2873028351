"""Notices of alerts to people, and deliveries to their webhooks, in the transaction that marks them as told."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from django.conf import settings
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from accounts.models import User
from common.resources import show_duration
from events.models import Event
from events.notices import Recipient, notify_all
from events.record_and_publish import publish_person
from monitoring.alerts.catalogue import find_metric
from monitoring.alerts.messages import AGAIN, Message
from monitoring.models import Alert, Severity
from webhooks.delivery_queue import Addressed, list_listening, queue_addressed
from webhooks.models import Webhook

MOST_NAMED, MOST_LINES, MOST_SENT = 10, 20, 100
"""Subjects that a notice names, a chat is told of, and a delivery carries."""


def send_messages(messages: Sequence[Message]) -> None:
    """Write what is due for each receiver."""
    _notify(message for message in messages if message.receiver.startswith("user:"))
    _queue_for_webhooks(messages)


def describe_delivery(message: Message, public_url: str) -> dict:
    """Return what a delivery says, in the active language; each channel's format makes its body of it."""
    rule = message.rule
    metric = find_metric(rule.subject, rule.metric)
    unit = metric.unit if metric else ""
    state = _("ended") if message.ended else ""
    return {
        "status": "resolved" if message.ended else "firing",
        "severity": rule.severity,
        "rule": rule.code or rule.public_id,
        "name": str(rule),
        "title": f"{rule}: {name_subjects(message.alerts)}" + (f" ({state})" if state else ""),
        "url": f"{public_url}/alerts/",
        "runbook": rule.runbook,
        "repeats_s": round(AGAIN[Severity(rule.severity)].total_seconds()),
        "lines": [_describe_line(alert, unit) for alert in message.alerts[:MOST_LINES]],
        "alerts": [_describe_one(alert, unit) for alert in message.alerts[:MOST_SENT]],
        "more": max(len(message.alerts) - MOST_SENT, 0),
    }


def name_subjects(alerts: Sequence[Alert], most: int = 3) -> str:
    """Return the names of some subjects, and how many more there are."""
    named = ", ".join(alert.label or "Tessera" for alert in alerts[:most])
    more = len(alerts) - most
    return _("%(named)s and %(n)s more") % {"named": named, "n": more} if more > 0 else named


def _describe_line(alert: Alert, unit: str) -> str:
    """Return an alert's subject with its value, where that is more than yes or no."""
    name = alert.label or "Tessera"
    if alert.value is None or not unit:
        return name
    return f"{name}: {show_duration(round(alert.value)) if unit == 's' else f'{alert.value:.4g} {unit}'}"


def _describe_one(alert: Alert, unit: str) -> dict:
    ended = alert.ended_at.isoformat() if alert.ended_at else None
    return {
        "id": alert.public_id,
        "subject": alert.rule.subject,
        "label": alert.label,
        "metric": alert.rule.metric,
        "value": alert.value,
        "unit": unit,
        "comparison": alert.rule.comparison,
        "threshold": alert.rule.threshold,
        "since": alert.since.isoformat(),
        "ended": ended or (timezone.now().isoformat() if alert.reason else None),
    }


def _notify(messages: Iterable[Message]) -> None:
    firing: list[Recipient] = []
    ended: list[Recipient] = []
    for message in messages:
        user_id, first = int(message.receiver.partition(":")[2]), message.alerts[0]
        params = {
            "rule": message.rule.code,
            "name": message.rule.name,
            "severity": message.rule.severity,
            "subjects": [alert.label for alert in message.alerts[:MOST_NAMED]],
            "count": len(message.alerts),
        }
        (ended if message.ended else firing).append(Recipient(user_id, first, params))
        publish_person(user_id, "alerts")
    notify_all("alert", firing)
    notify_all("alert_ended", ended)


def _queue_for_webhooks(messages: Sequence[Message]) -> None:
    """Queue one delivery for each message and webhook, of the newest event of the first alert."""
    users = {int(one.receiver[5:]) for one in messages if one.receiver.startswith("user:")}
    teams = {int(one.receiver[5:]) for one in messages if one.receiver.startswith("team:")}
    listening = list_listening(users, teams)
    if not listening:
        return
    events = _load_events({message.alerts[0].pk for message in messages})
    languages = dict(User.objects.filter(pk__in={one.user_id for one in listening}).values_list("pk", "language"))
    of_receiver: dict[str, list[Webhook]] = defaultdict(list)
    for webhook in listening:
        of_receiver[f"team:{webhook.team_id}" if webhook.team_id else f"user:{webhook.user_id}"].append(webhook)
    queued = []
    for message in messages:
        for webhook in of_receiver.get(message.receiver, ()):
            if (event := events.get(message.alerts[0].pk)) is not None:
                with translation.override(languages.get(webhook.user_id) or settings.LANGUAGE_CODE):
                    data = describe_delivery(message, settings.TESSERA_PUBLIC_URL)
                queued.append(Addressed(webhook, event, data))
    queue_addressed(queued)


def _load_events(alert_ids: Iterable[int]) -> dict[int, Event]:
    rows = Event.objects.filter(kind=Alert.KIND, object_id__in=list(alert_ids), verb="state").order_by("pk")
    return {event.object_id: event for event in rows}
