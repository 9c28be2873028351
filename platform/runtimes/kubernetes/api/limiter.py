"""Client-side rate limit: one token bucket per process, the most urgent request first."""

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
    """A token bucket. Pure: callers pass the time in seconds."""

    def __init__(self, per_s: float, burst: int, now: float):
        self.per_s, self.burst = per_s, burst
        self._tokens, self._seen, self._closed_until = float(burst), now, now

    def wait_s(self, now: float) -> float:
        """Return seconds until a request may go."""
        self._fill(now)
        short = max(1.0 - self._tokens, 0.0) / self.per_s
        return max(short, self._closed_until - now, 0.0)

    def take(self, now: float) -> None:
        self._fill(now)
        self._tokens -= 1.0

    def close(self, now: float, seconds: float) -> None:
        """Block for so long, then without a burst."""
        self._fill(now)
        self._closed_until = max(self._closed_until, now + seconds)
        self._tokens = min(self._tokens, 1.0)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._seen) * self.per_s, float(self.burst))
        self._seen = now


class Limiter:
    """Blocks threads until they may send, by urgency, then arrival."""

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._bucket = Bucket(per_s, burst, clock())
        self._waiting: list[tuple[int, int]] = []
        self._tickets = itertools.count()
        self._changed = threading.Condition()

    def acquire(self, urgency: Urgency) -> None:
        with self._changed:
            ticket = (int(urgency), next(self._tickets))
            self._waiting.append(ticket)
            try:
                while (others := min(self._waiting) != ticket) or (rest := self._bucket.wait_s(self._clock())) > 0:
                    self._changed.wait(None if others else rest)
                self._bucket.take(self._clock())
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def close(self, seconds: float) -> None:
        with self._changed:
            self._bucket.close(self._clock(), seconds)
