"""A canary as pages and the API show it: what it got so far, and what would turn it back."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.jobfile.serving import Canary
from portal.services.figures import Figures, measure
from services.canaries.judging import ENOUGH, Answered
from services.canaries.trials import see_trial
from services.models import Service


@dataclass(frozen=True)
class CanaryView:
    """revision: its number. since: when its replica was ready, until: when it takes over; None: not ready yet.

    so_far, good: what it and the good revision answered since then; None if it is not known. p95_limit_ms: beyond it
    the canary goes back, if its file says so and enough is known.
    """

    revision: int
    wish: Canary
    since: datetime | None
    until: datetime | None
    so_far: Figures | None
    good: Figures | None
    p95_limit_ms: int | None

    @property
    def p95_factor(self) -> str:
        factor = self.wish.back_if.p95
        return "" if factor is None else f"{factor:g}×"

    @property
    def is_telling(self) -> bool:
        """Whether it got enough requests to be told from."""
        return self.so_far is not None and self.so_far.requests >= ENOUGH


def view_canary(service: Service, now: datetime) -> CanaryView | None:
    trial = see_trial(service, now)
    if trial is None:
        return None
    wish, since = trial.wish, trial.since
    until = None if since is None else since + timedelta(seconds=wish.for_s)
    answered: Answered | None = trial.answered[0] if trial.answered else None
    if answered is None or since is None:
        return CanaryView(service.newest.number, wish, since, until, None, None, None)
    seconds = max((now - since).total_seconds(), 1.0)
    so_far, good = measure(answered.canary, seconds), measure(answered.good, seconds)
    limit = wish.back_if.p95
    limit_ms = round(good.p95_ms * limit) if limit is not None and good.p95_ms is not None else None
    return CanaryView(service.newest.number, wish, since, until, so_far, good, limit_ms)
