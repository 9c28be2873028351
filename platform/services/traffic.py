"""What a revision of a service answered: pure sums of what gateways counted, and the figures made of them."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SLOT_S = 5
"""Counts are kept by slots of this length."""
BOUNDS_MS = tuple(2 ** (step / 4) for step in range(69))
"""The upper bounds of the buckets of times, from 1 ms to 131 s, each 19 % above the one before; one more is beyond."""


@dataclass(frozen=True)
class Traffic:
    """requests: those answered, broken off by the program, or left by their caller. errors: 5xx or broken off.

    times: how many took how long until the first byte of the answer, or until their caller left, by bucket. Sums over
    processes are exact.
    """

    requests: int = 0
    errors: int = 0
    times: Mapping[int, int] = field(default_factory=dict)

    @property
    def error_share(self) -> float | None:
        """The share of errors, 0 to 1; None without requests."""
        return self.errors / self.requests if self.requests else None

    def find_quantile_ms(self, share: float) -> float | None:
        """Return the time that this share of the requests took at most, in milliseconds; None without times."""
        wanted, below = share * sum(self.times.values()), 0
        for bucket in sorted(self.times):
            if below + self.times[bucket] >= wanted:
                low, high = _bounds_of(bucket)
                return low + (high - low) * (wanted - below) / self.times[bucket]
            below += self.times[bucket]
        return None

    def count_slower(self, than_ms: float) -> float:
        """Return how many took longer than this, as if times were spread evenly over their bucket."""
        return sum(n * _share_above(than_ms, *_bounds_of(bucket)) for bucket, n in self.times.items())


@dataclass(frozen=True)
class Slot:
    """began: in seconds since 1970. traffic: by the revision's id."""

    began: int
    traffic: Mapping[int, Traffic]


def find_bucket(seconds: float) -> int:
    """Return the bucket of a time."""
    return bisect_left(BOUNDS_MS, seconds * 1000)


def add_up(parts: Iterable[Traffic]) -> Traffic:
    requests, errors, times = 0, 0, Counter[int]()
    for part in parts:
        requests, errors = requests + part.requests, errors + part.errors
        times.update(part.times)
    return Traffic(requests, errors, times)


def sum_slots(slots: Sequence[Slot], since: float, revision: int | None = None) -> Traffic:
    """Return what was answered in slots that began at `since` or later. revision: its id; None: all revisions."""
    return add_up(
        traffic
        for slot in slots
        if slot.began >= since
        for pk, traffic in slot.traffic.items()
        if revision in (None, pk)
    )


def _bounds_of(bucket: int) -> tuple[float, float]:
    """What is beyond the last bound counts as that bound."""
    if bucket >= len(BOUNDS_MS):
        return BOUNDS_MS[-1], BOUNDS_MS[-1]
    return (BOUNDS_MS[bucket - 1] if bucket else 0.0), BOUNDS_MS[bucket]


def _share_above(value: float, low: float, high: float) -> float:
    if high <= low:
        return float(value <= low)
    return min(max((high - value) / (high - low), 0.0), 1.0)
