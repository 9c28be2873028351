"""Measured usage of file areas, and uploads."""

from datetime import timedelta

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import OfTeamQuerySet, Team, User
from files.volume_names import VOLUME_NAME

KEPT = timedelta(hours=24)
"""How long an unfinished upload waits for its next piece."""


NAMED = RegexValidator(rf"^{VOLUME_NAME}\Z", _("Use lower-case letters, digits and hyphens, up to 40 characters."))


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


class Volume(models.Model):
    """Storage that the site has already, which an administrator gives jobs a name for: `volume:imagenet`.

    source: a folder that is the same on every machine; on a cluster, a PersistentVolumeClaim of each team's namespace.
    """

    KIND = "volume"
    FIELDS = ("name", "source", "read_only", "description")

    name = models.CharField(_("name"), max_length=40, validators=[NAMED], help_text=_("Such as imagenet."))
    source = models.CharField(_("source"), max_length=1000)
    read_only = models.BooleanField(
        _("read-only"), default=True, help_text=_("Jobs cannot write to it, whatever its files allow.")
    )
    description = models.CharField(_("description"), max_length=200, blank=True)
    team = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name=_("team"),
        help_text=_("Only for this team. Empty: for everyone."),
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["name"], condition=Q(team__isnull=True), name="one_volume_for_all"),
            models.UniqueConstraint(fields=["name", "team"], name="one_volume_of_a_team"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def public_id(self) -> str:
        return self.name
