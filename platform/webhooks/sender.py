"""Send due webhooks, in parallel; what each answered is written by the calling thread, which owns the connection."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone

from common.rates import count_use
from common.safe_http import Answer, post_body
from events.outgoing import AT_ONCE, record_try
from webhooks.delivery_queue import claim_deliveries, pause_webhook, put_back, resume_webhook
from webhooks.formats import (
    PACES,
    Posted,
    Words,
    build_alertmanager_request,
    build_chat_request,
    judge_answer,
)
from webhooks.models import Delivery, Format
from webhooks.services import disable_webhook, is_maker_allowed
from webhooks.signing import build_request, open_chat_secret

GONE = 410
Describe = Callable[[Delivery], Words]


def send_webhooks(is_visible: Callable[[Delivery], bool], describe: Describe) -> None:
    """Send what is due. is_visible: whether a personal webhook's owner may still see the event. describe: what chats
    are told of it.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for batch in claim_deliveries():
            allowed = [delivery for delivery in batch if _may_go(delivery, is_visible) and _keeps_pace(delivery)]
            requests = [_build(delivery, describe) for delivery in allowed]
            for delivery, answer in zip(allowed, pool.map(_post, requests), strict=True):
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
    elif webhook.format == Format.ALERTMANAGER and not delivery.data and delivery.event.verb != "tested":
        record_try(delivery, sent=False, again=False, error="not_an_alert")
    else:
        return True
    return False


def _keeps_pace(delivery: Delivery) -> bool:
    """Count a message for a chat; beyond the pace of its bots it waits."""
    paces = PACES.get(delivery.webhook.format, ())
    for most, per_s in paces:  # the shortest first: what waits for the next second counts for no minute
        window = count_use(f"chat {per_s}", f"webhook-{delivery.webhook_id}", limit=most, per_s=per_s)
        if window.used > window.limit:
            put_back(delivery, window.ends_in_s)
            return False
    return True


def _build(delivery: Delivery, describe: Describe) -> Posted:
    webhook, now = delivery.webhook, timezone.now()
    if webhook.format == Format.CLOUDEVENTS:
        return Posted(webhook.url, *build_request(delivery))
    if webhook.format == Format.ALERTMANAGER:
        return build_alertmanager_request(webhook.url, delivery.data or {}, settings.TESSERA_PUBLIC_URL, now)
    return build_chat_request(webhook.format, webhook.url, describe(delivery), open_chat_secret(webhook), now)


def _post(request: Posted) -> Answer:
    return post_body(request.url, request.body, request.headers, settings.TESSERA_WEBHOOK_PRIVATE)


def _store_answer(delivery: Delivery, answer: Answer) -> None:
    taken = answer.status is not None and 200 <= answer.status < 300
    refused = judge_answer(delivery.webhook.format, answer.body) if taken else ""
    sent = taken and not refused
    error = "" if sent else answer.error or refused or "refused"
    facts = {"status": answer.status, "took_ms": answer.took_ms, "tried_at": Now()}
    gone = answer.status == GONE
    if sent:
        resume_webhook(delivery.webhook_id)
    elif not gone:
        pause_webhook(delivery.webhook, delivery.attempts)
    if record_try(delivery, sent=sent, error=error, again=not gone, **facts):
        disable_webhook(webhook=delivery.webhook, why="gone" if gone else "failing")
