"""Who is away and still holds something, as one person may see it: all for admins, of their teams for leads."""

from dataclasses import dataclass
from datetime import datetime

from accounts.models import User
from accounts.permissions import may, require, teams_where
from common.locks import database_now
from monitoring.people.absence import Held
from monitoring.people.loading import load_away
from monitoring.people.reminding import load_reminders

ACTION = "idle.people"


@dataclass(frozen=True)
class AwayRow:
    """A person who is away. seen_at: the last sign of them, None if there never was one. ran_at: of a job.

    reminded_at: None if they never were.
    """

    username: str
    full_name: str
    suspended: bool
    seen_at: datetime | None
    ran_at: datetime | None
    days: int
    held: Held
    reminded_at: datetime | None


def may_see_people(user: User) -> bool:
    return may(user, ACTION) or teams_where(user, ACTION).exists()


def list_idle_people(user: User) -> list[AwayRow]:
    """List who is away, the longest first. Raises NotPermitted for who leads no team."""
    teams = None
    if not user.sees_all:
        teams = set(teams_where(user, ACTION).values_list("pk", flat=True))
        if not teams:
            require(user, ACTION)
    now = database_now()
    away = load_away(now, teams=teams)
    reminded = load_reminders(one.user_id for one in away)
    return [
        AwayRow(
            username=one.username,
            full_name=one.full_name,
            suspended=one.suspended,
            seen_at=one.seen_at,
            ran_at=one.ran_at,
            days=one.count_days(now),
            held=one.held,
            reminded_at=reminded.get(one.user_id),
        )
        for one in away
    ]
