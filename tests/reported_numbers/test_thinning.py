"""What is kept of a curve: the first, the last, and every peak."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reported_numbers.thinning import COLUMNS, INDEX, VALUE, pack, thin, unpack


def curve(values) -> np.ndarray:
    points = np.zeros((len(values), COLUMNS))
    points[:, INDEX] = np.arange(len(values))
    points[:, VALUE] = values
    return points


def grow(values, pieces, most):
    """As it comes in life: some points, thinned with those that are there."""
    points, width = curve([]), 1
    whole, at = curve(values), 0
    for piece in pieces:
        points, width = thin(np.concatenate((points, whole[at : at + piece])), width, most)
        at += piece
    return thin(np.concatenate((points, whole[at:])), width, most)


many = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400)


@given(many, st.lists(st.integers(0, 50), max_size=10), st.integers(8, 40))
def test_of_each_bucket_the_ends_and_the_peaks_are_kept(values, pieces, most):
    points, width = grow(values, pieces, most)
    assert len(points) <= most
    assert (np.diff(points[:, INDEX]) > 0).all()
    whole = curve(values)
    assert all((whole[int(point[INDEX])] == point).all() for point in points)
    for bucket in range(-(-len(values) // width)):
        within = whole[bucket * width : (bucket + 1) * width]
        kept = points[points[:, INDEX] // width == bucket]
        assert kept[0, INDEX] == within[0, INDEX] and kept[-1, INDEX] == within[-1, INDEX]
        assert kept[:, VALUE].min() == within[:, VALUE].min() and kept[:, VALUE].max() == within[:, VALUE].max()


def test_what_is_few_is_kept_whole():
    points, width = thin(curve(range(900)), 1)
    assert len(points) == 900 and width == 1


@pytest.mark.parametrize("count", [901, 5000, 60_000])
def test_much_becomes_at_most_so_many_points_and_not_few(count):
    points, _ = thin(curve(np.sin(np.arange(count) / 7)), 1)
    assert 200 < len(points) <= 900


def test_points_are_kept_exactly():
    points = curve([1 / 3, 2.0**-1060, 1e308])
    assert (unpack(pack(points)) == points).all() and len(unpack(b"")) == 0
