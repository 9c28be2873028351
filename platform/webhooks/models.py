"""Webhooks of people and teams, and the deliveries of events to them."""

import uuid
from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from events.models import Event, Outgoing


class Format(models.TextChoices):
    """What the receiver reads."""

    CLOUDEVENTS = "cloudevents", _("CloudEvents: a program of yours")
    ALERTMANAGER = "alertmanager", _("Alertmanager")
    SLACK = "slack", _("Slack")
    TEAMS = "teams", _("Microsoft Teams")
    DINGTALK = "dingtalk", _("DingTalk")
    FEISHU = "feishu", _("Feishu (Lark)")
    WECOM = "wecom", _("WeCom")


class Webhook(models.Model):
    """An address that receives events of one person's or team's objects.

    user_id: its maker. team_id: null for a personal one. topics: "job" or "job.failed"; empty means all. salt: the
    secret is derived from it, never stored. sealed: the secret that a chat gave out, "" if none. rests_until: paused
    after a failure, or to keep to the pace of a chat.
    """

    KIND = "webhook"

    user_id = models.BigIntegerField()
    team_id = models.BigIntegerField(null=True)
    name = models.CharField(max_length=64)
    url = models.CharField(max_length=500)
    topics = ArrayField(models.CharField(max_length=60), default=list)
    format = models.CharField(
        max_length=12,
        choices=Format.choices,
        default=Format.CLOUDEVENTS,
        db_default=Format.CLOUDEVENTS,  # the previous version still inserts rows during an upgrade
    )
    sealed = models.TextField(blank=True, default="", db_default="")
    salt = models.UUIDField(default=uuid.uuid4)
    created_at = models.DateTimeField(db_default=Now())
    disabled_at = models.DateTimeField(null=True)
    disabled_why = models.CharField(max_length=40, blank=True)
    rests_until = models.DateTimeField(null=True)

    class Meta:
        db_table = "events_webhook"  # the table was made by events
        ordering = ["id"]
        indexes = [
            models.Index(fields=["team_id"], name="webhooks_of_team"),
            models.Index(fields=["user_id"], name="webhooks_of_user"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"webhook-{self.pk}"

    def wants(self, event_type: str) -> bool:
        if self.format == Format.ALERTMANAGER and not event_type.startswith("alert."):
            return False
        return not self.topics or event_type in self.topics or event_type.partition(".")[0] in self.topics


class Delivery(Outgoing):
    """One event for one webhook. data: what its body says besides the event; null if nothing."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="+")
    data = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    tried_at = models.DateTimeField(null=True)
    status = models.PositiveSmallIntegerField(null=True)
    took_ms = models.PositiveIntegerField(null=True)

    class Meta:
        db_table = "events_delivery"
        ordering = ["id"]
        indexes = [
            models.Index(fields=["due_at"], name="due_deliveries", condition=Q(due_at__isnull=False)),
            models.Index(fields=["webhook", "-id"], name="deliveries_of_webhook"),
        ]

    def __str__(self) -> str:
        return f"delivery {self.pk} of {self.event_id}"

    @property
    def next_at(self) -> datetime | None:
        """When it is tried next, after its webhook's pause; None if done."""
        return self.due_at and max(self.due_at, self.webhook.rests_until or self.due_at)
