"""What every page says of idle jobs to who was told of them: so their notice counts as delivered."""

from accounts.models import User
from monitoring.idle.telling import list_told_jobs, mark_shown
from portal.access.idle_rows import IdleRow, list_idle_rows

MOST = 3


def show_idle(user: User) -> list[IdleRow]:
    """Return what a whole page says at its top: the idle jobs of which the person was told."""
    jobs = list_told_jobs(user.pk)
    if not jobs:
        return []
    mark_shown(user.pk)
    return list_idle_rows(user, jobs=jobs)[:MOST]
