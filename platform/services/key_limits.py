"""How many requests a key has in flight at all gateways together: places in the cache, which their gateways renew.

A place ends by itself soon after its gateway did. When the cache is away, nobody is stopped, as with other rates.
"""

import logging
from collections.abc import Mapping
from time import time

from redis.exceptions import RedisError

from common.cache_server import cache_server

log = logging.getLogger("tessera.rates")

LASTS_S = 30
PLACES = "services:key-in-flight:{}"


def take_place(key: int, place: str, most: int) -> bool:
    """Take one of a key's places under a name of its own; False if all are taken."""
    name, now = PLACES.format(key), time()
    try:
        with cache_server().pipeline() as asked:
            asked.zremrangebyscore(name, 0, now - LASTS_S)
            asked.zadd(name, {place: now})
            asked.zcard(name)
            asked.expire(name, LASTS_S)
            taken = asked.execute()[2]
        if taken > most:
            cache_server().zrem(name, place)
        return taken <= most
    except RedisError as away:
        log.warning("requests in flight of keys are not counted: %s", away)
        return True


def renew_places(places: Mapping[str, int]) -> None:
    """Keep places, each with its key. Raises RedisError."""
    with cache_server().pipeline(transaction=False) as asked:
        for place, key in places.items():
            asked.zadd(PLACES.format(key), {place: time()})
            asked.expire(PLACES.format(key), LASTS_S)
        asked.execute()


def leave_place(key: int, place: str) -> None:
    """Raises RedisError."""
    cache_server().zrem(PLACES.format(key), place)
