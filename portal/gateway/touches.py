"""Tell the idle ladder, once a minute and task, that somebody is at work in it. Nothing waits for this."""

import asyncio
import logging
from time import monotonic

from channels.db import database_sync_to_async
from django.db import DatabaseError

from monitoring.idle.touches import record_touch

log = logging.getLogger("tessera.idle")

EVERY_S = 60.0
MOST_KEPT = 10_000

_told: dict[str, float] = {}
_works: set[asyncio.Task] = set()


def touch(task: str) -> None:
    """Record it in the background, unless it was within this minute. Called for each byte that passes."""
    now = monotonic()
    if not task or now - _told.get(task, -EVERY_S) < EVERY_S:
        return
    if len(_told) >= MOST_KEPT:
        _told.clear()
    _told[task] = now
    work = asyncio.ensure_future(_record(task))
    _works.add(work)
    work.add_done_callback(_works.discard)


async def _record(task: str) -> None:
    try:
        await database_sync_to_async(record_touch)(task)
    except DatabaseError as away:  # the next minute tells again
        log.warning("nobody heard that somebody is at work: %s", away)
