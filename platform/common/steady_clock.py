"""The time that decisions follow: a wall clock whose steps are not believed at once.

A step is told by the monotonic clock, which has none. Until the wall clock has kept to a step for a while, time goes on
as before it, so that no window ends, no limit is over and nothing is deleted because somebody set a clock, or put it
right again. Each process judges by what it saw itself.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from django.conf import settings

log = logging.getLogger("tessera.clock")

STEP_S = 30.0
"""Smaller differences are followed at once, as those of a clock that is slowed down or sped up."""


class SteadyClock:
    """read: the wall clock, in seconds. steady_s: how long it must have kept to a step; 0 follows it at once."""

    def __init__(
        self,
        read: Callable[[], float],
        steady_s: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self._read, self._steady_s, self._monotonic = read, steady_s, monotonic
        self._believed: float | None = None  # wall minus monotonic
        self._step: tuple[float, float] | None = None  # (wall minus monotonic, since when)
        self._lock = threading.Lock()

    def now(self) -> float:
        before = self._monotonic()
        wall = self._read()
        after = self._monotonic()
        with self._lock:
            if self._believed is not None and after - before > STEP_S / 2:  # such as of a frozen database: no judging
                return after + self._believed
            return before + self._judge(wall - before, before)

    @property
    def held_s(self) -> float:
        """By how much the wall clock is ahead of what is believed."""
        return self._step[0] - self._believed if self._step and self._believed is not None else 0.0

    def _judge(self, offset: float, at: float) -> float:
        if self._believed is None or abs(offset - self._believed) < STEP_S or not self._steady_s():
            self._believed, self._step = offset, None
        elif self._step is None or abs(offset - self._step[0]) >= STEP_S:
            self._step = (offset, at)
            log.warning("the clock jumped by %.0f s; deadlines wait until it is steady", self.held_s)
        elif at - self._step[1] >= self._steady_s():
            log.warning("the clock has kept to its jump by %.0f s; deadlines follow it", self.held_s)
            self._believed, self._step = offset, None
        return self._believed


_BEGAN = time.time() - time.monotonic()
own_clock = SteadyClock(lambda: time.time(), lambda: settings.TESSERA_CLOCK_STEADY_S)


def steady_time() -> float:
    """Return this process's time, in seconds, without steps that are not believed yet."""
    return own_clock.now()


def steady_now() -> datetime:
    return datetime.fromtimestamp(steady_time(), UTC)


def unbroken_now() -> datetime:
    """Return a time that never follows a step, for periods."""
    return datetime.fromtimestamp(_BEGAN + time.monotonic(), UTC)
