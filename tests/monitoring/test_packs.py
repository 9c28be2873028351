"""Packs give back what was put in, gaps too; means over slots are those of the time that was seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.series.grid import coarsen, spread
from monitoring.series.packs import LEAST, MOST, BadPack, pack, unpack


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 400), st.floats(0, 1))
def test_packs_round_trip_any_series_with_gaps(seed, columns, slots, gaps):
    rng = np.random.default_rng(seed)
    spread_of_values = rng.choice([1, 100, 2**31])
    values = rng.integers(-spread_of_values, spread_of_values, (columns, slots)).astype(np.float64)
    values[rng.random((columns, slots)) < gaps] = np.nan
    assert np.array_equal(unpack(pack(values)), values, equal_nan=True)


def test_values_beyond_32_bits_end_at_the_limit():
    assert unpack(pack(np.array([[1e12, -1e12, 0.6, np.nan]]))).tolist()[0][:3] == [MOST, LEAST, 1]


@pytest.mark.parametrize("data", [b"", b"\1\0", pack(np.zeros((2, 9)))[:-3], b"\2" + pack(np.zeros((1, 1)))[1:]])
def test_what_is_no_pack_is_refused(data):
    with pytest.raises(BadPack):
        unpack(data)


def test_an_hour_of_a_busy_card_takes_less_than_two_bytes_a_value():
    rng = np.random.default_rng(4)
    busy, power = rng.normal(9000, 300, 360).clip(0, 10_000), rng.normal(250, 5, 360)
    used, heat = 20_000 + rng.integers(0, 2, 360), 60 + np.cumsum(rng.integers(-1, 2, 360))
    assert len(pack(np.array([busy, used, heat, power]))) < 2 * 4 * 360


@given(
    st.lists(st.tuples(st.floats(0.1, 30), st.one_of(st.none(), st.floats(0, 100))), max_size=40),
    st.floats(-20, 20),
    st.sampled_from([1.0, 7.0, 10.0]),
)
def test_the_mean_of_a_slot_is_the_mean_of_the_time_that_was_seen(told, start, step):
    """Against a sum over each piece, with samples that follow each other without a gap or leave one (None)."""
    spans = np.array([span for span, _ in told])
    values = np.array([[np.nan if value is None else value for _, value in told]]).reshape(1, -1)
    ends = np.cumsum(spans)
    means = spread(ends, spans, values, start, step, 20)
    for slot in range(20):
        low, high = start + slot * step, start + (slot + 1) * step
        pieces = [
            (min(end, high) - max(end - span, low), value)
            for end, span, value in zip(ends, spans, values[0], strict=True)
            if min(end, high) > max(end - span, low) and not np.isnan(value)
        ]
        seen = sum(length for length, _ in pieces)
        if seen >= 0.501 * step:
            assert means[0, slot] == pytest.approx(sum(length * value for length, value in pieces) / seen, abs=1e-6)
        elif seen < 0.499 * step:
            assert np.isnan(means[0, slot])


def test_samples_that_overlap_count_once():
    means = spread(np.array([10.0, 12.0]), np.array([10.0, 10.0]), np.array([[50.0, 100.0]]), 0, 1, 12)
    assert means[0].tolist() == [50.0] * 10 + [100.0] * 2


def test_coarser_slots_leave_out_what_is_not_known():
    values = np.array([[1, 3, np.nan, 5, np.nan, np.nan]])
    assert coarsen(values, 2)[0][:2].tolist() == [2, 5] and np.isnan(coarsen(values, 2)[0][2])
    assert coarsen(values, 3, "max")[0].tolist() == [3, 5]
