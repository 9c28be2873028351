"""What admins change of people, teams and memberships, with an event for each change."""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import Membership, PlatformRole, Team, User
from accounts.permissions import require
from accounts.services import (
    INVITATION_LIFETIME,
    LINK_LIFETIME,
    add_member,
    clean_row,
    create_team,
    create_user,
    make_link,
)
from common.errors import FieldError, InvalidInput, NotFound, PlatformError
from common.locks import lock_rows
from common.text import shorten_text
from events.record_and_publish import publish_recheck, record, record_change

PERSON_FIELDS = ("full_name", "email", "platform_role", "uid")
TEAM_FIELDS = ("title", "parent_id", "gid")


def find_person(name: str, pointer: str = "") -> User:
    """Return the person of that user name. Raises NotFound, or InvalidInput at `pointer`, the field that names it."""
    user = User.objects.filter(username__iexact=name).first()
    if user is None:
        raise _missing("person", name, pointer)
    return user


def find_team(name: str, pointer: str = "") -> Team:
    """Return the team of that name. Raises NotFound, or InvalidInput at `pointer`, the field that names it."""
    team = Team.objects.filter(name__iexact=name).select_related("parent").first()
    if team is None:
        raise _missing("team", name, pointer)
    return team


@transaction.atomic
def create_person(*, actor: User, username: str, **fields: Any) -> User:
    """Create a person who signs in by a link first. fields: of PERSON_FIELDS. Raises InvalidInput, NameTaken."""
    require(actor, "person.change")
    user = create_user(username=username, **fields)
    record_change(user, None, PERSON_FIELDS, "made", actor=actor.as_actor)
    return user


@transaction.atomic
def change_person(*, actor: User, user: User, **fields: Any) -> User:
    """Change some of PERSON_FIELDS, and the rights of open sockets with them. Raises InvalidInput."""
    require(actor, "person.change")
    if actor.pk == user.pk and fields.get("platform_role", PlatformRole.ADMIN) != PlatformRole.ADMIN:
        raise InvalidInput([FieldError("/platform_role", "own_role")])
    (before,) = lock_rows(User.objects.filter(pk=user.pk))
    for name in PERSON_FIELDS:
        setattr(user, name, fields.get(name, getattr(before, name)))
    clean_row(user)
    user.save(update_fields=PERSON_FIELDS)
    if record_change(user, before, PERSON_FIELDS, "changed", actor=actor.as_actor):
        publish_recheck(user.pk)
    return user


def suspend_person(*, actor: User, user: User) -> None:
    """End a person's access at once, open sockets included. Jobs go on. Raises InvalidInput for oneself."""
    if actor.pk == user.pk:
        raise InvalidInput([FieldError("/suspended", "own_suspension")])
    _let_in(actor, user, "suspended", timezone.now())


def readmit_person(*, actor: User, user: User) -> None:
    """Give a suspended person access again."""
    _let_in(actor, user, "readmitted", None)


@transaction.atomic
def create_sign_in_link(*, actor: User, user: User) -> str:
    """Return the path of a link that signs the person in once. Raises InvalidInput for a suspended one."""
    require(actor, "person.change")
    if not user.is_active:
        raise InvalidInput([FieldError("", "suspended_person", {"name": user.username})])
    lock_rows(User.objects.filter(pk=user.pk))
    record(user, "link_made", actor=actor.as_actor)
    return make_link(user=user, created_by=actor, lifetime=LINK_LIFETIME)


@transaction.atomic
def invite_person(*, actor: User, team: Team, role: str) -> str:
    """Return the path of a link by which one person joins `team`."""
    require(actor, "person.invite")
    lock_rows(Team.objects.filter(pk=team.pk))
    record(team, "invited", actor=actor.as_actor, params={"role": str(role)})
    return make_link(team=team, role=role, created_by=actor, lifetime=INVITATION_LIFETIME)


@transaction.atomic
def create_team_by(*, actor: User, name: str, **fields: Any) -> Team:
    """Create a team without quota. fields: title, parent, gid. Raises InvalidInput, NameTaken."""
    require(actor, "team.change")
    team = create_team(name=name, **fields)
    record_change(team, None, TEAM_FIELDS, "made", actor=actor.as_actor)
    return team


@transaction.atomic
def change_team(*, actor: User, team: Team, **fields: Any) -> Team:
    """Change title, parent or gid. Raises InvalidInput if the team would be below itself."""
    require(actor, "team.change")
    (before,) = lock_rows(Team.objects.filter(pk=team.pk))
    for name, value in fields.items():
        setattr(team, name, value)
    if _is_below(team.parent, team):
        raise InvalidInput([FieldError("/parent", "team_below_itself", {"name": team.name})])
    clean_row(team)
    team.save(update_fields=[*fields])
    record_change(team, before, TEAM_FIELDS, "changed", actor=actor.as_actor)
    return team


@transaction.atomic
def set_member(*, actor: User, team: Team, user: User, role: str) -> Membership:
    """Add a person to a team, or change their role in it. Open sockets check their rights again."""
    require(actor, "team.change")
    lock_rows(Team.objects.filter(pk=team.pk))
    before = Membership.objects.filter(user=user, team=team).first()
    if before and before.role == role:
        return before
    member = add_member(user=user, team=team, role=role)
    verb = "member_changed" if before else "member_added"
    record(team, verb, actor=actor.as_actor, params=_change_of_role(user, before.role if before else None, role))
    publish_recheck(user.pk)
    return member


@transaction.atomic
def remove_member(*, actor: User, team: Team, user: User) -> None:
    """Take a person out of a team. What they run in it goes on. Raises NotFound."""
    require(actor, "team.change")
    lock_rows(Team.objects.filter(pk=team.pk))
    member = Membership.objects.filter(user=user, team=team).first()
    if member is None:
        raise NotFound(kind="member", id=user.username)
    member.delete()
    record(team, "member_removed", actor=actor.as_actor, params=_change_of_role(user, member.role, None))
    publish_recheck(user.pk)


@transaction.atomic
def _let_in(actor: User, user: User, verb: str, suspended_at: datetime | None) -> None:
    require(actor, "person.suspend")
    changed = User.objects.filter(pk=user.pk, suspended_at__isnull=suspended_at is not None)
    if changed.update(suspended_at=suspended_at):
        user.suspended_at = suspended_at
        record(user, verb, actor=actor.as_actor)
        publish_recheck(user.pk)


def _missing(kind: str, name: str, pointer: str) -> PlatformError:
    if pointer:
        return InvalidInput([FieldError(pointer, f"no_such_{kind}", {"name": shorten_text(name, 32)})])
    return NotFound(kind=kind, id=name)


def _is_below(team: Team | None, other: Team) -> bool:
    """Check whether `team` is `other` or below it."""
    while team is not None and team.pk != other.pk:
        team = team.parent
    return team is not None


def _change_of_role(user: User, before: str | None, after: str | None) -> dict:
    """Return whose role changed, and the change as all are kept: {"from": {...}, "to": {...}}."""
    was, now = ({} if role is None else {"role": str(role)} for role in (before, after))
    return {"person": user.username, "role": str(after or before), "from": was, "to": now}
