"""Whose events a person may read, as a value that a stream asks about each event."""

from dataclasses import dataclass

from accounts.models import User
from events.bus import TEAM_KINDS
from events.models import Event


@dataclass(frozen=True)
class EventSight:
    """Two are equal when nothing changed for the person."""

    user_id: int
    sees_all: bool
    teams: frozenset[int]

    def sees(self, event: Event) -> bool:
        """What a team may read of its jobs and quota; of everything else only what is one's own."""
        if self.sees_all:
            return True
        if event.kind in TEAM_KINDS:
            return event.team_id in self.teams
        return self.user_id == (event.object_id if event.kind == User.KIND else event.owner_id)


def load_event_sight(user_id: int) -> EventSight | None:
    """None for who is suspended or gone."""
    user = User.objects.filter(pk=user_id, suspended_at__isnull=True).first()
    if user is None:
        return None
    return EventSight(user.pk, user.sees_all, frozenset(user.memberships.values_list("team_id", flat=True)))
