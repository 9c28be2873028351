"""Which events a user may read."""

from dataclasses import dataclass

from accounts.models import User
from events.models import Event
from events.record_and_publish import TEAM_KINDS


@dataclass(frozen=True)
class EventVisibility:
    """A user's event permissions, comparable to detect changes."""

    user_id: int
    sees_all: bool
    teams: frozenset[int]

    def sees(self, event: Event) -> bool:
        """Team events for members, all others for their owner only."""
        if self.sees_all:
            return True
        if event.kind in TEAM_KINDS:
            return event.team_id in self.teams
        return self.user_id == (event.object_id if event.kind == User.KIND else event.owner_id)


def load_event_visibility(user_id: int) -> EventVisibility | None:
    """Return the permissions; None if suspended or deleted."""
    user = User.objects.filter(pk=user_id, suspended_at__isnull=True).first()
    if user is None:
        return None
    return EventVisibility(user.pk, user.sees_all, frozenset(user.memberships.values_list("team_id", flat=True)))
