"""Registry logins: stored sealed, passed to the runtime, never shown."""

import logging

from django.db import IntegrityError, models, transaction
from django.db.models.functions import Now

from accounts.models import Membership, TeamRole, User
from accounts.permissions import require
from common.errors import FieldError, InvalidInput, NameTaken, NotFound
from common.locks import lock_rows
from common.secrets import Unreadable, seal_secret, unseal_secret
from events.record_and_publish import record
from images.models import Login
from runtimes.images.names import RegistryLogin

log = logging.getLogger("tessera.images")

USE = "login at a registry"
MOST_PASSWORD = 4096
"""Cloud registries issue tokens of 2000 characters as passwords."""


def logins_seen_by(user: User) -> models.QuerySet[Login]:
    """Return the logins of teams that the user leads; all for admins and auditors."""
    rows = Login.objects.select_related("team")
    if user.sees_all:
        return rows
    return rows.filter(team__in=Membership.objects.filter(user=user, role=TeamRole.LEAD).values("team"))


def find_login(user: User, pk: int) -> Login:
    login = logins_seen_by(user).filter(pk=pk).first()
    if login is None:
        raise NotFound(kind="login", id=pk)
    return login


@transaction.atomic
def save_login(*, actor: User, login: Login, password: str) -> Login:
    """Save a validated login. An empty password keeps the old one."""
    require(actor, "registry.change", login.team)
    is_new = not lock_rows(Login.objects.filter(pk=login.pk))
    if not password and not login.sealed:
        raise InvalidInput([FieldError("/password", "required")])
    if len(password) > MOST_PASSWORD:
        raise InvalidInput([FieldError("/password", "too_long", {"max": MOST_PASSWORD, "got": len(password)})])
    if password:
        login.sealed = seal_secret(password, USE)
    try:
        with transaction.atomic():
            login.save()
    except IntegrityError:
        raise NameTaken(name=login.registry) from None
    Login.objects.filter(pk=login.pk).update(changed_at=Now())
    login.refresh_from_db()
    record(login, "made" if is_new else "changed", actor=actor.as_actor, params={"user": login.user})
    return login


@transaction.atomic
def delete_login(*, actor: User, login: Login) -> None:
    require(actor, "registry.change", login.team)
    lock_rows(Login.objects.filter(pk=login.pk))
    record(login, "deleted", actor=actor.as_actor, params={"user": login.user})
    login.delete()


def load_logins(team_id: int | None) -> tuple[RegistryLogin, ...]:
    """Return one login per registry, the team's before that for all; unreadable ones are skipped."""
    found: dict[str, RegistryLogin] = {}
    for row in Login.objects.of_team(team_id):
        if row.registry not in found and (login := _open(row)):
            found[row.registry] = login
    return tuple(found[registry] for registry in sorted(found))


def find_registry_login(registry: str, team_id: int | None) -> RegistryLogin | None:
    rows = Login.objects.of_team(team_id).filter(registry=registry)
    return next((login for row in rows if (login := _open(row))), None)


def _open(row: Login) -> RegistryLogin | None:
    try:
        return RegistryLogin(row.registry, row.user, unseal_secret(row.sealed, USE))
    except Unreadable:
        log.error("the password of %s was sealed under another SECRET_KEY: give it anew", row)
        return None
