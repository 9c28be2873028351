"""What people are told about a start: a range that stays until it turns out wrong or much too wide."""

from math import isfinite

from scheduler.core.model.types import StartRange

MUCH_NARROWER = 0.5
"""A new range within the old one replaces it from this part of its width on."""
LATER = 2.0
"""Factor of the wait until the end, once a range has turned out too early: such a job is held up by what the
simulation does not know, and is so again."""


def revise_told_range(told: StartRange | None, fresh: StartRange, now: float) -> StartRange:
    """Return what to tell: the range told before while it holds, else the fresh one.

    Every simulation draws other futures, and people plan by what they read. A range holds while its end has not passed
    and the likely start still lies in it.
    """
    if told is None or not isfinite(told.p90):
        return fresh
    if told.p90 <= now or not told.p10 <= fresh.p50 <= told.p90:
        late = fresh.p90 > told.p90
        return StartRange(fresh.p10, fresh.p50, now + LATER * (fresh.p90 - now)) if late else fresh
    within = told.p10 <= fresh.p10 and fresh.p90 <= told.p90
    if within and fresh.p90 - fresh.p10 <= MUCH_NARROWER * (told.p90 - max(told.p10, now)):
        return fresh
    return StartRange(told.p10, fresh.p50, told.p90)
