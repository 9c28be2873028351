"""A curve of at most MOST_POINTS points, however many numbers there were. Pure.

The numbers of a name lie in buckets of equal width, by the order in which they came. Of each bucket the first, the
last, the smallest and the largest are kept, so that no peak is lost. When there are too many points, two neighbours
become one bucket: what is kept of both has what is to be kept of it, so nothing is read again.
"""

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 1000
MOST_TAIL = 100
"""Newest points that are not in buckets yet, so that most looks write little."""
INDEX, STEP, VALUE, AT = range(4)
COLUMNS = 4
Points = NDArray[np.float64]
"""A row for each point: its number among those of its name from 0 on, its step, its value, and the Unix second."""


def thin(points: Points, width: int, most: int = MOST_POINTS - MOST_TAIL) -> tuple[Points, int]:
    """Return (points, width of a bucket), at most `most` of them. points: in the order of their index."""
    while len(points) > most:
        kept = _keep(points, width)
        if len(kept) > most:
            width *= 2
        points = kept
    return points, width


def _keep(points: Points, width: int) -> Points:
    bucket = points[:, INDEX] // width
    order = np.lexsort((points[:, INDEX], points[:, VALUE], bucket))
    begins = np.flatnonzero(np.diff(bucket, prepend=-1.0))
    ends = np.append(begins[1:], len(points)) - 1
    return points[np.unique(np.concatenate((begins, ends, order[begins], order[ends])))]


def pack(points: Points) -> bytes:
    return points.astype("<f8").tobytes()


def unpack(packed: bytes | memoryview) -> Points:
    return np.frombuffer(packed, dtype="<f8").reshape(-1, COLUMNS)
