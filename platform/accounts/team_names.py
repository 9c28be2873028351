"""Names of teams for labels: read once a minute at most."""

import time

from accounts.models import Team

KEPT_S = 60.0
_read: tuple[float, dict[int, str]] = (0.0, {})


def get_team_name(team_id: int) -> str:
    """Return a team's name, at most a minute old."""
    global _read
    read_at, names = _read
    if team_id not in names or time.monotonic() - read_at > KEPT_S:
        names = dict(Team.objects.values_list("pk", "name"))
        _read = time.monotonic(), names
    return names.get(team_id, "")
