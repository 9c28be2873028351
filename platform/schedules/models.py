"""Schedules, which submit a job or start a notebook at the times of a cron line, and their runs."""

from django.db import models
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import Team, User
from common.text import MAX_NAME
from jobs.models import Job
from notebooks.models import Notebook


class Overlap(models.TextChoices):
    """What a run does while the job of an earlier one is open."""

    SKIP = "skip", _("leave this run out")
    QUEUE = "queue", _("run after it")
    REPLACE = "replace", _("stop it, and run instead")


class Missed(models.TextChoices):
    """What is done for times at which the platform was down."""

    RUN_ONCE = "run_once", _("run once when it is back")
    SKIP = "skip", _("leave them out")


class SuspendedWhy(models.TextChoices):
    BY_HAND = "by_hand"
    REFUSED = "refused"


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def visible_to(self, user: User) -> "ScheduleQuerySet":
        """Filter to those of the user's teams, as jobs are seen; all for admins and auditors."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self if user.sees_all else self.filter(team__memberships__user=user)

    def with_names(self) -> "ScheduleQuerySet":
        return self.select_related("user", "team", "notebook")

    def with_last_run(self) -> "ScheduleQuerySet":
        """Add last_tick_at, last_outcome and last_job_id of the newest run, null where there is none."""
        newest = ScheduledRun.objects.filter(schedule=OuterRef("pk")).order_by("-tick_at")
        columns = {"last_tick_at": "tick_at", "last_outcome": "outcome", "last_job_id": "job"}
        return self.annotate(**{name: Subquery(newest.values(column)[:1]) for name, column in columns.items()})


class Schedule(models.Model):
    """A job file that is submitted for its owner at the times of a cron line, or a notebook that is started.

    job_file: "" where it starts a notebook. stop_at: when that stops again, by the clock of `zone`; null: as its own
    settings say. cron: five fields, by the same clock. until: no run after it. keep: how many ended runs are kept.
    refusals: how many runs in a row were refused. next_at: null while suspended, and once no time is left.
    """

    KIND = "schedule"

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="schedules")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="schedules")
    name = models.CharField(max_length=MAX_NAME)
    job_file = models.TextField(blank=True)
    notebook = models.ForeignKey(Notebook, null=True, on_delete=models.PROTECT, related_name="schedules")
    stop_at = models.TimeField(null=True)
    cron = models.CharField(max_length=100)
    zone = models.CharField(max_length=64)
    overlap = models.CharField(max_length=8, choices=Overlap.choices, default=Overlap.SKIP)
    missed = models.CharField(max_length=8, choices=Missed.choices, default=Missed.RUN_ONCE)
    until = models.DateTimeField(null=True)
    keep = models.PositiveSmallIntegerField(default=20)
    suspended_at = models.DateTimeField(null=True)
    suspended_why = models.CharField(max_length=8, choices=SuspendedWhy.choices, blank=True)
    refusals = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("schedule"), _("schedules")
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="one_schedule_name_per_owner")]
        indexes = [
            models.Index(fields=["next_at"], name="due_schedules", condition=Q(next_at__isnull=False)),
            models.Index(fields=["team", "-id"], name="schedules_of_team"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"sch-{self.pk}"

    @property
    def state(self) -> str:
        """active, suspended, or ended: no time of it is left."""
        if self.suspended_at is not None:
            return "suspended"
        return "ended" if self.next_at is None else "active"


class Outcome(models.TextChoices):
    DUE = "due"
    SUBMITTED = "submitted"
    SKIPPED = "skipped"
    REFUSED = "refused"


class ScheduledRun(models.Model):
    """One time of a schedule, and what came of it.

    tick_at: the time of the cron line, or when it was asked for by hand (asked_by). missed_since: the first of the
    times before it that were missed. due_at: next try, null when done. why: {"code", "params", "errors"} of what was
    refused or left out.
    """

    KIND = "scheduled_run"

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="runs")
    tick_at = models.DateTimeField()
    missed_since = models.DateTimeField(null=True)
    asked_by = models.CharField(max_length=64, blank=True)
    due_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.DUE)
    job = models.OneToOneField(Job, null=True, on_delete=models.SET_NULL, related_name="scheduled_run")
    why = models.JSONField(null=True)
    made_at = models.DateTimeField()

    class Meta:
        verbose_name, verbose_name_plural = _("scheduled run"), _("scheduled runs")
        ordering = ["-tick_at"]
        constraints = [models.UniqueConstraint(fields=["schedule", "tick_at"], name="one_run_per_tick")]
        indexes = [models.Index(fields=["due_at"], name="due_scheduled_runs", condition=Q(due_at__isnull=False))]

    def __str__(self) -> str:
        return f"{self.schedule} at {self.tick_at:%Y-%m-%d %H:%M}"
