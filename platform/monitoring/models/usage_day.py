"""Sums of days (UTC) of what was held and used: of holdings that have been over for a while, which never change."""

from django.db import models

from accounts.models import Team, User
from cluster.models import Pool

SUMS = ("held", "active", "idle", "unknown", "busy", "begun", "carried")


class UsageDay(models.Model):
    """Thousandths of cards times milliseconds, as in monitoring.usage.report.Sums.

    begun, carried: tasks that began to hold cards on this day, and those that held some as it began; a task counts with
    the model of one of its cards.
    """

    day = models.DateField()
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    model = models.CharField(max_length=64)
    simulated = models.BooleanField()
    held = models.BigIntegerField()
    active = models.BigIntegerField()
    idle = models.BigIntegerField()
    unknown = models.BigIntegerField()
    busy = models.BigIntegerField()
    begun = models.IntegerField()
    carried = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["day", "team", "user", "pool", "model", "simulated"], name="one_sum_of_a_day"
            )
        ]

    def __str__(self) -> str:
        return f"{self.team} {self.user} on {self.day}"


class UsageSettled(models.Model):
    """One row: holdings that were released before settled_to are in UsageDay, and no others."""

    settled_to = models.DateTimeField()

    def __str__(self) -> str:
        return f"up to {self.settled_to}"
