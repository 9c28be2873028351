"""Templates of jobs, and their versions, which never change."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from accounts.models import Team, User

PREFIX = "tpl-"


class JobTemplateQuerySet(models.QuerySet["JobTemplate"]):
    def visible_to(self, user: User) -> "JobTemplateQuerySet":
        """Filter to everybody's templates and those of the user's teams; all for admins and auditors."""
        if not user.is_active:
            return self.none()
        return self if user.sees_all else self.of(user)

    def of(self, user: User) -> "JobTemplateQuerySet":
        """Filter to everybody's templates and those of the user's teams."""
        return self.filter(Q(team=None) | Q(team__memberships__user=user))

    def in_use(self) -> "JobTemplateQuerySet":
        return self.filter(archived_at=None)


class JobTemplate(models.Model):
    """A template of a team, or of everybody where team is null. description, version: of its newest version."""

    KIND = "template"

    name = models.CharField(max_length=64)
    description = models.CharField(max_length=500, blank=True)
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now())
    archived_at = models.DateTimeField(null=True)

    objects = JobTemplateQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"], name="template_of_team", condition=Q(archived_at=None, team__isnull=False)
            ),
            models.UniqueConstraint(
                fields=["name"], name="template_of_everybody", condition=Q(archived_at=None, team=None)
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"{PREFIX}{self.pk}"


class JobTemplateVersion(models.Model):
    """A template's text as it was saved once."""

    template = models.ForeignKey(JobTemplate, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    file = models.TextField()
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["template", "number"], name="version_of_template")]

    def __str__(self) -> str:
        return f"{self.template_id}@{self.number}"
