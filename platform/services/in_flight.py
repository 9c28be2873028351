"""How many requests gateways hold and have passed on: published by each of their processes, summed by the controller.

The counts are kept in the cache for SAID_S only. Where no gateway says anything, they are unknown, and never zero.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import time
from typing import cast

from redis.exceptions import RedisError

from common.cache_server import cache_server

SAID_S = 10
PROCESSES, COUNTS = "services:gateways", "services:in-flight:{}"


@dataclass(frozen=True)
class Loads:
    """Requests by service, held ones too, and by replica; the keys are their ids."""

    services: Mapping[int, int] = field(default_factory=Counter)
    replicas: Mapping[int, int] = field(default_factory=Counter)


def publish_counts(process: str, services: Mapping[int, int], replicas: Mapping[int, int]) -> None:
    """Say what one process of the gateway holds and has passed on. Raises RedisError."""
    server = cache_server()
    said = json.dumps({"services": services, "replicas": replicas})
    pipe = server.pipeline(transaction=False)
    pipe.set(COUNTS.format(process), said, ex=SAID_S)
    pipe.zadd(PROCESSES, {process: time()})
    pipe.zremrangebyscore(PROCESSES, 0, time() - 10 * SAID_S)
    pipe.execute()


def withdraw_counts(process: str) -> None:
    """Say that a process has ended. Raises RedisError."""
    cache_server().delete(COUNTS.format(process))
    cache_server().zrem(PROCESSES, process)


def read_loads() -> Loads | None:
    """Return what all gateways say; None if none says anything."""
    server = cache_server()
    try:
        processes = cast(list[bytes], server.zrange(PROCESSES, 0, -1))
        keys = [COUNTS.format(name.decode()) for name in processes]
        said = [text for text in server.mget(keys) if text] if keys else []
    except RedisError:
        return None
    if not said:
        return None
    services: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for counts in map(json.loads, said):
        services.update({int(pk): n for pk, n in counts["services"].items()})
        replicas.update({int(pk): n for pk, n in counts["replicas"].items()})
    return Loads(services, replicas)
