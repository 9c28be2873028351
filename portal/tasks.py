"""The sender of what leaves the platform: webhooks and mails, each from its row, claimed and tried until it is gone.

A process of its own (queue "outside"), so that a slow receiver holds up no scheduling.
"""

import logging
import smtplib
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from celery import shared_task
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.webhooks import disable_webhook, maker_may
from common.egress import Answer, post
from events.models import Delivery, Notice
from events.notices import drop_old_notices
from events.outgoing import claim, finish
from events.webhooks import build_request, drop_old_deliveries
from portal.event_sight import load_event_sight
from portal.notice_words import view_notice

log = logging.getLogger("tessera.sending")

AT_ONCE = 8
STOP_AFTER_S = 20
GONE = 410


@shared_task
def send() -> None:
    """Everything that is due now."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
    try:
        send_webhooks()
        send_mails()
    except OperationalError as gone:  # the database restarts: the next beat finds it again
        log.warning("sending waits for the database: %s", gone)


@shared_task
def sweep() -> None:
    """Drop notices and deliveries that are old and done."""
    drop_old_notices()
    drop_old_deliveries()


def send_webhooks() -> None:
    """Batch after batch, each in parallel; the rows are written here, in the thread that has the connection."""
    until = time.monotonic() + STOP_AFTER_S
    rows = Delivery.objects.select_related("webhook", "event")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while time.monotonic() < until and (batch := claim(rows, AT_ONCE)):
            allowed = [delivery for delivery in batch if _may_go(delivery)]
            for delivery, answer in zip(allowed, pool.map(_post, allowed), strict=True):
                _note(delivery, answer)


def send_mails() -> None:
    until = time.monotonic() + STOP_AFTER_S
    while time.monotonic() < until and (batch := claim(Notice.objects.all(), AT_ONCE)):
        for notice in batch:
            _mail(notice)


def _may_go(delivery: Delivery) -> bool:
    """Rights are asked when it is sent, for they may have ended since the event."""
    webhook = delivery.webhook
    if webhook.disabled_at is not None:
        finish(delivery, sent=False, again=False, error="disabled")
    elif not maker_may(webhook):
        disable_webhook(webhook=webhook, why="maker_left")
    elif webhook.team_id is None and not _sees(delivery):
        finish(delivery, sent=False, again=False, error="not_permitted")
    else:
        return True
    return False


def _sees(delivery: Delivery) -> bool:
    sight = load_event_sight(delivery.webhook.user_id)
    return sight is not None and sight.sees(delivery.event)


def _post(delivery: Delivery) -> Answer:
    body, headers = build_request(delivery)
    return post(delivery.webhook.url, body, headers, settings.TESSERA_WEBHOOK_PRIVATE)


def _note(delivery: Delivery, answer: Answer) -> None:
    sent = answer.status is not None and 200 <= answer.status < 300
    error = "" if sent else answer.error or "refused"
    facts = {"status": answer.status, "took_ms": answer.took_ms, "tried_at": Now()}
    gone = answer.status == GONE
    if finish(delivery, sent=sent, error=error, again=not gone, **facts):
        disable_webhook(webhook=delivery.webhook, why="gone" if gone else "failing")


def _mail(notice: Notice) -> None:
    """The words of the page, as text. A repeat after a crash has the same Message-ID."""
    user = User.objects.filter(pk=notice.user_id, suspended_at__isnull=True).first()
    if not settings.TESSERA_MAIL or user is None or not user.email:
        finish(notice, sent=False, again=False, error="no_address" if settings.TESSERA_MAIL else "no_mail")
        return
    try:
        build_mail(notice, user).send()
    except (smtplib.SMTPException, OSError) as away:
        log.warning("mail of notice %s was not sent: %s", notice.pk, away)
        finish(notice, sent=False, error="mail_refused")
    else:
        finish(notice, sent=True)


def build_mail(notice: Notice, user: User) -> EmailMessage:
    with translation.override(user.language or settings.LANGUAGE_CODE):
        view = view_notice(notice)
        choose = settings.TESSERA_PUBLIC_URL + reverse("notifications")
        foot = _("Choose what you are told at %(url)s") % {"url": choose}
        parts = [f"{view.title}.", view.text, view.url, f"-- \n{foot}"]
        body = "\n\n".join(part for part in parts if part)
        headers = {"Message-ID": f"<notice-{notice.pk}@{urlsplit(settings.TESSERA_PUBLIC_URL).hostname}>"}
        return EmailMessage(f"Tessera: {view.title}", body, to=[user.email], headers=headers)
