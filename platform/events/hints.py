"""Ask a loop to look now, by one message for all who ask before it does.

Each commit asks. On a busy cluster that would be dozens of messages a second that say the same, and whatever else the
workers are there for would wait behind them. A hint may be lost: the loops run every second anyway.
"""

import logging

from celery import current_app
from redis.exceptions import RedisError

from common.cache_server import cache_server

log = logging.getLogger("tessera.bus")

WAITS_S = 1.0
"""A message that nobody took within this was lost, or met one who leads and will look once more: one more may go."""
EXPIRES_S = 5


def ask(loop: str) -> None:
    """Raises kombu's OperationalError where the broker is away."""
    if _is_first(loop):
        current_app.send_task(f"scheduler.tasks.{loop}", queue="scheduler", expires=EXPIRES_S, retry=False)


def heed(loop: str) -> None:
    """It is about to look: who asks from now on asks for another look."""
    try:
        cache_server().delete(_key(loop))
    except RedisError:
        pass  # the mark ends by itself


def _is_first(loop: str) -> bool:
    try:
        return bool(cache_server().set(_key(loop), 1, nx=True, px=round(1000 * WAITS_S)))
    except RedisError as away:
        log.debug("whether %s was asked already is not known: %s", loop, away)
        return True


def _key(loop: str) -> str:
    return f"asked:{loop}"
