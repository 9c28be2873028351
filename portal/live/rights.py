"""What a session may hear, read afresh from the database each time."""

from dataclasses import dataclass

from channels.db import database_sync_to_async

from accounts.models import Team, User
from cluster.models import Pool
from jobs.models import Task
from portal.signed_in import person_of


@dataclass(frozen=True)
class Rights:
    """A person and the groups of the channel layer they may be in. Two are equal when nothing changed for them."""

    user_id: int
    sees_all: bool
    groups: frozenset[str]


@database_sync_to_async
def read_rights(session_key: str | None) -> Rights | None:
    """Of the session that this key opens; None when it is over, the password was changed or the person suspended."""
    user = person_of(session_key)
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
def is_ended(task: str) -> bool:
    """Whether no more of this task's log will come, or the task is gone."""
    return not Task.objects.filter(uuid=task).log_open().exists()
