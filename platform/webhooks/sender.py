"""Send due webhooks, in parallel; what each answered is written by the calling thread, which owns the connection."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.db.models.functions import Now

from common.safe_http import Answer, post_body
from events.outgoing import AT_ONCE, record_try
from webhooks.delivery_queue import claim_deliveries, pause_webhook, resume_webhook
from webhooks.models import Delivery
from webhooks.services import disable_webhook, is_maker_allowed
from webhooks.signing import build_request

GONE = 410


def send_webhooks(is_visible: Callable[[Delivery], bool]) -> None:
    """Send what is due. is_visible: whether a personal webhook's owner may still see the event."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for batch in claim_deliveries():
            allowed = [delivery for delivery in batch if _may_go(delivery, is_visible)]
            for delivery, answer in zip(allowed, pool.map(_post, allowed), strict=True):
                _store_answer(delivery, answer)


def _may_go(delivery: Delivery, is_visible: Callable[[Delivery], bool]) -> bool:
    """Check rights at sending, since they may have ended after the event."""
    webhook = delivery.webhook
    if webhook.disabled_at is not None:
        record_try(delivery, sent=False, again=False, error="disabled")
    elif not is_maker_allowed(webhook):
        disable_webhook(webhook=webhook, why="maker_left")
    elif webhook.team_id is None and not is_visible(delivery):
        record_try(delivery, sent=False, again=False, error="not_permitted")
    else:
        return True
    return False


def _post(delivery: Delivery) -> Answer:
    body, headers = build_request(delivery)
    return post_body(delivery.webhook.url, body, headers, settings.TESSERA_WEBHOOK_PRIVATE)


def _store_answer(delivery: Delivery, answer: Answer) -> None:
    sent = answer.status is not None and 200 <= answer.status < 300
    error = "" if sent else answer.error or "refused"
    facts = {"status": answer.status, "took_ms": answer.took_ms, "tried_at": Now()}
    gone = answer.status == GONE
    if sent:
        resume_webhook(delivery.webhook_id)
    elif not gone:
        pause_webhook(delivery.webhook, delivery.attempts)
    if record_try(delivery, sent=sent, error=error, again=not gone, **facts):
        disable_webhook(webhook=delivery.webhook, why="gone" if gone else "failing")
