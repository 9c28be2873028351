"""Judge a canary by what it answered, beside what the good revision did meanwhile. Pure functions."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from jobs.jobfile.serving import BackIf, Canary
from services.traffic import Traffic

RECENT_S = 60
"""A canary is judged by all that it answered and by its last minute, so that good hours hide no bad minute."""
ENOUGH = 20
"""Requests that a share is told from: fewer, and one bad one is 5 % already."""
LEAST_BAD = 3
"""One or two requests fail at any program now and then."""
ENOUGH_USUAL = 100
"""Requests of the good revision that its p95 is told from: it is the fifth slowest of them then."""
DEVIATIONS = 3.0
"""By how many standard deviations a share must be above its limit to be no chance: looked at each second, a canary that
is just within its limit would go back sooner or later otherwise. 20 % of errors are beyond a limit of 2 % after 20
requests."""


@dataclass(frozen=True)
class Answered:
    """What the two revisions answered in one span."""

    canary: Traffic
    good: Traffic


@dataclass(frozen=True)
class Trial:
    """A canary as it is seen. since: when its replica was ready first, if it was.

    answered: since then, and lately; None if it is not known. retry_at: before it, no replica of it is started.
    """

    wish: Canary
    since: datetime | None = None
    answered: tuple[Answered, ...] | None = ()
    retry_at: datetime | None = None

    def has_ended(self, now: datetime) -> bool:
        return self.since is not None and now - self.since >= timedelta(seconds=self.wish.for_s)


@dataclass(frozen=True)
class Breach:
    """Why a canary goes back. kind: errors or p95. got, limit: percents of requests, or milliseconds.

    requests: of the canary, which this is told from.
    """

    kind: str
    got: float
    limit: float
    requests: int


def judge_canary(trial: Trial, now: datetime) -> Breach | None:
    """Return why a canary goes back now; None if it does not.

    While it goes on, its limit must be passed by more than chance explains; at its end, by anything.
    """
    deviations = 0.0 if trial.has_ended(now) else DEVIATIONS
    spans: Iterable[Answered] = trial.answered or ()
    found = (find_breach(trial.wish.back_if, answered, deviations) for answered in spans)
    return next(filter(None, found), None)


def find_breach(rule: BackIf, answered: Answered, deviations: float) -> Breach | None:
    """Return which limit is passed by so many standard deviations, if one is."""
    canary, good = answered.canary, answered.good
    if is_above(canary.errors, canary.requests, rule.errors / 100, deviations):
        share = 100 * canary.errors / canary.requests
        return Breach("errors", round(share, 1), rule.errors, canary.requests)
    usual_ms = good.find_quantile_ms(0.95)
    if rule.p95 is None or usual_ms is None or sum(good.times.values()) < ENOUGH_USUAL:
        return None
    limit_ms, timed = usual_ms * rule.p95, sum(canary.times.values())
    # Its p95 is above the limit if and only if more than 5 % of its requests are.
    if is_above(canary.count_slower(limit_ms), timed, 0.05, deviations):
        return Breach("p95", round(canary.find_quantile_ms(0.95) or 0), round(limit_ms), timed)
    return None


def is_above(bad: float, requests: int, limit: float, deviations: float) -> bool:
    """Whether the share of bad requests is above a limit, 0 to 1, by so many standard deviations of chance."""
    if requests < ENOUGH or bad < LEAST_BAD:
        return False
    return bad - requests * limit > deviations * sqrt(requests * limit * (1 - limit))


def takes_next(passed: int, of: int, share: float) -> bool:
    """Whether the next request is the canary's, which got `passed` of the last `of`: never more than its share, 0 to 1.

    Counted, not drawn: the share holds for few requests, too.
    """
    return passed + 1 <= share * (of + 1)
