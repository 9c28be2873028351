"""Who is told of a job's start and end: its owner, and whom its file names (`notify`)."""

from collections.abc import Callable, Sequence
from typing import Any

from accounts.models import Membership, Team
from common.errors import FieldError, InvalidInput
from events.notices import Recipient
from jobs.arrays.models import JobArray
from jobs.jobfile.spec import NotifyWish
from jobs.models import Job


def check_notified(team: Team, wish: NotifyWish) -> None:
    """Check that whom a job file names are active people of its team. Raises InvalidInput."""
    known = set(_load_members({team.pk}, set(wish.to)))
    unknown = ((at, name) for at, name in enumerate(wish.to) if (team.pk, name) not in known)
    if errors := [
        FieldError(f"/notify/to/{at}", "not_in_team", {"name": name, "team": team.name}) for at, name in unknown
    ]:
        raise InvalidInput(errors)


def list_recipients(
    jobs: Sequence[Job | JobArray], word: str, *, of_owner: Callable[[Any], bool] = lambda job: True
) -> list[Recipient]:
    """Return who is told that these jobs or arrays have started (`word`: start) or ended (success, failure).

    of_owner: whether it is news to an owner who did not ask. Who has left the team since is not told.
    """
    asked = {job.pk: wish for job in jobs if (wish := job.spec.get("notify")) and word in wish["when"]}
    names = {name for wish in asked.values() for name in wish["to"]}
    members = _load_members({job.team_id for job in jobs if job.pk in asked}, names) if names else {}
    found = []
    for job in jobs:
        params = {"name": job.name, **({} if word == "start" else {"reason": job.reason})}
        if job.pk in asked or of_owner(job):
            found.append(Recipient(job.user_id, job, params, is_asked=job.pk in asked))
        named = ((job.team_id, name) for name in asked.get(job.pk, {"to": ()})["to"])
        others = {members[member] for member in named if member in members} - {job.user_id}
        found += [Recipient(user_id, job, params) for user_id in sorted(others)]
    return found


def _load_members(team_ids: set[int], names: set[str]) -> dict[tuple[int, str], int]:
    """Return {(team, user name): user id} of active members."""
    rows = Membership.objects.filter(team__in=team_ids, user__username__in=names, user__suspended_at__isnull=True)
    return {(team, name): user for team, name, user in rows.values_list("team", "user__username", "user")}
