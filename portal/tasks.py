"""Send webhooks and mails, in a process of its own, so that slow receivers delay no scheduling."""

import logging
import smtplib
from collections.abc import Iterator
from urllib.parse import urlsplit

from celery import shared_task
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import OperationalError
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.time_zones import zone_of
from events.models import Notice
from events.notices import drop_old_notices
from events.outgoing import claim_batches, record_try
from jobs.time_limits import warn_of_ends
from monitoring.alerts.services import alerts_visible_to
from monitoring.models import Alert, ReportMail
from monitoring.report_mails.services import tell_due_reports
from portal.access.event_visibility import load_event_visibility
from portal.pages.reports.mails import build_report_mail
from portal.wording.events import describe_event
from portal.wording.monitoring.end_verdicts import load_end_verdicts
from portal.wording.notices import event_url, view_notice
from services.cold_starts import drop_old_cold_starts
from services.usage import drop_old_usage
from webhooks.delivery_queue import drop_old_deliveries
from webhooks.formats import Words
from webhooks.models import Delivery
from webhooks.sender import send_webhooks

log = logging.getLogger("tessera.sending")


@shared_task
def send() -> None:
    """Send everything due, after warning of jobs about to end."""
    try:
        warn_of_ends()
        send_webhooks(_is_visible, describe_for_chat)
        send_mails()
    except OperationalError as gone:  # the next beat retries
        log.warning("sending waits for the database: %s", gone)


@shared_task
def tell_reports() -> None:
    """Make notices of the reports that are due; `send` mails them."""
    tell_due_reports()


@shared_task
def sweep() -> None:
    """Delete old notices, deliveries and counts of services' requests."""
    drop_old_notices()
    drop_old_deliveries()
    drop_old_usage()
    drop_old_cold_starts()


def send_mails() -> None:
    for batch in claim_batches(Notice.objects.all()):
        if mails := list(_mails_of(batch)):
            _mail_all(mails)


def _mail_all(mails: list[tuple[Notice, User]]) -> None:
    """Send over one connection, so that an unreachable server is tried once."""
    try:
        with get_connection() as server:
            while mails:
                _mail(server, *mails[0])
                del mails[0]
    except OSError as away:
        log.warning("%s mails were not sent: %s", len(mails), away)
        for notice, _user in mails:
            record_try(notice, sent=False, error="mail_refused")


def describe_for_chat(delivery: Delivery) -> Words:
    """Return what a chat is told of an event, in the language of the webhook's maker."""
    maker = User.objects.filter(pk=delivery.webhook.user_id).first()
    with translation.override((maker and maker.language) or settings.LANGUAGE_CODE):
        if said := delivery.data:
            lines = (*said["lines"], *([said["runbook"]] if said["runbook"] else []))
            return Words(said["title"], lines, said["url"], said["severity"], said["status"] == "resolved")
        event = delivery.event
        return Words(f"{event.label}: {describe_event(event)}", (), event_url(event))


def _is_visible(delivery: Delivery) -> bool:
    if delivery.event.kind == Alert.KIND:
        person = User.objects.filter(pk=delivery.webhook.user_id).first()
        return person is not None and alerts_visible_to(person).filter(pk=delivery.event.object_id).exists()
    visibility = load_event_visibility(delivery.webhook.user_id)
    return visibility is not None and visibility.sees(delivery.event)


def _mails_of(batch: list[Notice]) -> Iterator[tuple[Notice, User]]:
    """Yield mails that can be sent, with users; finish the others."""
    users = User.objects.filter(suspended_at__isnull=True).in_bulk([notice.user_id for notice in batch])
    for notice in batch:
        user = users.get(notice.user_id)
        if not settings.TESSERA_MAIL or user is None or not user.email:
            record_try(notice, sent=False, again=False, error="no_address" if settings.TESSERA_MAIL else "no_mail")
        else:
            yield notice, user


def _mail(server: BaseEmailBackend, notice: Notice, user: User) -> None:
    """Send one mail; if refused, it is retried. Raises OSError if the server is away."""
    try:
        if (mail := build_mail(notice, user)) is None:
            record_try(notice, sent=False, again=False, error="not_wanted")
            return
        server.send_messages([mail])
    except smtplib.SMTPServerDisconnected:
        raise
    except (smtplib.SMTPException, ValueError) as refused:
        log.warning("mail of notice %s was not taken: %s", notice.pk, refused)
        record_try(notice, sent=False, error="mail_refused")
    else:
        record_try(notice, sent=True)


def build_mail(notice: Notice, user: User) -> EmailMessage | None:
    """Return the mail of a notice; None if its report is not wanted any more."""
    headers = {"Message-ID": f"<notice-{notice.pk}@{urlsplit(settings.TESSERA_PUBLIC_URL).hostname}>"}
    with translation.override(user.language or settings.LANGUAGE_CODE), timezone.override(zone_of(user)):
        if notice.object_kind == ReportMail.KIND:
            return build_report_mail(notice, user, headers)
        view = view_notice(notice, load_end_verdicts([notice]).get(notice.pk, ""))
        choose = settings.TESSERA_PUBLIC_URL + reverse("notifications")
        foot = _("Choose your notifications at %(url)s") % {"url": choose}
        parts = [f"{view.title}.", view.text, view.url, f"-- \n{foot}"]
        body = "\n\n".join(part for part in parts if part)
        return EmailMessage(f"Tessera: {view.title}", body, to=[user.email], headers=headers)
