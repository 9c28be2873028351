"""Rate limits: fixed windows, counted in the shared cache. When it is away, nobody is stopped.

Tries at secrets are counted in the database (accounts.guesses).
"""

import hashlib
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from time import time

from redis.exceptions import RedisError

from common.cache_server import cache_server
from common.errors import TooManyRequests

log = logging.getLogger("tessera.rates")


@dataclass(frozen=True)
class Window:
    """used: with this one. ends_in_s: at least 1."""

    used: int
    limit: int
    ends_in_s: int

    @property
    def left(self) -> int:
        return max(self.limit - self.used, 0)


def check_rate(what: str, who: str, *, limit: int, per_s: int) -> None:
    """Count a use. Raises TooManyRequests above `limit`."""
    window = count_use(what, who, limit=limit, per_s=per_s)
    if window.used > window.limit:
        log.warning("too many %s", what)
        raise TooManyRequests(retry_after_s=window.ends_in_s)


def count_use(what: str, who: str, *, limit: int, per_s: int) -> Window:
    return count_uses({what: (limit, per_s)}, who)[what]


def count_uses(limits: Mapping[str, tuple[int, int]], who: str) -> dict[str, Window]:
    """Count a use of each limit, in one round trip.

    limits: {what: (limit, seconds)}. Around a window's edge twice the limit may pass.
    """
    now = time()
    windows = {what: int(now // per_s) for what, (_, per_s) in limits.items()}
    keys = {f"rate:{_digest(what, who)}:{windows[what]}": per_s for what, (_, per_s) in limits.items()}
    return {
        what: Window(used, limit, math.ceil((windows[what] + 1) * per_s - now))
        for (what, (limit, per_s)), used in zip(limits.items(), _count(keys), strict=True)
    }


def _count(keys: Mapping[str, int]) -> list[int]:
    """Increment {key: seconds}; 0 without the server."""
    try:
        with cache_server().pipeline(transaction=False) as asked:
            for key, per_s in keys.items():
                asked.incr(key)
                asked.expire(key, 2 * per_s)
            return asked.execute()[::2]
    except RedisError as away:
        log.warning("rates are not counted: %s", away)
        return [0] * len(keys)


def _digest(what: str, who: str) -> str:
    return hashlib.sha256(f"{what}\0{who}".encode()).hexdigest()[:32]
