"""How a webhook's request looks: a CloudEvents 1.0 envelope, signed so that the receiver knows it is from here.

Headers: X-Tessera-Timestamp (seconds since 1970), X-Tessera-Signature ("sha256=" and the hexadecimal HMAC-SHA256 over
timestamp, a dot and the body, with the webhook's secret as key), X-Tessera-Delivery (its number in the list of
deliveries). The body's `id` is the event's, the same however often it is delivered.
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
    """What it signs with. It follows from the installation's key; another salt makes another secret."""
    key = hmac.digest(settings.SECRET_KEY.encode(), f"webhook {webhook.salt}".encode(), "sha256")
    return "whsec_" + key.hex()


def sign(secret: str, timestamp: int, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def describe(event: Event) -> dict:
    """An event as programs see it, in every stream and webhook. States are in lower case; no sentence, so no language.

    {"id", "at", "type", "kind", "object", "verb", "from_state", "to_state", "reason", "actor", "params"}
    """
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
    """(body, headers) of one try. https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md"""
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
