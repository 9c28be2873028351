"""How long a job that gives no `time` is taken to last, wherever somebody asks for it."""

from collections.abc import Iterable
from math import ceil

from jobs.models import Job
from jobs.states import JobState

UNKNOWN_S = 24 * 3600.0
"""Without a history."""
LEAST_S = 3600.0
LEAST_PAST, MOST_PAST = 20, 200
"""Jobs that a history needs, and the newest that it counts."""
SHARE = 0.9
"""Of the jobs that lasted no longer."""


def measure_expected_length(pool_id: int) -> float:
    """Return the seconds that a job without a `time` is taken to last in the pool, by those that ended there."""
    return expected_length(_load_lengths(pool_id))


def expected_length(past_s: Iterable[float]) -> float:
    """Return the length that SHARE of these jobs did not exceed, in whole minutes and at least LEAST_S.

    UNKNOWN_S if they are too few.
    """
    lengths = sorted(past_s)
    if len(lengths) < LEAST_PAST:
        return UNKNOWN_S
    return max(60.0 * ceil(lengths[int(SHARE * (len(lengths) - 1))] / 60), LEAST_S)


def _load_lengths(pool_id: int) -> list[float]:
    """Load the lengths of the newest jobs of the pool that gave no time and ended by themselves."""
    alike = Job.objects.filter(pool=pool_id, time_s__isnull=True, max_time_s__isnull=True, started_at__isnull=False)
    ended = alike.filter(state__in=(JobState.SUCCEEDED, JobState.FAILED), ended_at__isnull=False)
    times = ended.order_by("-pk").values_list("started_at", "ended_at")[:MOST_PAST]
    return [max((end - start).total_seconds(), 0.0) for start, end in times if start and end]
