"""Add numbers to a series: its count, its last, smallest and largest, and its thinned points. No database here."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from reported_numbers.models import Series
from reported_numbers.thinning import COLUMNS, INDEX, MOST_TAIL, STEP, VALUE, Points, pack, thin, unpack


def grow_series(series: Series, told: Sequence[tuple[float | None, float]], at: datetime) -> None:
    """Add (step, value) to the tail of a series. Without a step, a number is the next one of its name."""
    new = _build_points(series.count or 0, told, at)
    smallest, largest = new[new[:, VALUE].argmin()], new[new[:, VALUE].argmax()]
    if not series.count or smallest[VALUE] < series.smallest:
        series.smallest, series.smallest_step = smallest[[VALUE, STEP]].tolist()
    if not series.count or largest[VALUE] > series.largest:
        series.largest, series.largest_step = largest[[VALUE, STEP]].tolist()
    series.last, series.last_step = new[-1, [VALUE, STEP]].tolist()
    series.last_at = at
    series.count = (series.count or 0) + len(new)
    series.tail = bytes(series.tail) + pack(new)


def has_long_tail(series: Series) -> bool:
    return len(series.tail) > MOST_TAIL * COLUMNS * 8


def fold_tail(series: Series) -> None:
    """Put the tail among the thinned points."""
    points, series.width = thin(read_points(series), series.width)
    series.points, series.tail = pack(points), b""


def read_points(series: Series) -> Points:
    """Return all points that are kept."""
    return np.concatenate((unpack(series.points), unpack(series.tail)))


def _build_points(count: int, told: Sequence[tuple[float | None, float]], at: datetime) -> Points:
    index = np.arange(count, count + len(told), dtype=float)
    steps = np.array([np.nan if step is None else step for step, _ in told])
    points = np.empty((len(told), COLUMNS))
    points[:, INDEX] = index
    points[:, STEP] = np.where(np.isnan(steps), index + 1, steps)
    points[:, VALUE] = [value for _, value in told]
    points[:, COLUMNS - 1] = at.timestamp()
    return points
