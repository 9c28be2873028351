"""Calibration of forecast ranges by past errors.

Conformalized quantile regression (Romano, Patterson and Candes 2019) on the logarithm of the wait, each end by itself.
The small-sample correction counts moments, because forecasts of one moment err alike.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, exp, inf, isfinite, log

from scheduler.core.model.types import StartRange

MISS_RATE = 0.1
"""Share of starts allowed before p10, and again after p90."""
MAX_PAST_FORECASTS = 2000
"""Past forecasts to learn from."""
MIN_PAST_FORECASTS, MIN_MOMENTS, MOMENT_LENGTH_S = 30, 4, 600.0
"""Minimum of past forecasts and of moments to learn from; forecasts of one moment (in seconds) err alike."""
DEFAULT_MOVE = log(1.5)
"""Factor (logarithm) until then; uncalibrated ranges are too narrow."""
WAIT_RESOLUTION_S = 120.0
"""Resolution of waits."""
MAX_MOVE = log(16.0)
"""Largest factor (logarithm) by which an end is moved."""


@dataclass(frozen=True)
class PastForecast:
    """A past range and the job's start. waits: not started yet, `started_at` is now."""

    made_at: float
    p10: float
    p90: float
    started_at: float
    is_waiting: bool = False


@dataclass(frozen=True)
class Calibration:
    """Logarithms of the factors that lower p10 (early) and raise p90 (late)."""

    early: float = 0.0
    late: float = 0.0

    def apply(self, found: StartRange, now: float) -> StartRange:
        """Return the calibrated range; a start now stays."""
        if found.p90 <= now:
            return found
        p10, p90 = _move_end(found.p10, now, -self.early), _move_end(found.p90, now, self.late)
        p10 = min(p10, p90)
        return StartRange(p10, min(max(found.p50, p10), p90), p90)


def fit_calibration(past: Iterable[PastForecast]) -> Calibration:
    """Learn from past ranges. A waiting job counts once its range has passed."""
    known = [one for one in past if isfinite(one.p90) and not (one.is_waiting and one.started_at <= one.p90)]
    moments = len({one.made_at // MOMENT_LENGTH_S for one in known})
    if len(known) < MIN_PAST_FORECASTS or moments < MIN_MOMENTS:
        return Calibration(DEFAULT_MOVE, DEFAULT_MOVE)
    early = [_log_wait(one, one.p10) - _log_wait(one, one.started_at) for one in known]
    late = [_log_wait(one, one.started_at) - _log_wait(one, one.p90) for one in known]
    return Calibration(_covering_move(early, moments), _covering_move(late, moments))


def _log_wait(one: PastForecast, at: float) -> float:
    return log(max(at - one.made_at, 0.0) + WAIT_RESOLUTION_S)


def _covering_move(scores: list[float], moments: int) -> float:
    """Return the smallest move that covers all but MISSES."""
    place = min(ceil((1 - MISS_RATE) * (1 + 1 / moments) * len(scores)), len(scores))
    return min(max(sorted(scores)[place - 1], -MAX_MOVE), MAX_MOVE)


def _move_end(at: float, now: float, by: float) -> float:
    return at if at == inf else now + max((max(at - now, 0.0) + WAIT_RESOLUTION_S) * exp(by) - WAIT_RESOLUTION_S, 0.0)
