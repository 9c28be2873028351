"""The catalogue of images, their fetches to nodes, and registry logins."""

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import OfTeamQuerySet, Team
from cluster.models import Node
from runtimes.images.names import is_bad_image, is_bad_registry, read_image

ALIAS = RegexValidator(
    r"^[a-z0-9][a-z0-9._-]{0,62}\Z", _("Use lower-case letters, digits, dots, hyphens and underscores.")
)
PROBLEMS = {
    "image": _("“%(got)s” is not a valid image name. Write it like registry/name:tag."),
    "registry": _("“%(got)s” is not a valid registry. Write its host, and its port if it is not the default one."),
}


def check_reference(text: str) -> None:
    if is_bad_image(text):
        raise ValidationError(PROBLEMS["image"] % {"got": text[:60]})


def check_registry(text: str) -> None:
    if is_bad_registry(text):
        raise ValidationError(PROBLEMS["registry"] % {"got": text[:60]})


class Image(models.Model):
    """An image of the catalogue. digest: of the last lookup. problem: why the newest failed."""

    KIND = "image"
    FIELDS = ("alias", "reference", "description", "prepull")

    alias = models.CharField(
        _("alias"), max_length=63, validators=[ALIAS], help_text=_("The name people use, such as pytorch.")
    )
    reference = models.CharField(
        _("image"), max_length=400, validators=[check_reference], help_text=_("Like registry/name:tag.")
    )
    description = models.CharField(_("description"), max_length=200, blank=True)
    team = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="images",
        verbose_name=_("team"),
        help_text=_("Only for this team. Empty: for everyone."),
    )
    prepull = models.BooleanField(
        _("pull in advance"),
        default=False,
        help_text=_("Machines pull it, a few at a time, before a job needs it."),
    )
    digest = models.CharField(max_length=71, blank=True, editable=False)
    problem = models.CharField(max_length=20, blank=True, editable=False)
    problem_words = models.CharField(max_length=200, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("image"), _("images")
        constraints = [
            models.UniqueConstraint(fields=["alias"], condition=Q(team__isnull=True), name="one_alias_for_all"),
            models.UniqueConstraint(fields=["alias", "team"], name="one_alias_of_a_team"),
        ]
        ordering = ["alias", "pk"]

    def __str__(self) -> str:
        return self.alias

    @property
    def public_id(self) -> str:
        return self.alias

    @property
    def pinned(self) -> str:
        image = read_image(self.reference)
        return image.at(image.digest or self.digest)


class Fetch(models.Model):
    """The newest attempt to fetch an image to a node ahead of jobs. words: the error."""

    image = models.ForeignKey(Image, null=True, on_delete=models.SET_NULL, related_name="fetches")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    uuid = models.UUIDField(unique=True)
    pinned = models.CharField(max_length=600)
    began_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    words = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["image", "node"], name="one_fetch")]

    def __str__(self) -> str:
        return f"{self.pinned} to {self.node}"


class Login(models.Model):
    """A login at a registry. The password is sealed and never shown."""

    KIND = "login"

    registry = models.CharField(
        _("registry"), max_length=255, validators=[check_registry], help_text=_("The host, such as registry.corp:5000.")
    )
    user = models.CharField(_("user"), max_length=200)
    sealed = models.TextField(editable=False)
    team = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="logins",
        verbose_name=_("team"),
        help_text=_("Used only for this team's jobs. Empty: for everyone's."),
    )
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("registry login"), _("registry logins")
        constraints = [
            models.UniqueConstraint(fields=["registry"], condition=Q(team__isnull=True), name="one_login_for_all"),
            models.UniqueConstraint(fields=["registry", "team"], name="one_login_of_a_team"),
        ]
        ordering = ["registry", "pk"]

    def __str__(self) -> str:
        return f"{self.user} at {self.registry}"

    @property
    def public_id(self) -> str:
        return self.registry[:80]
