"""Means between two looks at a total. Pure; None is what is not known."""

MOST_RATE = 2**31 - 1
LONGEST_SPAN_MS = 120_000
"""A look says nothing of a longer time before it, beyond how much the totals grew."""
ACTIVE_PERCENT = 5
"""Of its share of a card: from there on a holding is active, and not idle."""


def mean_growth(before: int | None, after: int | None, span_ms: int) -> float | None:
    """Return how much a total grew in each millisecond. A total that fell began anew: nothing is known of the span."""
    if before is None or after is None or after < before or span_ms <= 0:
        return None
    return (after - before) / span_ms


def mean_percent(before_ms: int | None, after_ms: int | None, span_ms: int) -> float | None:
    """Return how much of a span was busy, in percent."""
    grown = mean_growth(before_ms, after_ms, span_ms)
    return None if grown is None else min(100.0, round(100 * grown, 2))


def mean_per_s(before: int | None, after: int | None, span_ms: int) -> int | None:
    """Return the growth of a second, rounded, and at most what a column of 32 bits holds."""
    grown = mean_growth(before, after, span_ms)
    return None if grown is None else min(round(1000 * grown), MOST_RATE)


def scale_to_share(busy_percent: float, compute_percent: int) -> float:
    """Return how busy a share is, of its own time. busy_percent: of the card's time. compute_percent: 0 is all."""
    return min(100 * busy_percent / (compute_percent or 100), 100.0)
