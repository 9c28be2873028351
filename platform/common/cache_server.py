"""The cache's server, for counters and marks of all processes."""

from functools import cache

from django.conf import settings
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

WITHIN_S = 0.5


def cache_server() -> Redis:
    """Return the client; its calls raise RedisError."""
    return _server(settings.CACHES["default"]["LOCATION"])


@cache
def _server(address: str) -> Redis:
    once = Retry(NoBackoff(), 0)
    return Redis.from_url(address, socket_timeout=WITHIN_S, socket_connect_timeout=WITHIN_S, retry=once)
