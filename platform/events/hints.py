"""Hints that ask a loop to run, one message at a time: every commit asks."""

import logging

from celery import current_app
from redis.exceptions import RedisError

from common.cache_server import cache_server

log = logging.getLogger("tessera.bus")

WAITS_S = 1.0
"""After this another message may be sent: the first was lost, or met a leader that will look once more."""
EXPIRES_S = 5


def request_run(loop: str) -> None:
    """Send the loop's task unless asked already. Raises OperationalError."""
    if _is_first(loop):
        current_app.send_task(f"scheduler.tasks.{loop}", queue="scheduler", expires=EXPIRES_S, retry=False)


def clear_hint(loop: str) -> None:
    """Clear the mark before reading the database, so later changes ask again."""
    try:
        cache_server().delete(_key(loop))
    except RedisError:
        pass  # the mark expires by itself


def _is_first(loop: str) -> bool:
    try:
        return bool(cache_server().set(_key(loop), 1, nx=True, px=round(1000 * WAITS_S)))
    except RedisError as away:
        log.debug("whether %s was asked already is not known: %s", loop, away)
        return True


def _key(loop: str) -> str:
    return f"asked:{loop}"
