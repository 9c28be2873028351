"""What a session may receive, read fresh each time."""

from collections.abc import Collection
from dataclasses import dataclass

from channels.db import database_sync_to_async

from accounts.models import Team, User
from cluster.models import Pool
from jobs.models import Task
from portal.access.session_user import load_session_user
from portal.live.sample_ticks import Subject, find_subjects


@dataclass(frozen=True)
class Rights:
    """A user's channel-layer groups, comparable to detect changes."""

    user_id: int
    sees_all: bool
    groups: frozenset[str]


@database_sync_to_async
def read_rights(session_key: str | None) -> Rights | None:
    """Return the session's rights; None if signed out, suspended or the password changed."""
    user = load_session_user(session_key)
    if user is None:
        return None
    teams = Team.objects.all() if user.sees_all else Team.objects.filter(memberships__user=user)
    groups = {f"user-{user.pk}"}
    groups |= {f"team-{pk}" for pk in teams.values_list("pk", flat=True)}
    groups |= {f"pool-{pk}" for pk in Pool.objects.values_list("pk", flat=True)}
    return Rights(user.pk, user.sees_all, frozenset(groups))


@database_sync_to_async
def sees_task(rights: Rights, task: str) -> bool:
    return Task.objects.visible_to(User.objects.get(pk=rights.user_id)).filter(uuid=task).exists()


@database_sync_to_async
def find_watched(rights: Rights, names: Collection[str]) -> dict[str, Subject]:
    """Return those that the user may see curves of."""
    return find_subjects(User.objects.get(pk=rights.user_id), names)


@database_sync_to_async
def is_ended(task: str) -> bool:
    """Return whether the task's log is complete, or the task gone."""
    return not Task.objects.filter(uuid=task).log_open().exists()
