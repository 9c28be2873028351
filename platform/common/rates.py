"""Limits on how often: fixed windows counted in the cache. A cache that does not answer stops nobody."""

import hashlib
import logging
import math
from dataclasses import dataclass
from time import time

from django.core.cache import cache
from redis.exceptions import RedisError

from common.errors import TooManyRequests

log = logging.getLogger("tessera.rates")


@dataclass(frozen=True)
class Window:
    """used: with this one; 0 where the cache does not answer. ends_in_s: until the next window begins, at least 1."""

    used: int
    limit: int
    ends_in_s: int

    @property
    def left(self) -> int:
        return max(self.limit - self.used, 0)


def count(what: str, who: str, *, limit: int, per_s: int) -> None:
    """One more of `what` by `who`. Raises TooManyRequests above `limit` in the current window of `per_s` seconds."""
    window = take(what, who, limit=limit, per_s=per_s)
    if window.used > window.limit:
        log.warning("too many %s", what)
        raise TooManyRequests(retry_after_s=window.ends_in_s)


def take(what: str, who: str, *, limit: int, per_s: int) -> Window:
    """One more of `what` by `who`, and how many that makes. Never raises.

    who: an account name, an address; kept as a digest. Windows are fixed, so twice the limit may pass around an edge.
    """
    now = time()
    window = int(now // per_s)
    used = _count(f"rate:{_digest(what, who)}:{window}", per_s)
    return Window(used, limit, math.ceil((window + 1) * per_s - now))


def _count(key: str, per_s: int) -> int:
    """How many there are in the window, with this one; 0 where the cache does not answer."""
    try:
        if cache.add(key, 1, timeout=2 * per_s):
            return 1
        return cache.incr(key)
    except ValueError:  # it ran out between the two
        return 1
    except RedisError as away:
        log.warning("rates are not counted: %s", away)
        return 0


def _digest(what: str, who: str) -> str:
    return hashlib.sha256(f"{what}\0{who}".encode()).hexdigest()[:32]
