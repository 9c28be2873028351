"""Measured usage of file areas, and uploads."""

from datetime import timedelta

from django.db import models
from django.db.models.functions import Now

from accounts.models import Team, User

KEPT = timedelta(hours=24)
"""How long an unfinished upload waits for its next piece."""


class PlaceUsage(models.Model):
    """What a file area (runtimes.storage.areas.Place) held when last measured. whole: everything was counted."""

    kind = models.CharField(max_length=4)
    number = models.PositiveIntegerField()
    bytes = models.PositiveBigIntegerField(default=0)
    files = models.PositiveBigIntegerField(default=0)
    whole = models.BooleanField(default=True)
    measured_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "number"], name="one_usage_of_a_place")]

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


class Upload(models.Model):
    """A file being sent in pieces, into a hidden file of `folder` named by the uuid.

    team: None for the home. counted: bytes of `sent` in the last measurement. Finished ones stay until then.
    """

    uuid = models.UUIDField(unique=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="uploads")
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="+")
    folder = models.TextField(blank=True)
    name = models.TextField()
    size = models.PositiveBigIntegerField()
    replace = models.BooleanField(default=False)
    sent = models.PositiveBigIntegerField(default=0)
    counted = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())
    touched_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.uuid.hex

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def area_name(self) -> str:
        """The name of its file area."""
        return f"team:{self.team.name}" if self.team else "home"
