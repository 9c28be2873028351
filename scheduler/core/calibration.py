"""What past forecasts teach about the next: how much too narrow or too wide their ranges were.

The futures of a forecast know nothing of jobs that come later, and a few of them show little of the tails. How far true
starts lay beyond each end of their range, as a factor of the wait, is what the next range is widened (or narrowed) by:
conformalized quantile regression (Romano, Patterson and Candes 2019) on the logarithm of the wait, each end by itself.
Its correction for few examples counts moments, for the errors of one moment are alike.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, exp, inf, isfinite, log

from scheduler.core.forecast import Range

MISSES = 0.1
"""So much may be earlier than p10, and as much later than p90."""
MOST_PAST = 2000
"""So many of the last forecasts teach."""
LEAST, LEAST_MOMENTS, MOMENT_S = 30, 4, 600.0
"""Of fewer forecasts, or of fewer moments, nothing is learned: those that were made at about one time err together."""
UNSURE = log(1.5)
"""Until then each end is moved by this factor, for futures alone are always too sure."""
GRAIN_S = 120.0
"""Waits are told apart by more than this."""
MOST = log(16.0)
"""No end is moved by more than this factor."""


@dataclass(frozen=True)
class Past:
    """A range as the futures gave it, when it was made, and when the job started, or until when it has waited."""

    made_at: float
    p10: float
    p90: float
    started_at: float
    waits: bool = False


@dataclass(frozen=True)
class Calibration:
    """early, late: logarithms of the factors by which p10 comes down and p90 goes up."""

    early: float = 0.0
    late: float = 0.0

    def of(self, found: Range, now: float) -> Range:
        """The range as it is told. What starts now does."""
        if found.p90 <= now:
            return found
        p10, p90 = _moved(found.p10, now, -self.early), _moved(found.p90, now, self.late)
        p10 = min(p10, p90)
        return Range(p10, min(max(found.p50, p10), p90), p90)


def calibrate(past: Iterable[Past]) -> Calibration:
    """A job that waits still counts where its range has passed: then it will be late by no less than it is now."""
    known = [one for one in past if isfinite(one.p90) and not (one.waits and one.started_at <= one.p90)]
    moments = len({one.made_at // MOMENT_S for one in known})
    if len(known) < LEAST or moments < LEAST_MOMENTS:
        return Calibration(UNSURE, UNSURE)
    early = [_wait(one, one.p10) - _wait(one, one.started_at) for one in known]
    late = [_wait(one, one.started_at) - _wait(one, one.p90) for one in known]
    return Calibration(_most_but_few(early, moments), _most_but_few(late, moments))


def _wait(one: Past, at: float) -> float:
    return log(max(at - one.made_at, 0.0) + GRAIN_S)


def _most_but_few(scores: list[float], moments: int) -> float:
    """The smallest move that is enough for all but MISSES, one more moment not yet seen included."""
    place = min(ceil((1 - MISSES) * (1 + 1 / moments) * len(scores)), len(scores))
    return min(max(sorted(scores)[place - 1], -MOST), MOST)


def _moved(at: float, now: float, by: float) -> float:
    return at if at == inf else now + max((max(at - now, 0.0) + GRAIN_S) * exp(by) - GRAIN_S, 0.0)
