"""Limits on how often: fixed windows counted in the cache. A cache that does not answer stops nobody."""

import hashlib
import logging
import math
from time import time

from django.core.cache import cache
from redis.exceptions import RedisError

from common.errors import TooManyRequests

log = logging.getLogger("tessera.rates")


def count(what: str, who: str, *, limit: int, per_s: int) -> None:
    """One more of `what` by `who`. Raises TooManyRequests above `limit` in the current window of `per_s` seconds.

    who: an account name, an address; kept as a digest. Windows are fixed, so twice the limit may pass around an edge.
    """
    now = time()
    window = int(now // per_s)
    if _count(f"rate:{_digest(what, who)}:{window}", per_s) > limit:
        log.warning("too many %s", what)
        raise TooManyRequests(retry_after_s=math.ceil((window + 1) * per_s - now))


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
