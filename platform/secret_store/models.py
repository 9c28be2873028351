"""Secrets of people and teams, which their jobs are given and nobody reads again."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from accounts.models import Team, User
from secret_store.names import MOST_NAME


class Secret(models.Model):
    """A named value of a person or of a team.

    sealed: the newest value; older ones are not kept. version: counts its values. used_at, used_by: when it was last
    given to a task, and the number of its job.
    """

    KIND = "secret"

    name = models.CharField(max_length=MOST_NAME)
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="secrets")
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="secrets")
    sealed = models.TextField()
    version = models.PositiveIntegerField(default=1)
    changed_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    used_at = models.DateTimeField(null=True)
    used_by = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.CheckConstraint(condition=Q(user__isnull=True) ^ Q(team__isnull=True), name="secret_of_one_owner"),
            models.UniqueConstraint(fields=["user", "name"], name="one_secret_of_a_person"),
            models.UniqueConstraint(fields=["team", "name"], name="one_secret_of_a_team"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return self.name[:80]

    @property
    def used_by_id(self) -> str | None:
        """The job's public id."""
        return f"job-{self.used_by}" if self.used_by else None
