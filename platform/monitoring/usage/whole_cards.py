"""Add up what only a whole card counts, for who holds all of it: multiprocessors at work, clocks held down. Pure.

Both are known only of spans between two ticks that told them, in one run of the sampler; `*_of_ms` is how long they
were.
"""

from collections.abc import Mapping
from dataclasses import replace

from monitoring.usage.counting import Count

THROTTLES = ("throttle_heat_ms", "throttle_brake_ms")
"""By heat and by the machine's power brake. That of the power limit is how a card works under full load."""


def count_whole_card(before: Count | None, count: Count, told: Mapping[str, int], run: str, up_ms: int) -> Count:
    """Return a count with what the card told in this tick. before: the count at the tick before; count: now."""
    if (count.run, count.up_ms) != (run, up_ms):  # this tick says nothing of how busy it was
        return replace(count, sm_at=None, throttle_at=None)
    if before is None or before.run != run:
        before = Count(run, up_ms, count.at, count.source)
    span_ms = up_ms - before.up_ms
    sm_at, throttle_at = told.get("sm_ms"), _sum_throttles(told)
    sm, throttled = _grow(before.sm_at, sm_at, span_ms), _grow(before.throttle_at, throttle_at, span_ms)
    count = replace(count, sm_at=sm_at, throttle_at=throttle_at)
    if sm is not None:
        count = replace(count, sm_ms=(count.sm_ms or 0) + sm, sm_of_ms=count.sm_of_ms + span_ms)
    if throttled is None:
        return count
    return replace(
        count,
        throttle_ms=(count.throttle_ms or 0) + throttled,
        throttle_of_ms=count.throttle_of_ms + span_ms,
    )


def _sum_throttles(told: Mapping[str, int]) -> int | None:
    known = [told[name] for name in THROTTLES if name in told]
    return sum(known) if known else None


def _grow(before: int | None, after: int | None, span_ms: int) -> int | None:
    """Return by how much a total of milliseconds grew; None if that is not known. Never more than time has passed."""
    if before is None or after is None or after < before or span_ms <= 0:
        return None
    return min(after - before, span_ms)
