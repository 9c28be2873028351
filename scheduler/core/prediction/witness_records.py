"""What a witness keeps: the newest lengths of a group of past jobs, and how wrong it was."""

from bisect import bisect_right, insort
from collections.abc import Iterable

KEPT = 20
"""Newest lengths, and errors, of a group."""
TRUST = 4.0
"""Errors for which the more general record counts beside the narrower one."""


class Errors:
    """The newest errors of a witness: logarithms of true / predicted length."""

    __slots__ = ("count", "newest", "total")

    def __init__(self, newest: Iterable[float] = ()):
        self.newest = list(newest)
        self.count = len(self.newest)
        self.total = sum(map(abs, self.newest))

    def add(self, error: float, most: int) -> None:
        self.newest.append(error)
        self.total += abs(error)
        if self.count == most:
            self.total -= abs(self.newest.pop(0))
        else:
            self.count += 1

    def mean(self, general: float) -> float:
        """Return the mean size of an error, where `general` is that of a more general record."""
        return (self.total + TRUST * general) / (self.count + TRUST)


class Group:
    """The newest lengths of past jobs that are alike, as logarithms, and how wrong they were of those that followed.

    median: 0 without any.
    """

    __slots__ = ("errors", "median", "newest", "ordered")

    def __init__(self, newest: Iterable[float] = (), errors: Iterable[float] = ()):
        self.newest = list(newest)
        self.ordered = sorted(self.newest)
        self.errors = Errors(errors)
        self.median = _median(self.ordered)

    def add(self, length: float) -> None:
        self.newest.append(length)
        insort(self.ordered, length)
        if len(self.newest) > KEPT:
            gone = self.newest.pop(0)
            del self.ordered[bisect_right(self.ordered, gone) - 1]
        self.median = _median(self.ordered)


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    if not ordered:
        return 0.0
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
