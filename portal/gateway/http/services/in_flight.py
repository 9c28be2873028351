"""Count what this process holds and has passed on, and publish it to the controller."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

from asgiref.sync import sync_to_async
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from events.record_and_publish import request_run
from portal.gateway.http.services.going_on import going_on
from services.in_flight import publish_counts, withdraw_counts
from services.services import LOOP

log = logging.getLogger("tessera.gateway")

EVERY_S, PAUSE_S = 1.0, 0.05
"""How often it is said at least, and at most: requests that come and go are many."""


class Counted:
    """Counts one request while it lasts; no generator, for each request is counted twice."""

    __slots__ = ("_counts", "_news", "_pk")

    def __init__(self, counts: Counter[int], pk: int, news: asyncio.Event):
        self._counts, self._pk, self._news = counts, pk, news

    def __enter__(self) -> None:
        self._counts[self._pk] += 1

    def __exit__(self, *_: object) -> None:
        self._counts[self._pk] -= 1
        if not self._counts[self._pk]:
            del self._counts[self._pk]
            self._news.set()  # else it counts as busy for a second more, and is not put to sleep


class InFlight:
    """services: requests by service, held ones too. replicas: those passed on. held: those that wait."""

    def __init__(self) -> None:
        self.services: Counter[int] = Counter()
        self.replicas: Counter[int] = Counter()
        self.held: Counter[int] = Counter()
        self._called: set[int] = set()  # services that had a request since it was published
        self._process = uuid4().hex
        self._news = asyncio.Event()
        self._waits = False

    def counted(self, counts: Counter[int], pk: int) -> "Counted":
        """Count one request while the block lasts."""
        if counts is self.services:
            self._called.add(pk)
        return Counted(counts, pk, self._news)

    def wake(self) -> None:
        """Tell the controller at once: a request waits."""
        self._waits = True
        self._news.set()

    @asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        """Publish every second, and at once where a request waits or the last one has ended."""
        try:
            async with going_on(self._publish()):
                yield
        finally:
            await _try(withdraw_counts, self._process)

    async def _publish(self) -> None:
        while True:
            asked, self._waits = self._waits, False
            self._news.clear()
            services = {**dict.fromkeys(self._called, 1), **self.services}  # a short request is seen, too
            self._called.clear()
            await _try(publish_counts, self._process, services, dict(self.replicas))
            if asked:
                await _try(request_run, LOOP)
            await asyncio.sleep(PAUSE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), EVERY_S)


async def _try(act, *arguments) -> None:
    try:
        await sync_to_async(act, thread_sensitive=False)(*arguments)
    except (RedisError, OperationalError) as away:  # the next second says it again
        log.warning("the controller of services hears nothing for now: %s", away)
