"""The server of the cache, asked without Django's layer: counting and marks that all processes share. All of it may be
lost at any time.
"""

from functools import cache

from django.conf import settings
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

WITHIN_S = 0.5


def cache_server() -> Redis:
    """Its calls raise redis.exceptions.RedisError where it is away."""
    return _server(settings.CACHES["default"]["LOCATION"])


@cache
def _server(address: str) -> Redis:
    """Asked once, and not for long: who waits for it is a person."""
    once = Retry(NoBackoff(), 0)
    return Redis.from_url(address, socket_timeout=WITHIN_S, socket_connect_timeout=WITHIN_S, retry=once)
