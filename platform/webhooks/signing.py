"""Webhook requests: a signed CloudEvents 1.0 envelope.

X-Tessera-Signature: "sha256=" and the hex HMAC-SHA256 over timestamp, a dot and the body, keyed with the secret.
X-Tessera-Delivery: the delivery's id. The body's `id` is the event's, the same in every try.
"""

import hashlib
import hmac
import json

from django.conf import settings
from django.utils import timezone

from common.secrets import Unreadable, seal_secret, unseal_secret
from webhooks.models import Delivery, Webhook

USE = "secret of a chat's bot"
CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"


def secret_of(webhook: Webhook) -> str:
    """Derive the webhook's secret from its salt."""
    key = hmac.digest(settings.SECRET_KEY.encode(), f"webhook {webhook.salt}".encode(), "sha256")
    return "whsec_" + key.hex()


def seal_chat_secret(secret: str) -> str:
    return seal_secret(secret, USE) if secret else ""


def open_chat_secret(webhook: Webhook) -> str:
    """Return the secret that the chat gave out; "" if there is none, or it was sealed under another key."""
    try:
        return unseal_secret(webhook.sealed, USE) if webhook.sealed else ""
    except Unreadable:
        return ""


def sign(secret: str, timestamp: int, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def build_request(delivery: Delivery) -> tuple[bytes, dict[str, str]]:
    """Build (body, headers) of one try.

    https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
    """
    event, data = delivery.event, delivery.event.as_json()
    envelope = {
        "specversion": "1.0",
        "id": str(event.pk),
        "source": settings.TESSERA_PUBLIC_URL,
        "type": f"tessera.{event.type}",
        "subject": event.label,
        "time": data["at"],
        "datacontenttype": "application/json",
        "data": data | ({"alert": delivery.data} if delivery.data else {}),
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
