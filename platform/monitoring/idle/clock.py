"""For how long a job has been idle, look by look. Pure.

Work sets the clock back at once. Where nothing is known, it stands: it is not set back, and it does not go on.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitoring.idle.evidence import Busy, Finding, Idle


@dataclass(frozen=True)
class Clock:
    """since: from when on nothing worked; None while something does. stood_s: for how long it stood since.

    looked_at: the last look.
    """

    since: datetime | None = None
    stood_s: float = 0.0
    looked_at: datetime | None = None

    def measure_idle_s(self, now: datetime) -> float:
        """Return the seconds of idleness that were seen."""
        return 0.0 if self.since is None else max(0.0, (now - self.since).total_seconds() - self.stood_s)

    def find_time(self, idle_s: float) -> datetime | None:
        """Return when so much idleness will have been seen, if it goes on."""
        return None if self.since is None else self.since + timedelta(seconds=idle_s + self.stood_s)


def step_clock(clock: Clock, finding: Finding, now: datetime) -> Clock:
    """Return the clock after a look.

    The idle window itself proves what was between two looks; what lies before it and was not looked at does not count.
    """
    if isinstance(finding, Busy):
        return Clock(looked_at=now)
    if isinstance(finding, Idle):
        unseen = clock.looked_at is not None and clock.looked_at < finding.since
        if clock.since is None or unseen or clock.looked_at is None:
            return Clock(finding.since, 0.0, now)
        return replace(clock, looked_at=now)
    if clock.since is None or clock.looked_at is None:
        return replace(clock, looked_at=now)
    stood = max(0.0, (now - clock.looked_at).total_seconds())
    return replace(clock, stood_s=clock.stood_s + stood, looked_at=now)
