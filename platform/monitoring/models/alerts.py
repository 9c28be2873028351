"""Alerts: the rules that make them, what they stand at, and silences.

A subject for which a rule does not hold has no row: it is inactive. What is not known is NULL, never a value.
"""

from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator, URLValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from cluster.models import Node, Pool
from events.models import OfNoTeam


class Subject(models.TextChoices):
    """What a rule looks at, each by itself."""

    CARD = "card", _("cards")
    NODE = "node", _("machines")
    TASK = "task", _("tasks")
    JOB = "job", _("jobs")
    TEAM = "team", _("teams")
    POOL = "pool", _("pools")
    PLATFORM = "platform", _("the platform")


class Comparison(models.TextChoices):
    ABOVE = "above", _("is above")
    AT_LEAST = "at_least", _("is at least")
    BELOW = "below", _("is below")
    AT_MOST = "at_most", _("is at most")

    @property
    def rises(self) -> bool:
        return self in (Comparison.ABOVE, Comparison.AT_LEAST)

    def holds(self, value: float, threshold: float) -> bool:
        if self == Comparison.ABOVE:
            return value > threshold
        if self == Comparison.AT_LEAST:
            return value >= threshold
        return value < threshold if self == Comparison.BELOW else value <= threshold


class Severity(models.TextChoices):
    INFO = "info", _("Note")
    WARNING = "warning", _("Warning")
    CRITICAL = "critical", _("Critical")


class Audience(models.TextChoices):
    """Who is told: whose work it touches, the leads of their teams, admins of the platform."""

    OWNER = "owner", _("owners of the work that it touches")
    LEAD = "lead", _("leads of their teams")
    ADMIN = "admin", _("administrators")


class Action(models.TextChoices):
    NONE = "", _("none")
    DRAIN_CARD = "drain_card", _("start nothing new on the card")
    CORDON = "cordon_node", _("start nothing new on the machine")
    DRAIN = "drain_node", _("drain the machine")
    STOP = "stop_job", _("warn the owner, then stop the job")


class AlertRule(OfNoTeam, models.Model):
    """When something about its subjects is worth a notice.

    code: of a rule that ships, else "". name: "" for the words that come with the code. clear_threshold: the value
    must be back beyond this, too (null: beyond the threshold), for clear_for_s, until the alert ends. pool, least_gpus:
    only subjects there, and only work that holds so many cards. names: of the platform's own rules, by code.
    """

    KIND = "alert_rule"
    names: ClassVar[dict[str, str | Promise]] = {}

    code = models.CharField(max_length=40, blank=True, editable=False)
    name = models.CharField(_("name"), max_length=80, blank=True)
    subject = models.CharField(_("looks at"), max_length=8, choices=Subject.choices)
    metric = models.CharField(_("value"), max_length=40)
    comparison = models.CharField(_("holds when it"), max_length=8, choices=Comparison.choices)
    threshold = models.FloatField(_("threshold"))
    for_s = models.PositiveIntegerField(_("for so many seconds"), default=0)
    clear_threshold = models.FloatField(
        _("ends only beyond"), null=True, blank=True, help_text=_("Empty: as soon as the threshold is no longer met.")
    )
    clear_for_s = models.PositiveIntegerField(_("and for so many seconds"), default=60)
    pool = models.ForeignKey(
        Pool, null=True, blank=True, on_delete=models.CASCADE, related_name="+", verbose_name=_("only in pool")
    )
    least_gpus = models.PositiveSmallIntegerField(
        _("only with so many cards or more"), null=True, blank=True, validators=[MinValueValidator(1)]
    )
    severity = models.CharField(_("severity"), max_length=8, choices=Severity.choices, default=Severity.WARNING)
    audience = ArrayField(models.CharField(max_length=8, choices=Audience.choices), verbose_name=_("who is told"))
    action = models.CharField(_("then"), max_length=12, choices=Action.choices, blank=True, default=Action.NONE)
    runbook = models.CharField(
        _("what to do, as a link"), max_length=300, blank=True, validators=[URLValidator(schemes=["http", "https"])]
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name, verbose_name_plural = _("alert rule"), _("alert rules")
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["code"], condition=~Q(code=""), name="one_shipped_rule")]

    def __str__(self) -> str:
        return str(self.name or self.names.get(self.code) or self.public_id)

    @property
    def public_id(self) -> str:
        return f"alert-rule-{self.pk}"


class AlertState(models.TextChoices):
    """PENDING: the rule holds, not for long enough yet. NO_DATA: it fired, and the value is not known any more."""

    PENDING = "PENDING", _("Pending")
    FIRING = "FIRING", _("Firing")
    NO_DATA = "NO_DATA", _("No data")
    RESOLVED = "RESOLVED", _("Ended")


OPEN = (AlertState.PENDING, AlertState.FIRING, AlertState.NO_DATA)


class Alert(models.Model):
    """One rule about one subject, from when it began to hold until it ends.

    reason: why it ended: cleared, gone (the subject), rule_off. counted_ms: how long the clock that runs in this state
    was seen to run, until judged_at. owners, teams: whom it touches. told: {"user:7" or "team:3": when it was last
    told}. node: where an action would act. acts: asks where a bound is reached or a
    warning did not reach a job's owner; warned where a job is stopped, at acts_at at the earliest.
    """

    KIND = "alert"
    MOVES = {
        AlertState.PENDING: frozenset({AlertState.FIRING}),
        AlertState.FIRING: frozenset({AlertState.NO_DATA, AlertState.RESOLVED}),
        AlertState.NO_DATA: frozenset({AlertState.FIRING, AlertState.RESOLVED}),
    }

    class Acts(models.TextChoices):
        NONE = "", _("none")
        ASKS = "asks", _("asks")
        WARNED = "warned", _("warned")
        DONE = "done", _("done")
        UNDONE = "undone", _("undone")

    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="alerts")
    subject_id = models.BigIntegerField()
    label = models.CharField(max_length=120)
    state = models.CharField(max_length=8, choices=AlertState.choices, default=AlertState.PENDING)
    reason = models.CharField(max_length=10, blank=True)
    value = models.FloatField(null=True)
    since = models.DateTimeField()
    judged_at = models.DateTimeField()
    counted_ms = models.PositiveBigIntegerField(default=0)
    fired_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    owners = ArrayField(models.BigIntegerField(), default=list)
    teams = ArrayField(models.BigIntegerField(), default=list)
    told = models.JSONField(default=dict)
    told_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=64, blank=True)
    node = models.ForeignKey(Node, null=True, on_delete=models.SET_NULL, related_name="+")
    acts = models.CharField(max_length=6, choices=Acts.choices, blank=True, default="")
    acts_at = models.DateTimeField(null=True)
    acted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject_id"], condition=Q(state__in=OPEN), name="one_open_alert_of_a_subject"
            )
        ]
        indexes = [
            models.Index(fields=["ended_at"], name="ended_alerts", condition=Q(ended_at__isnull=False)),
            models.Index(fields=["acted_at"], name="acted_alerts", condition=Q(acted_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.rule}: {self.label}"

    @property
    def public_id(self) -> str:
        return f"alert-{self.pk}"

    @property
    def team_id(self) -> None:
        """None: alerts are told to those whom the rule names, and are nobody else's."""
        return None

    def told_when(self, receiver: str) -> datetime | None:
        at = self.told.get(receiver)
        return datetime.fromisoformat(at) if at else None


class Silence(OfNoTeam, models.Model):
    """Nothing is told of alerts that match until it ends.

    rule, severity: of any if null or "". label: a pattern of the subject's label, as a shell has them ("n1:*"); "" for
    any. for_all: an admin's is for everybody, anyone else's for themselves.
    """

    KIND = "silence"

    user_id = models.BigIntegerField()
    made_by = models.CharField(max_length=64)
    for_all = models.BooleanField(default=False)
    rule = models.ForeignKey(AlertRule, null=True, on_delete=models.CASCADE, related_name="+")
    severity = models.CharField(max_length=8, choices=Severity.choices, blank=True)
    label = models.CharField(max_length=120, blank=True)
    reason = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now())
    until = models.DateTimeField()

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["until"], name="silences_by_end")]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"silence-{self.pk}"


class ForeignAlert(models.Model):
    """An alert of another system that an Alertmanager brought. user_id: whose token it came with.

    fingerprint: of its labels. ended_at: null while it fires. source: the Alertmanager's address.
    """

    user_id = models.BigIntegerField()
    fingerprint = models.CharField(max_length=64)
    name = models.CharField(max_length=120)
    severity = models.CharField(max_length=40, blank=True)
    labels = models.JSONField()
    annotations = models.JSONField()
    source = models.CharField(max_length=300, blank=True)
    url = models.CharField(max_length=1000, blank=True)
    starts_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user_id", "fingerprint"], name="one_foreign_alert")]

    def __str__(self) -> str:
        return self.name


class AlertRound(models.Model):
    """When the rules were judged last, in one row that is locked meanwhile.

    counts: {rule: [subjects, of which the value was not known]}.
    """

    at = models.DateTimeField(null=True)
    took_ms = models.PositiveIntegerField(default=0)
    counts = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"judged at {self.at}"
