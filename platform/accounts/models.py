"""People, teams, memberships, and credentials."""

from datetime import datetime
from typing import Self

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now
from django.utils.translation import gettext_lazy as _

from common.steady_clock import steady_now
from events.models import OfNoTeam
from events.record_and_publish import Actor, Origin

NAME = RegexValidator(
    r"^[a-z][a-z0-9-]{0,30}[a-z0-9]$|^[a-z]$", _("Use 1 to 32 lower-case letters, digits and hyphens.")
)


class PlatformRole(models.TextChoices):
    NONE = "none", _("None")
    AUDITOR = "auditor", _("Auditor")
    ADMIN = "admin", _("Admin")


class TeamRole(models.TextChoices):
    VIEWER = "viewer", _("Viewer")
    MEMBER = "member", _("Member")
    LEAD = "lead", _("Lead")


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(username__iexact=username)


class User(OfNoTeam, AbstractBaseUser):
    """A person. `uid` owns files and never changes; a suspended person keeps rows and loses access."""

    KIND = "user"
    origin = Origin()
    """Of the request in which this row acts; portal.access.request_origin sets it."""
    acting_token: "ApiToken | None" = None
    """The token by which this row acts, set by authentication; None for the portal's session and the platform."""

    username = models.CharField(_("user name"), max_length=32, unique=True, validators=[NAME])
    full_name = models.CharField(_("full name"), max_length=100, blank=True)
    email = models.EmailField(_("e-mail"), blank=True)
    uid = models.PositiveIntegerField(_("uid"), unique=True, validators=[MinValueValidator(1000)])
    platform_role = models.CharField(
        _("platform role"), max_length=10, choices=PlatformRole.choices, default=PlatformRole.NONE
    )
    suspended_at = models.DateTimeField(_("suspended at"), null=True, blank=True)
    language = models.CharField(_("language"), max_length=10, blank=True)
    time_zone = models.CharField(_("time zone"), max_length=64, blank=True, db_default="")
    theme = models.CharField(_("theme"), max_length=5, default="auto")
    joined_at = models.DateTimeField(_("joined at"), db_default=Now())

    objects = UserManager()
    USERNAME_FIELD = "username"
    EMAIL_FIELD = "email"

    class Meta:
        verbose_name, verbose_name_plural = _("user"), _("users")
        constraints = [models.UniqueConstraint(Lower("username"), name="one_username")]

    def __str__(self) -> str:
        return self.username

    @property
    def is_active(self) -> bool:  # type: ignore[override]
        return self.suspended_at is None

    @property
    def public_id(self) -> str:
        return self.username

    @property
    def as_actor(self) -> Actor:
        """Who did it, for an event."""
        return Actor(self.username, self.pk, self.origin)

    @property
    def is_admin(self) -> bool:
        return self.is_active and self.platform_role == PlatformRole.ADMIN

    @property
    def sees_all(self) -> bool:
        return self.is_active and self.platform_role in {PlatformRole.ADMIN, PlatformRole.AUDITOR}

    # For django.contrib.admin: auditors view, admins change.
    @property
    def is_staff(self) -> bool:
        return self.sees_all

    def has_perm(self, perm: str, obj: object = None) -> bool:
        return self.is_admin or (self.sees_all and perm.partition(".")[2].startswith("view_"))

    def has_module_perms(self, app_label: str) -> bool:
        return self.sees_all


class Team(models.Model):
    """A team owns quota and jobs. `gid` owns its files; a parent's limits hold for its children."""

    KIND = "team"

    name = models.CharField(_("name"), max_length=32, validators=[NAME])
    title = models.CharField(_("title"), max_length=100, blank=True)
    gid = models.PositiveIntegerField(_("gid"), unique=True, validators=[MinValueValidator(1000)])
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children", verbose_name=_("parent")
    )
    members = models.ManyToManyField(User, through="Membership", related_name="teams")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name, verbose_name_plural = _("team"), _("teams")
        constraints = [models.UniqueConstraint(Lower("name"), name="one_team_name")]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def public_id(self) -> str:
        return self.name

    @property
    def team_id(self) -> int:
        return self.pk


class Membership(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(_("role"), max_length=10, choices=TeamRole.choices, default=TeamRole.MEMBER)

    class Meta:
        verbose_name, verbose_name_plural = _("membership"), _("memberships")
        constraints = [models.UniqueConstraint(fields=["user", "team"], name="one_membership")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}: {self.role}"


class OfTeamQuerySet(models.QuerySet):
    """Of what a team has for itself, or everybody has where `team` is none."""

    def visible_to(self, user: User) -> models.QuerySet:
        """Filter to what is for all or of the user's teams; all for admins and auditors."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self if user.sees_all else self.filter(Q(team__isnull=True) | Q(team__memberships__user=user))

    def of_team(self, team_id: int | None) -> models.QuerySet:
        """Filter to what a team may use, its own first."""
        return self.filter(Q(team__isnull=True) | Q(team=team_id)).order_by(F("team").asc(nulls_last=True), "pk")


class CredentialQuerySet(models.QuerySet):
    def live(self) -> Self:
        """Filter to unexpired credentials of active people."""
        in_time = models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=steady_now())
        return self.filter(in_time, user__suspended_at__isnull=True)


class Credential(models.Model):
    """A credential by which a program acts for a person."""

    name = models.CharField(_("name"), max_length=64)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
        ordering = ["-created_at"]

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= steady_now()


class ApiTokenQuerySet(CredentialQuerySet):
    def live(self) -> Self:
        return super().live().filter(revoked_at__isnull=True)


class ApiToken(Credential):
    """An API token: shown once, stored as a digest, limited by scopes.

    made_by: the token that asked for it. held_by: the job whose tasks have it, such as job-412; else a person has it.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=32), default=list)
    revoked_at = models.DateTimeField(null=True)
    made_by = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="+")
    held_by = models.CharField(max_length=32, blank=True, default="", db_default="")

    objects = ApiTokenQuerySet.as_manager()

    class Meta(Credential.Meta):
        verbose_name, verbose_name_plural = _("API token"), _("API tokens")
        indexes = [
            models.Index(
                fields=["held_by"], name="live_held_tokens", condition=~models.Q(held_by="") & models.Q(revoked_at=None)
            )
        ]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"

    @property
    def is_live(self) -> bool:
        return self.revoked_at is None and not self.is_expired


class SshKey(Credential):
    """A public SSH key. blob: base64. fingerprint: "SHA256:...", as `ssh-keygen -l` prints it.

    made_by: the token that added it and whose end ends it; None if a person did.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="ssh_keys")
    kind = models.CharField(max_length=64)
    blob = models.TextField(unique=True)
    fingerprint = models.CharField(max_length=64, unique=True)
    made_by = models.ForeignKey(ApiToken, null=True, on_delete=models.CASCADE, related_name="ssh_keys")

    objects = CredentialQuerySet.as_manager()

    class Meta(Credential.Meta):
        verbose_name, verbose_name_plural = _("SSH key"), _("SSH keys")

    def __str__(self) -> str:
        return f"{self.name} ({self.fingerprint})"


class LoginLinkQuerySet(models.QuerySet["LoginLink"]):
    def live(self) -> Self:
        """Filter to links that still work."""
        return self.filter(used_at__isnull=True, expires_at__gt=steady_now())


class LoginLink(models.Model):
    """A one-time link: it signs `user` in, or invites a new person into `team`."""

    digest = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="+")
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=10, choices=TeamRole.choices, default=TeamRole.MEMBER)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    objects = LoginLinkQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("one-time link"), _("one-time links")

    def __str__(self) -> str:
        return f"link for {self.user or self.team}"


class GuessCount(models.Model):
    """How often a secret was tried in one window of time. key: a digest of what, whose and when."""

    key = models.CharField(max_length=64, primary_key=True)
    used = models.PositiveIntegerField()
    ends_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key


class AnnouncementQuerySet(models.QuerySet["Announcement"]):
    def not_over(self, now: datetime) -> Self:
        return self.filter(models.Q(ends_at__isnull=True) | models.Q(ends_at__gt=now))


class Announcement(models.Model):
    """A sentence at the top of each page, for everybody or one team, from `begins_at` until `ends_at` or its end."""

    class Tone(models.TextChoices):
        PLAIN = "plain", _("Information")
        IDLE = "idle", _("Warning")

    KIND = "announcement"
    HISTORY = ("text", "tone", "team_name", "begins", "ends")

    text = models.CharField(_("text"), max_length=300)
    tone = models.CharField(_("tone"), max_length=10, choices=Tone.choices, default=Tone.PLAIN)
    team = models.ForeignKey(
        Team, null=True, blank=True, on_delete=models.CASCADE, related_name="+", verbose_name=_("team")
    )
    begins_at = models.DateTimeField(_("from"))
    ends_at = models.DateTimeField(_("until"), null=True, blank=True, db_index=True)
    made_by = models.CharField(max_length=32)

    objects = AnnouncementQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("announcement"), _("announcements")
        ordering = ["-begins_at", "-pk"]

    def __str__(self) -> str:
        return self.text

    @property
    def public_id(self) -> str:
        return self.text[:80]

    @property
    def team_name(self) -> str:
        return self.team.name if self.team else ""

    @property
    def begins(self) -> str:
        return self.begins_at.isoformat()

    @property
    def ends(self) -> str:
        return self.ends_at.isoformat() if self.ends_at else ""
