"""Accounts, teams, tokens and one-time links, whoever asks; accounts.directory is what admins do."""

import os
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import connection, models, transaction
from django.db.models import Max
from django.db.models.functions import Now
from django.utils import timezone

from accounts.credentials import find_scope_errors, lock_credentials, revoke_tokens
from accounts.models import ApiToken, Credential, LoginLink, Membership, PlatformRole, SshKey, Team, TeamRole, User
from accounts.ssh_keys import remove_ssh_keys
from common.errors import FieldError, InvalidInput, NameTaken, NotFound, NotSignedIn
from common.secrets import digest_secret
from common.steady_clock import steady_now
from events.record_and_publish import record
from runtimes.storage.areas import AreaId, get_area_path

TOKEN_DAYS = 90
TOKEN_DAYS_MAX = 366
# Accounts of Debian's and Red Hat's base system and of usual services, names for whoever runs a machine, and names by
# which the platform signs its own events and processes. A task's account in /etc/passwd bears its owner's name.
RESERVED_USERNAMES = {
    "root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data",
    "backup", "list", "irc", "gnats", "nobody", "nogroup", "adm", "shutdown", "halt", "operator", "ftp", "messagebus",
    "polkitd", "sshd", "postgres", "redis", "valkey", "avahi", "ntp", "chrony", "tss", "docker", "containerd",
    "kubelet", "administrator", "superuser", "sysadmin", "sudo", "toor", "wheel", "staff", "agent", "platform",
    "restore", "runtime", "scheduler", "sender", "system", "tessera", "worker",
}  # fmt: skip
RESERVED_PREFIX = "systemd-"
AREAS: dict[str, Literal["home", "team"]] = {"uid": "home", "gid": "team"}
LINK_LIFETIME = timedelta(hours=24)
INVITATION_LIFETIME = timedelta(days=7)
NOTED_EVERY = timedelta(minutes=1)


@transaction.atomic
def create_user(
    *,
    username: str,
    password: str | None = None,
    platform_role: str = PlatformRole.NONE,
    uid: int | None = None,
    **names: str,
) -> User:
    """Create a person with the next free uid. Without a password only a link signs them in."""
    if username.lower() in RESERVED_USERNAMES or username.lower().startswith(RESERVED_PREFIX):
        raise InvalidInput([FieldError("/username", "reserved_username", {"name": username})])
    if User.objects.filter(username__iexact=username).exists():
        raise NameTaken(name=username)
    user = User(
        username=username,
        platform_role=platform_role,
        uid=uid or _next_number(User, "uid", settings.TESSERA_UID_RANGE),
        **names,
    )
    if password is None:
        user.set_unusable_password()
    else:
        set_password(user, password, pointer="/password")
    clean_row(user)
    user.save()
    return user


@transaction.atomic
def create_team(*, name: str, gid: int | None = None, parent: Team | None = None, title: str = "") -> Team:
    if Team.objects.filter(name__iexact=name).exists():
        raise NameTaken(name=name)
    team = Team(name=name, title=title, parent=parent, gid=gid or _next_number(Team, "gid", settings.TESSERA_GID_RANGE))
    clean_row(team)
    team.save()
    return team


def add_member(*, user: User, team: Team, role: str = TeamRole.MEMBER) -> Membership:
    return Membership.objects.update_or_create(user=user, team=team, defaults={"role": role})[0]


def set_password(user: User, password: str, *, pointer: str) -> None:
    """Set a password without saving. Raises InvalidInput with the policy's message."""
    try:
        validate_password(password, user)
    except ValidationError as weak:
        raise InvalidInput([FieldError(pointer, "weak_password", {"why": " ".join(weak.messages)})]) from weak
    user.set_password(password)


@transaction.atomic
def create_token(
    *, user: User, name: str, scopes: list[str], days: int | None = None, made_by: ApiToken | None = None
) -> tuple[ApiToken, str]:
    """Return a new token and its secret, shown only once.

    made_by: the token that asks; the new one has no scope beyond it and never outlives it. days: TOKEN_DAYS if None,
    or less where made_by ends before. Raises InvalidInput.
    """
    lock_credentials(user, made_by)
    end = made_by.expires_at if made_by else None
    errors = [*find_scope_errors(scopes, "/scopes", made_by), *_check_days(days, end)]
    if not name.strip() or len(name) > 64 or not name.isprintable():
        errors.append(FieldError("/name", "bad_name", {"max": 64}))
    most = settings.TESSERA_MOST_TOKENS
    if ApiToken.objects.live().filter(user=user, held_by="").count() >= most:
        errors.append(FieldError("/name", "too_many_tokens", {"max": most}))
    if errors:
        raise InvalidInput(errors)
    expires_at = steady_now() + timedelta(days=TOKEN_DAYS if days is None else days)
    token, secret = _store_token(
        user=user, name=name.strip(), scopes=scopes, expires_at=min(expires_at, end or expires_at), made_by=made_by
    )
    record(user, "token_made", actor=user.as_actor, params={"name": token.name, "scopes": token.scopes})
    return token, secret


def create_held_token(
    *, user: User, holder: str, scopes: Iterable[str], made_by: ApiToken | None
) -> tuple[ApiToken, str] | None:
    """Return a new token for what is no person, and its secret; None if `made_by` has ended. It ends with that one.

    holder: the job whose tasks have it. Call it in a transaction, before other rows are locked.
    """
    try:
        lock_credentials(user, made_by)
    except NotSignedIn:
        return None
    end = made_by.expires_at if made_by else None
    return _store_token(user=user, name=holder, scopes=scopes, expires_at=end, made_by=made_by, held_by=holder)


def revoke_held_tokens(holders: Iterable[str]) -> None:
    """Revoke what these hold, and what others hold by their asking. Inside a transaction."""
    held = ApiToken.objects.filter(held_by__in=list(holders), revoked_at=None)
    revoke_tokens(list(held.values_list("pk", flat=True)))


@transaction.atomic
def revoke_token(*, user: User, token_id: int) -> None:
    """Revoke a token, every token that it created, directly or not, and remove the SSH keys that these added."""
    lock_credentials(user, None)
    if not ApiToken.objects.filter(pk=token_id, user=user, revoked_at=None).exists():
        raise NotFound(kind="token", id=token_id)
    ended = revoke_tokens([token_id])
    names = ApiToken.objects.filter(pk__in=ended).values_list("name", flat=True)
    record(user, "token_revoked", actor=user.as_actor, params={"name": ", ".join(names)})
    remove_ssh_keys(user=user, rows=SshKey.objects.filter(made_by__in=ended))


def clean_row(row: models.Model) -> None:
    """Check a row's fields by themselves. Raises InvalidInput, naming each."""
    try:
        row.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as bad:
        raise InvalidInput(
            [FieldError(f"/{name}", "bad_value", {"why": " ".join(words)}) for name, words in bad.message_dict.items()]
        ) from bad


def _check_days(days: int | None, end: datetime | None) -> list[FieldError]:
    """Refuse days that are out of range, or after `end`: a promise of days is kept or refused, and never cut short."""
    if days is None:
        return []
    if not 1 <= days <= TOKEN_DAYS_MAX:
        return [FieldError("/days", "out_of_range", {"min": 1, "max": TOKEN_DAYS_MAX})]
    if end is not None and days > (left := (end - timezone.now()).days):
        return [FieldError("/days", "outlives_token", {"largest": left, "until": end.timestamp()})]
    return []


def _store_token(*, scopes: Iterable[str], **columns: Any) -> tuple[ApiToken, str]:
    secret = "tes_" + secrets.token_urlsafe(32)
    kept = {"prefix": secret[:10], "digest": digest_secret(secret), "scopes": sorted(set(scopes))}
    return ApiToken.objects.create(**kept, **columns), secret


def find_named_errors(name: str, days: int | None) -> list[FieldError]:
    """Return what is wrong with the name of a secret that opens one thing alone, and with its days."""
    is_bad = not name.strip() or len(name) > 64 or not name.isprintable()
    return [*([FieldError("/name", "bad_name", {"max": 64})] if is_bad else []), *_check_days(days, None)]


def note_use(credential: Credential) -> None:
    """Update last_used_at, at most once a minute even under concurrency."""
    if credential.last_used_at is None or timezone.now() - credential.last_used_at > NOTED_EVERY:
        unnoted = models.Q(last_used_at__isnull=True) | models.Q(last_used_at__lt=Now() - NOTED_EVERY)
        type(credential)._default_manager.filter(unnoted, pk=credential.pk).update(last_used_at=Now())


def make_login_link(*, user: User) -> str:
    """Return the path of a link that signs the person in once: for whoever has the machine's shell."""
    return make_link(user=user, lifetime=LINK_LIFETIME)


def make_link(*, lifetime: timedelta, **fields: object) -> str:
    """Return the path of a new one-time link. fields: of LoginLink."""
    secret = secrets.token_urlsafe(32)
    LoginLink.objects.create(digest=digest_secret(secret), expires_at=steady_now() + lifetime, **fields)
    return f"/join/{secret}" if "team" in fields else f"/sign-in/{secret}"


def find_link(secret: str) -> LoginLink:
    """Return an unused, unexpired link. Raises NotFound."""
    link = LoginLink.objects.live().filter(digest=digest_secret(secret)).select_related("user", "team").first()
    if link is None or (link.user and not link.user.is_active):
        raise NotFound(kind="link")
    return link


def use_login_link(secret: str) -> User:
    """Use up a link and return its person."""
    link = find_link(secret)
    if link.user is None or not _spend(link):
        raise NotFound(kind="link")
    return link.user


@transaction.atomic
def accept_invitation(*, secret: str, username: str, password: str, full_name: str = "") -> User:
    link = find_link(secret)
    if link.team is None or not _spend(link):
        raise NotFound(kind="link")
    user = create_user(username=username, password=password, full_name=full_name)
    add_member(user=user, team=link.team, role=link.role)
    record(user, "joined", actor=user.as_actor, params={"team": link.team.name, "role": link.role})
    return user


def _spend(link: LoginLink) -> bool:
    """Use up the link; False if another request was faster."""
    return bool(LoginLink.objects.live().filter(pk=link.pk).update(used_at=Now()))


def _next_number(model: type[models.Model], field: str, bounds: tuple[int, int]) -> int:
    """Return the next free number, under an advisory lock.

    One whose files are there is somebody's, also after a restore that knows no more of them.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"tessera {field}"])
    low, high = bounds
    top = model._default_manager.filter(**{f"{field}__range": bounds}).aggregate(top=Max(field))["top"]
    number = low if top is None else top + 1
    while os.path.exists(get_area_path(settings.TESSERA_FILES, AreaId(AREAS[field], number))):
        number += 1
    if number > high:
        raise InvalidInput([FieldError(f"/{field}", "range_used_up", {"min": low, "max": high})])
    return number
