"""How long a job of which nothing is known is taken to last, kept between cycles."""

import time

from jobs.pricing.expected_length import measure_expected_length
from scheduler.loading.row_cache import memo_for

KEPT_S = 600.0


def load_expected_length(pool_id: int) -> float:
    """Return the seconds that a job without a `time` is taken to last in the pool."""
    known, now = memo_for("expected_length"), time.monotonic()
    if known.get(pool_id, (-KEPT_S, 0.0))[0] < now - KEPT_S:
        known[pool_id] = now, measure_expected_length(pool_id)
    return known[pool_id][1]
