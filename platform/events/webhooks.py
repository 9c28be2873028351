"""Webhook requests: a signed CloudEvents 1.0 envelope.

X-Tessera-Signature: "sha256=" and the hex HMAC-SHA256 over timestamp, a dot and the body, keyed with the secret.
X-Tessera-Delivery: the delivery's id. The body's `id` is the event's, the same in every try.
"""

import hashlib
import hmac
import json
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from events.models import Delivery, Event, Webhook

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
KEPT = timedelta(days=30)


def secret_of(webhook: Webhook) -> str:
    """Derive the webhook's secret from its salt."""
    key = hmac.digest(settings.SECRET_KEY.encode(), f"webhook {webhook.salt}".encode(), "sha256")
    return "whsec_" + key.hex()


def sign(secret: str, timestamp: int, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def describe(event: Event) -> dict:
    """Return an event as streams and webhooks send it."""
    return {
        "id": event.pk,
        "at": event.at.isoformat().replace("+00:00", "Z"),
        "type": event.type,
        "kind": event.kind,
        "object": event.label,
        "verb": event.verb,
        "from_state": event.from_state.lower(),
        "to_state": event.to_state.lower(),
        "reason": event.reason,
        "actor": event.actor,
        "params": event.params,
    }


def build_request(delivery: Delivery) -> tuple[bytes, dict[str, str]]:
    """Build (body, headers) of one try.

    https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
    """
    event, data = delivery.event, describe(delivery.event)
    envelope = {
        "specversion": "1.0",
        "id": str(event.pk),
        "source": settings.TESSERA_PUBLIC_URL,
        "type": f"tessera.{event.type}",
        "subject": event.label,
        "time": data["at"],
        "datacontenttype": "application/json",
        "data": data,
    }
    body = json.dumps(envelope, separators=(",", ":")).encode()
    timestamp = int(timezone.now().timestamp())
    headers = {
        "Content-Type": CONTENT_TYPE,
        "User-Agent": "Tessera-Webhook/1",
        "X-Tessera-Timestamp": str(timestamp),
        "X-Tessera-Signature": sign(secret_of(delivery.webhook), timestamp, body),
        "X-Tessera-Delivery": str(delivery.pk),
    }
    return body, headers


def drop_old_deliveries() -> None:
    Delivery.objects.filter(due_at__isnull=True, created_at__lt=timezone.now() - KEPT).delete()
