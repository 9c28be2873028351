"""How often machines are sampled: more often while somebody watches, less often where there are many.

Who is watched stands in the cache's server, and is forgotten soon; without it everything is sampled at its usual pace.
"""

import time
from collections.abc import Iterable
from math import ceil

from django.conf import settings
from django.utils import timezone
from redis.exceptions import RedisError

from cluster.agents import SILENT_AFTER
from cluster.models import Agent
from common.cache_server import cache_server

BODIES_PER_S = 50
"""Of all agents together, at most, beside those of machines that are watched."""
NEVER_S = 600
"""Pause of an agent where no samples are wanted."""
MOST_WATCHED, REMEMBERED_S = 50, 15
WATCHED = "tessera watched machines"
EARLY_S = 0.5
"""A beat that comes a little early counts."""


def get_sample_pace(node_name: str) -> int:
    """Return the seconds between two ticks of a machine."""
    if settings.TESSERA_SAMPLE_S <= 0:
        return NEVER_S
    if is_watched(node_name):
        return min(settings.TESSERA_SAMPLE_WATCHED_S, settings.TESSERA_SAMPLE_S)
    agents = Agent.objects.filter(reported_at__gt=timezone.now() - SILENT_AFTER).count()
    return max(settings.TESSERA_SAMPLE_S, ceil(agents / BODIES_PER_S))


def mark_watched(node_names: Iterable[str]) -> None:
    """Remember for a while that somebody watches what these machines do; of too many, the latest."""
    until = {name: time.time() + REMEMBERED_S for name in node_names}
    if not until:
        return
    try:
        with cache_server().pipeline(transaction=False) as asked:
            asked.zadd(WATCHED, until)
            asked.zremrangebyrank(WATCHED, 0, -MOST_WATCHED - 1)
            asked.expire(WATCHED, 2 * REMEMBERED_S)
            asked.execute()
    except RedisError:
        pass


def is_watched(node_name: str) -> bool:
    try:
        until = cache_server().zscore(WATCHED, node_name)
    except RedisError:
        return False
    return until is not None and until > time.time()


def claim_sample(node_name: str) -> bool:
    """Return whether a machine is to be sampled now, once among all that ask."""
    pace_ms = round(1000 * (get_sample_pace(node_name) - EARLY_S))
    try:
        return bool(cache_server().set(f"tessera sampled {node_name}", 1, nx=True, px=pace_ms))
    except RedisError:
        return False
