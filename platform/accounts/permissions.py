"""Permissions, action by role. Objects of other teams are filtered out before (404)."""

from collections.abc import Iterable

from django.db.models import QuerySet

from accounts.models import Membership, Team, TeamRole, User
from common.errors import NotPermitted

VIEWER, MEMBER, LEAD = TeamRole.VIEWER.value, TeamRole.MEMBER.value, TeamRole.LEAD.value
OWNER, AUDITOR, ADMIN = "owner", "auditor", "admin"

PERMISSIONS: dict[str, frozenset[str]] = {
    "files.read": frozenset({VIEWER, MEMBER, LEAD}),
    "files.write": frozenset({MEMBER, LEAD}),
    "job.read": frozenset({VIEWER, MEMBER, LEAD, AUDITOR, ADMIN}),
    "job.submit": frozenset({MEMBER, LEAD}),
    "job.consent": frozenset({LEAD, ADMIN}),
    "job.prioritize": frozenset({OWNER, LEAD, ADMIN}),
    "job.stop": frozenset({OWNER, LEAD, ADMIN}),
    "job.retry": frozenset({OWNER, LEAD, ADMIN}),
    "job.hold": frozenset({OWNER, LEAD, ADMIN}),
    "job.release": frozenset({OWNER, LEAD, ADMIN}),
    "job.resize": frozenset({OWNER, LEAD, ADMIN}),
    "job.label": frozenset({OWNER, LEAD, ADMIN}),
    "job.settle": frozenset({ADMIN}),
    "idle.snooze": frozenset({OWNER, LEAD, ADMIN}),
    "idle.exempt": frozenset({LEAD, ADMIN}),
    "idle.nudge": frozenset({MEMBER, LEAD, ADMIN}),
    "idle.people": frozenset({LEAD, AUDITOR, ADMIN}),
    "idle.rule": frozenset({ADMIN}),
    "job.enter": frozenset({OWNER}),
    "job.visit": frozenset({MEMBER, LEAD}),
    "job.change": frozenset({OWNER}),
    "job.levers": frozenset({OWNER}),
    "template.create": frozenset({MEMBER, LEAD, ADMIN}),
    "template.change": frozenset({OWNER, LEAD, ADMIN}),
    "notebook.start": frozenset({OWNER}),
    "notebook.change": frozenset({OWNER}),
    "notebook.delete": frozenset({OWNER, ADMIN}),
    "schedule.change": frozenset({OWNER}),
    "dataset.add": frozenset({MEMBER, LEAD}),
    "dataset.change": frozenset({OWNER, LEAD}),
    "service.call": frozenset({MEMBER, LEAD}),
    "service.change": frozenset({OWNER}),
    "service.stop": frozenset({OWNER, LEAD, ADMIN}),
    "service.wake": frozenset({MEMBER, LEAD}),
    "schedule.delete": frozenset({OWNER, LEAD, ADMIN}),
    "schedule.suspend": frozenset({OWNER, LEAD, ADMIN}),
    "port.open": frozenset({MEMBER, LEAD, OWNER}),
    "quota.read": frozenset({VIEWER, MEMBER, LEAD, AUDITOR, ADMIN}),
    "quota.change": frozenset({ADMIN}),
    "person.change": frozenset({ADMIN}),
    "person.invite": frozenset({ADMIN}),
    "person.suspend": frozenset({ADMIN}),
    "announcement.change": frozenset({ADMIN}),
    "team.change": frozenset({ADMIN}),
    "secret.use": frozenset({MEMBER, LEAD}),
    "secret.change": frozenset({LEAD}),
    "webhook.change": frozenset({LEAD, ADMIN}),
    "volume.change": frozenset({ADMIN}),
    "image.change": frozenset({LEAD, ADMIN}),
    "registry.change": frozenset({LEAD, ADMIN}),
    "node.change": frozenset({ADMIN}),
    "pool.change": frozenset({ADMIN}),
    "alert.acknowledge": frozenset({OWNER, LEAD, ADMIN}),
    "alert_rule.change": frozenset({ADMIN}),
    "price.change": frozenset({ADMIN}),
    "platform.read": frozenset({AUDITOR, ADMIN}),
    "history.export": frozenset({ADMIN}),
}


def roles_of(user: User, team: Team | None = None, owner_id: int | None = None) -> set[str]:
    """Return the user's roles towards a team; owners count only while members or leads."""
    if not user.is_active:
        return set()
    roles = {user.platform_role} & {AUDITOR, ADMIN}
    if team is not None:
        roles |= set(Membership.objects.filter(user=user, team=team).values_list("role", flat=True))
    if owner_id == user.pk and roles & {MEMBER, LEAD}:
        roles.add(OWNER)
    return roles


def may(user: User, action: str, team: Team | None = None, owner_id: int | None = None) -> bool:
    return bool(roles_of(user, team, owner_id) & PERMISSIONS[action])


def teams_where(user: User, action: str) -> QuerySet[Team]:
    """Return the teams in which the user may do `action`."""
    return Team.objects.filter(memberships__user=user, memberships__role__in=PERMISSIONS[action]).order_by("name")


def require(user: User, action: str, team: Team | None = None, owner_id: int | None = None) -> None:
    """Raise NotPermitted, naming the roles that could."""
    if not may(user, action, team, owner_id):
        raise NotPermitted(action=action, needs=sorted(PERMISSIONS[action]))


def find_refusals(user: User, action: str, objects: Iterable[tuple[int, Team, int | None]]) -> dict[int, NotPermitted]:
    """Ask for many objects, each (id, team, owner's id), and return by id why some are refused.

    Each team is asked once for the user's own objects and once for others'.
    """
    answers: dict[tuple[int, bool], bool] = {}
    refused = {}
    for pk, team, owner_id in objects:
        alike = team.pk, owner_id == user.pk
        if alike not in answers:
            answers[alike] = may(user, action, team, owner_id)
        if not answers[alike]:
            refused[pk] = NotPermitted(action=action, needs=sorted(PERMISSIONS[action]))
    return refused
