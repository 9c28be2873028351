"""The team that a request names, for which something is to be made."""

from accounts.models import Team, User
from accounts.permissions import teams_where
from common.errors import FieldError, InvalidInput
from common.text import shorten_text


def find_team_where(user: User, action: str, name: str | None) -> Team | None:
    """Return a team where the user may do `action`; None for everybody's. Raises InvalidInput."""
    if name is None:
        return None
    teams = Team.objects.all() if user.is_admin else teams_where(user, action)
    team = teams.filter(name=name.lower()).first()
    if team is None:
        known = ", ".join(teams.values_list("name", flat=True))
        raise InvalidInput([FieldError("/team", "unknown_team", {"team": shorten_text(name), "known": known})])
    return team
