"""Set, list and delete secrets. A value goes in and is given to tasks; no function returns it to people."""

from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from accounts.models import Team, User
from accounts.permissions import require, teams_where
from common.errors import FieldError, InvalidInput, NotFound, QuotaExceeded
from common.locks import lock_rows
from common.secrets import seal_secret, unseal_secret
from events.record_and_publish import record
from secret_store.models import Secret
from secret_store.names import check_secret_name

USE = "secret of jobs"
MOST_SECRETS = 100
"""Of a person, and of a team."""
MOST_BYTES = 64 << 10


def list_secrets(user: User) -> models.QuerySet[Secret]:
    """Return the user's own secrets, and those of teams whose jobs they may submit."""
    of_teams = Q(team__in=teams_where(user, "secret.use").order_by().values("pk"))
    return Secret.objects.filter(Q(user=user) | of_teams).select_related("team").defer("sealed")


def get_secret(user: User, pk: int) -> Secret:
    """Return one of `list_secrets`. Raises NotFound."""
    found = list_secrets(user).filter(pk=pk).first()
    if found is None:
        raise NotFound(kind="secret", id=pk)
    return found


@transaction.atomic
def set_secret(*, actor: User, name: str, value: str, team: Team | None = None) -> Secret:
    """Store a new secret, or a new value of one, which tasks get that start from now on. team: None for one's own.

    Raises NotPermitted, InvalidInput, QuotaExceeded.
    """
    if team is not None:
        require(actor, "secret.change", team)
    check_secret_name(name, "/name")
    _check_value(value)
    owner = Team.objects.filter(pk=team.pk) if team else User.objects.filter(pk=actor.pk)
    lock_rows(owner)  # so that two new ones are counted one after the other
    own = Secret.objects.filter(team=team) if team else Secret.objects.filter(user=actor)
    secret = own.filter(name=name).first()
    if secret is None:
        if (used := own.count()) >= MOST_SECRETS:
            raise QuotaExceeded(what="secrets", used=used, limit=MOST_SECRETS)
        secret = Secret(name=name, team=team, user=None if team else actor, version=0)
    secret.version += 1
    secret.sealed, secret.changed_by = seal_secret(value, USE), actor.username
    secret.save()
    Secret.objects.filter(pk=secret.pk).update(changed_at=Now())
    _record(secret, "set", actor, version=secret.version)
    secret.refresh_from_db()
    return secret


@transaction.atomic
def remove_secret(*, actor: User, secret: Secret) -> None:
    """Delete a secret, whoever names it: jobs ask `jobs.used_secrets` first. Raises NotPermitted."""
    if secret.team is not None:
        require(actor, "secret.change", secret.team)
    lock_rows(Secret.objects.filter(pk=secret.pk))
    _record(secret, "deleted", actor)
    secret.delete()


def open_secret(secret: Secret) -> str:
    """Return the value, for a task. Raises Unreadable."""
    return unseal_secret(secret.sealed, USE)


def _check_value(value: str) -> None:
    if not value:
        raise InvalidInput([FieldError("/value", "required")])
    if "\0" in value:
        raise InvalidInput([FieldError("/value", "secret_has_nul")])
    if half := next((letter for letter in value if "\ud800" <= letter <= "\udfff"), ""):
        raise InvalidInput([FieldError("/value", "bad_characters", {"character": f"U+{ord(half):04X}"})])
    if (size := len(value.encode())) > MOST_BYTES:
        raise InvalidInput([FieldError("/value", "secret_too_large", {"max": MOST_BYTES, "got": size})])


def _record(secret: Secret, verb: str, actor: User, **params: object) -> None:
    of = {"team": secret.team.name} if secret.team else {}
    record(secret, verb, actor=actor.as_actor, params={"name": secret.name, **of, **params})
