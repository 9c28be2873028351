"""How many requests we send, and which go first: what frees room before what looks, and what looks before what fills.

A token bucket for each process. Who waits is served by urgency, then by when he came.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from enum import IntEnum


class Urgency(IntEnum):
    DELETE = 0
    STATUS = 1
    CREATE = 2


class Bucket:
    """How many may go now. Pure: the clock is told."""

    def __init__(self, per_s: float, burst: int, now: float):
        self.per_s, self.burst = per_s, burst
        self._tokens, self._seen, self._closed_until = float(burst), now, now

    def wait_s(self, now: float) -> float:
        """Seconds until one more may go, 0 for now."""
        self._fill(now)
        short = max(1.0 - self._tokens, 0.0) / self.per_s
        return max(short, self._closed_until - now, 0.0)

    def take(self, now: float) -> None:
        self._fill(now)
        self._tokens -= 1.0

    def close(self, now: float, seconds: float) -> None:
        """The server wants peace for so long; afterwards there is no burst."""
        self._fill(now)
        self._closed_until = max(self._closed_until, now + seconds)
        self._tokens = min(self._tokens, 1.0)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._seen) * self.per_s, float(self.burst))
        self._seen = now


class Limiter:
    """One at a time leaves the queue, the most urgent first. Threads wait here."""

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._bucket = Bucket(per_s, burst, clock())
        self._waiting: list[tuple[int, int]] = []
        self._tickets = itertools.count()
        self._changed = threading.Condition()

    def acquire(self, urgency: Urgency) -> None:
        with self._changed:
            ticket = (int(urgency), next(self._tickets))
            heapq.heappush(self._waiting, ticket)
            try:
                while self._waiting[0] != ticket or (rest := self._bucket.wait_s(self._clock())) > 0:
                    self._changed.wait(None if self._waiting[0] != ticket else rest)
                self._bucket.take(self._clock())
            finally:
                self._waiting.remove(ticket)
                heapq.heapify(self._waiting)
                self._changed.notify_all()

    def close(self, seconds: float) -> None:
        with self._changed:
            self._bucket.close(self._clock(), seconds)
