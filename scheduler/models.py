"""What the scheduler itself keeps: who leads, and what it foretold."""

from django.db import models

from jobs.models import Job


class Lease(models.Model):
    """One row for each loop; its epoch rises with each new leader, and the database refuses an old one."""

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=100, blank=True)
    epoch = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField(null=True)
    wanted = models.BooleanField(default=False)
    last_ok_at = models.DateTimeField(null=True)
    last_ms = models.PositiveIntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.name} epoch {self.epoch}"


class Forecast(models.Model):
    """When one attempt of a job was expected to start. first_*: as it was first told, by which we are measured; raw_*:
    what the futures gave for that, before it was calibrated.

    Null: later than what was looked at. started_at: when it did.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    attempt = models.PositiveSmallIntegerField()
    made_at = models.DateTimeField()
    first_p10 = models.DateTimeField(null=True)
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
