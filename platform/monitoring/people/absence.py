"""Who has been away for long and still holds something: decided from when they were last seen. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Held:
    """What waits for a person. notebooks: not deleted. home_bytes: 0 where it has no files, or was not measured.

    gpu_milli, cpu_milli, memory_mib: guarantees of teams in which nobody else is.
    """

    notebooks: int = 0
    home_bytes: int = 0
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def any(self) -> bool:
        return any((self.notebooks, self.home_bytes, self.gpu_milli, self.cpu_milli, self.memory_mib))


@dataclass(frozen=True)
class Person:
    """signed_in_at: the last time by a page, a token or an SSH key. ran_at: when a job last began or ended.

    runs: a job of theirs is running now.
    """

    user_id: int
    username: str
    full_name: str
    suspended: bool
    joined_at: datetime
    signed_in_at: datetime | None = None
    ran_at: datetime | None = None
    runs: bool = False
    held: Held = field(default_factory=Held)

    @property
    def seen_at(self) -> datetime | None:
        """The last sign of them; None if there never was one."""
        return max((at for at in (self.signed_in_at, self.ran_at) if at is not None), default=None)

    @property
    def away_since(self) -> datetime:
        return max(self.seen_at or self.joined_at, self.joined_at)

    def count_days(self, now: datetime) -> int:
        """Return for how many whole days they have been away."""
        return (now - self.away_since).days


def find_away(people: Iterable[Person], days: int, now: datetime) -> list[Person]:
    """Return who has been away for so many days and holds something, the longest away first. 0 days: nobody."""
    if days <= 0:
        return []
    limit = now - timedelta(days=days)
    away = [one for one in people if one.held.any and not one.runs and one.away_since <= limit]
    return sorted(away, key=lambda one: (one.away_since, one.username))


def is_due(reminded_at: datetime | None, person: Person, days: int, now: datetime) -> bool:
    """Whether to remind a person who is away: once, then every so many days. Who is suspended can do nothing."""
    if person.suspended or days <= 0:
        return False
    return reminded_at is None or now - reminded_at >= timedelta(days=days)
