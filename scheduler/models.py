"""Leases of the loops, forecasts, and what was learned of past jobs."""

from django.db import models

from jobs.models import Job


class Lease(models.Model):
    """A loop's leader. Each new one raises the epoch."""

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=100, blank=True)
    epoch = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField(null=True)
    wanted = models.BooleanField(default=False)
    last_ok_at = models.DateTimeField(null=True)
    last_ms = models.PositiveIntegerField(null=True)
    clock_jump_s = models.IntegerField(default=0, db_default=0, help_text="a step of a clock that is not believed yet")

    def __str__(self) -> str:
        return f"{self.name} epoch {self.epoch}"


class Forecast(models.Model):
    """When an attempt was expected to start (null: beyond the simulated future) and when it did.

    first_*: the first forecast, which is measured; first_p50 is null of those from before it was kept. raw_*: the same
    before calibration.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    attempt = models.PositiveSmallIntegerField()
    made_at = models.DateTimeField()
    first_p10 = models.DateTimeField(null=True)
    first_p50 = models.DateTimeField(null=True)
    first_p90 = models.DateTimeField(null=True)
    raw_p10 = models.DateTimeField(null=True)
    raw_p90 = models.DateTimeField(null=True)
    told_at = models.DateTimeField()
    p10 = models.DateTimeField(null=True)
    p50 = models.DateTimeField(null=True)
    p90 = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt"], name="one_forecast")]
        indexes = [models.Index(fields=["started_at"], name="forecasts_by_start")]

    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt} at about {self.p50}"


class LearnedLengths(models.Model):
    """How long jobs run, learned from those that ended: one row.

    model: from scheduler.core.prediction. newest: id of the newest job that it knows; ended: how many had ended.
    """

    learned_at = models.DateTimeField()
    newest = models.BigIntegerField()
    ended = models.PositiveIntegerField()
    model = models.JSONField()

    def __str__(self) -> str:
        return f"lengths of {self.ended} jobs"
