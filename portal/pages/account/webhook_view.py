"""View models of webhooks."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import OuterRef, QuerySet, Subquery
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.wording.events import describe_event
from portal.wording.notices import WEBHOOK_WHY
from webhooks.models import Delivery, Webhook

MOST_DELIVERIES = 30
SOON = timedelta(seconds=30)
"""A try that is so near is waited for: the page looks again by itself."""

# Offered topics; the API takes any kind ("job") and type ("job.held").
TOPIC_WORDS: dict[str, str | Promise] = {
    "job.submitted": gettext_lazy("A job is submitted"),
    "job.running": gettext_lazy("A job starts"),
    "job.succeeded": gettext_lazy("A job is done"),
    "job.failed": gettext_lazy("A job fails"),
    "job.cancelled": gettext_lazy("A job is cancelled"),
    "job.about_to_end": gettext_lazy("A job is about to reach its time limit"),
    "notebook.ready": gettext_lazy("A notebook can be opened"),
    "notebook.about_to_end": gettext_lazy("A notebook is about to end"),
    "quota.changed": gettext_lazy("The quota is changed"),
    "alert.firing": gettext_lazy("An alert fires"),
    "alert.resolved": gettext_lazy("An alert ends"),
}
ERROR_MESSAGES: dict[str, str | Promise] = {
    "refused": gettext_lazy("It answered with %(status)s."),
    "timeout": gettext_lazy("No answer within five seconds."),
    "unreachable": gettext_lazy("Nothing answers at this address."),
    "unresolved": gettext_lazy("The host name of the address is unknown."),
    "tls": gettext_lazy("The certificate is not valid."),
    "forbidden_address": gettext_lazy("The address is not allowed for webhooks."),
    "chat_refused": gettext_lazy("The chat refused it. Look at the bot’s secret and its key words."),
    "chat_too_fast": gettext_lazy("The chat takes no more for now; it is tried again."),
    "not_an_alert": gettext_lazy("This is no alert, and an Alertmanager takes nothing else."),
    "disabled": gettext_lazy("The webhook was disabled."),
    "not_permitted": gettext_lazy("You may no longer see this object."),
}


class DeliveryView:
    def __init__(self, row: Delivery):
        self.row = row
        self.event = describe_event(row.event)

    @property
    def chip(self) -> tuple[str, str, str]:
        """Return (tone, icon, words)."""
        if self.row.sent_at:
            return "done", "check", _("Delivered")
        if self.row.due_at is None:
            return "fault", "alert-circle", _("Given up")
        return ("idle", "clock", _("Retrying")) if self.row.tried_at else ("wait", "hourglass", _("Waiting"))

    @property
    def result(self) -> str:
        """Say how the last attempt went."""
        words = ERROR_MESSAGES["refused"] if self.row.sent_at else ERROR_MESSAGES.get(self.row.error, self.row.error)
        return str(words) % {"status": self.row.status}

    @property
    def next_at(self) -> datetime | None:
        return self.row.next_at

    @property
    def is_soon(self) -> bool:
        return self.next_at is not None and self.next_at < timezone.now() + SOON


class WebhookView:
    def __init__(self, row: Webhook, last: DeliveryView | None):
        self.row = row
        self.last = last

    @property
    def chip(self) -> tuple[str, str, str]:
        """Return (tone, icon, words)."""
        if self.row.disabled_at:
            by_hand = self.row.disabled_why == "by_hand"
            return ("stale", "player-pause", _("Paused")) if by_hand else ("fault", "ban", _("Disabled"))
        if self.row.rests_until:
            return "idle", "alert-triangle", _("Failing")
        return "done", "circle-check", _("Enabled")

    @property
    def why(self) -> str:
        """Say why the webhook was disabled, or ""."""
        return str(WEBHOOK_WHY.get(self.row.disabled_why, ""))

    @property
    def topics(self) -> list[str]:
        return [str(TOPIC_WORDS.get(topic, topic)) for topic in self.row.topics]


def view_webhooks(rows: QuerySet[Webhook]) -> list[WebhookView]:
    """Return webhooks newest first, in two queries."""
    newest = Delivery.objects.filter(webhook=OuterRef("pk")).order_by("-id").values("pk")[:1]
    found = list(rows.annotate(last_id=Subquery(newest)).order_by("-id"))
    wanted = [row.last_id for row in found if row.last_id]  # type: ignore[attr-defined]
    lasts = {view.row.webhook_id: view for view in view_deliveries(Delivery.objects.filter(pk__in=wanted))}
    return [WebhookView(row, lasts.get(row.pk)) for row in found]


def view_deliveries(rows: QuerySet[Delivery]) -> list[DeliveryView]:
    found: Iterable[Delivery] = rows.select_related("event", "webhook").order_by("-id")[:MOST_DELIVERIES]
    return [DeliveryView(row) for row in found]
