"""What is held and idle: the rules of pools, how far each job is on its ladder, who was told, and who is exempt."""

from datetime import datetime

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from cluster.models import Pool
from events.models import OfNoTeam
from jobs.models import Job, JobKind
from monitoring.idle.clock import Clock
from monitoring.idle.rungs import Rung, Then
from notebooks.models import Notebook

MINUTES = [MinValueValidator(5), MaxValueValidator(24 * 60)]


class IdleRule(OfNoTeam, models.Model):
    """After how many idle minutes what happens, for jobs of one kind in a pool. Empty minutes: no such rung.

    pool: None for all pools that have no rule of their own. changed_at: what runs then begins its ladder anew.
    """

    KIND = "idle_rule"
    KINDS = (JobKind.INTERACTIVE, JobKind.BATCH)
    FIELDS = ("note_min", "remind_min", "warn_min", "act_min", "then")

    pool = models.ForeignKey(
        Pool, null=True, blank=True, on_delete=models.CASCADE, related_name="idle_rules", verbose_name=_("pool")
    )
    kind = models.CharField(
        _("kind"), max_length=12, choices=[(kind.value, kind.label) for kind in KINDS], default=JobKind.INTERACTIVE
    )
    note_min = models.PositiveSmallIntegerField(_("notice after minutes"), default=30, validators=MINUTES)
    remind_min = models.PositiveSmallIntegerField(
        _("reminder after minutes"),
        null=True,
        blank=True,
        validators=MINUTES,
        help_text=_("Of a job, to the leads, too."),
    )
    warn_min = models.PositiveSmallIntegerField(_("warning after minutes"), null=True, blank=True, validators=MINUTES)
    act_min = models.PositiveSmallIntegerField(_("act after minutes"), null=True, blank=True, validators=MINUTES)
    then = models.CharField(_("act"), max_length=11, choices=Then.choices, default=Then.TELL)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name, verbose_name_plural = _("idle rule"), _("idle rules")
        constraints = [
            models.UniqueConstraint(fields=["pool", "kind"], name="one_idle_rule", nulls_distinct=False),
        ]
        ordering = ["pool__name", "kind"]

    def __str__(self) -> str:
        return f"{self.pool.name if self.pool else '*'} {self.kind}"

    @property
    def public_id(self) -> str:
        return f"{self.pool.name if self.pool else 'all'}:{self.kind}"


class IdleWatch(models.Model):
    """How long a job's newest attempt has been idle, and how far it is on the ladder.

    since: from when on nothing worked, None while something does; stood_s: for how long nothing was known since.
    finding: of the last look (idle, busy, unknown), with its signal or reason and its figures. ladder: counts the
    ladders of this job. hold: why no rung is taken. plan: [[rung, when it would be taken]]. terms: [[task id, term of
    its machine's sampler]]. wish: what its notebook is to be started on once it has ended, "cpu" or "gpu"; next_job:
    that start. returned_milli: of cards, from acted_at to returned_until. regretted: it was wanted back at once.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="idle")
    attempt = models.PositiveSmallIntegerField(default=1)
    finding = models.CharField(max_length=8, blank=True)
    detail = models.CharField(max_length=20, blank=True)
    evidence = models.JSONField(default=dict)
    since = models.DateTimeField(null=True)
    stood_s = models.FloatField(default=0)
    looked_at = models.DateTimeField(null=True)
    ladder = models.PositiveIntegerField(default=1)
    rung = models.PositiveSmallIntegerField(choices=Rung.choices, default=Rung.NONE)
    rung_at = models.DateTimeField(null=True)
    hold = models.CharField(max_length=12, blank=True)
    plan = models.JSONField(default=list)
    then = models.CharField(max_length=11, choices=Then.choices, blank=True)
    snoozed_until = models.DateTimeField(null=True)
    terms = models.JSONField(default=list)
    restarted_at = models.DateTimeField(null=True)
    kernels_asked_at = models.DateTimeField(null=True)
    kernels_busy = models.BooleanField(default=False)
    kernels_active_at = models.DateTimeField(null=True)
    acted_at = models.DateTimeField(null=True)
    notebook = models.ForeignKey(Notebook, null=True, on_delete=models.SET_NULL, related_name="+")
    wish = models.CharField(max_length=3, blank=True)
    next_job = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="+")
    returned_milli = models.PositiveIntegerField(default=0)
    returned_until = models.DateTimeField(null=True)
    regretted = models.BooleanField(default=False)

    class Meta:
        verbose_name, verbose_name_plural = _("idle job"), _("idle jobs")
        indexes = [
            models.Index(fields=["since"], name="idle_now", condition=Q(since__isnull=False)),
            models.Index(fields=["acted_at"], name="idle_acts", condition=Q(acted_at__isnull=False)),
            models.Index(fields=["wish"], name="idle_wishes", condition=~Q(wish="")),
        ]

    def __str__(self) -> str:
        return f"{self.job}: {self.get_rung_display()}"

    @property
    def clock(self) -> Clock:
        return Clock(self.since, self.stood_s, self.looked_at)

    @clock.setter
    def clock(self, clock: Clock) -> None:
        self.since, self.stood_s, self.looked_at = clock.since, clock.stood_s, clock.looked_at

    @property
    def times(self) -> dict[Rung, datetime]:
        """When each rung that is left would be taken, if nothing changes."""
        return {Rung(rung): datetime.fromisoformat(at) for rung, at in self.plan}


class IdleTold(models.Model):
    """That a person was told of one rung. notice_id: None where they want none of this kind; shown_at: on a page."""

    watch = models.ForeignKey(IdleWatch, on_delete=models.CASCADE, related_name="told")
    ladder = models.PositiveIntegerField()
    rung = models.PositiveSmallIntegerField(choices=Rung.choices)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    instead = models.BooleanField(default=False, help_text="a lead in place of an owner who could not be reached")
    notice_id = models.BigIntegerField(null=True)
    at = models.DateTimeField(db_default=Now())
    shown_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["watch", "ladder", "rung", "user"], name="told_once")]
        indexes = [models.Index(fields=["user"], name="idle_not_shown", condition=Q(shown_at__isnull=True))]

    def __str__(self) -> str:
        return f"{self.watch_id} {self.rung}: {self.user}"


class IdleSnooze(models.Model):
    """That somebody asked for more time."""

    watch = models.ForeignKey(IdleWatch, on_delete=models.CASCADE, related_name="snoozes")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(db_default=Now())
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.watch_id} until {self.until}"


class Exemption(models.Model):
    """What no rule acts on for a while: a job, or a notebook with all its starts."""

    KIND = "exemption"

    job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="exemptions")
    notebook = models.ForeignKey(Notebook, null=True, on_delete=models.CASCADE, related_name="exemptions")
    reason = models.CharField(max_length=200)
    by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    made_at = models.DateTimeField(db_default=Now())
    until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(job__isnull=True, notebook__isnull=False) | Q(job__isnull=False, notebook__isnull=True),
                name="exempts_one_thing",
            )
        ]

    def __str__(self) -> str:
        return f"{self.job or self.notebook} until {self.until}"


class IdleTouch(models.Model):
    """That somebody was at work in a job in this minute, by a page, a terminal or SSH. Kept for a week."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "at"], name="one_touch_a_minute")]

    def __str__(self) -> str:
        return f"{self.job_id} at {self.at}"
