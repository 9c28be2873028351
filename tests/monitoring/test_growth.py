"""Means of totals: exact over any spans, and unknown where a total began anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.samples.growth import mean_growth, mean_per_s, mean_percent


@pytest.mark.parametrize(
    ("before", "after", "span_ms", "percent"),
    [
        (0, 5000, 10_000, 50.0),
        (700, 700, 10_000, 0.0),
        (0, 10_400, 10_000, 100.0),  # a look that came late: never more than all of the time
        (None, 5000, 10_000, None),
        (5000, None, 10_000, None),
        (5000, 0, 10_000, None),  # it began anew: no negative rate, and no spike
        (0, 5000, 0, None),
        (0, 5000, -10, None),
    ],
)
def test_how_busy_a_span_was(before, after, span_ms, percent):
    assert mean_percent(before, after, span_ms) == percent


def test_a_growth_of_each_second_is_rounded():
    assert (mean_per_s(0, 1500, 1000), mean_per_s(None, 1, 1000)) == (1500, None)


@given(st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 60_000)), min_size=1, max_size=20))
def test_lost_samples_cost_resolution_and_no_growth(steps):
    spans, grown = zip(*steps, strict=True)
    whole = mean_growth(0, sum(grown), sum(spans))
    assert whole * sum(spans) == pytest.approx(sum(mean_growth(0, part, span) * span for span, part in steps))
