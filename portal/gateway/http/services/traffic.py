"""Count what each revision answered in this process, and add it to what all processes counted, once a second."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic, time

from asgiref.sync import sync_to_async
from redis.exceptions import RedisError

from portal.gateway.http.scope import Message, Send
from portal.gateway.http.services.going_on import going_on
from services.traffic import find_bucket
from services.traffic_counts import ERRORS, REQUESTS, Counted, add_counts

log = logging.getLogger("tessera.gateway")

EVERY_S = 1.0


class TrafficCounts:
    """Counts of one process that are yet to be added to the others'."""

    def __init__(self) -> None:
        self.counts: Counter[Counted] = Counter()

    def follow(self, service: int, revision: int, send: Send) -> "Answer":
        """Follow one answer of a revision."""
        return Answer(self.counts, service, revision, send)

    @asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        """Add up each second, and at the end."""
        try:
            async with going_on(self._publish()):
                yield
        finally:
            await self.add()

    async def _publish(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.add()

    async def add(self) -> None:
        """Add what was counted since the last time."""
        if not self.counts:
            return
        counts = dict(self.counts)
        self.counts.clear()
        try:
            await sync_to_async(add_counts, thread_sensitive=False)(counts, time())
        except RedisError as away:
            log.warning("what services answered in the last second is not counted: %s", away)


class Answer:
    """One answer as it passes: counted at its first byte, or at its end if it has none."""

    def __init__(self, counts: Counter[Counted], service: int, revision: int, send: Send):
        self._counts, self._of, self._send = counts, (service, revision), send
        self._since, self._status = monotonic(), 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._count(REQUESTS)
            self._count(find_bucket(monotonic() - self._since))
            if self._status >= 500:
                self._count(ERRORS)
        await self._send(message)

    def end(self, is_whole: bool) -> None:
        """Count how it ended. is_whole: the program did not break it off, maybe before its first byte."""
        if not self._status:
            self._count(REQUESTS)
        if not is_whole and self._status < 500:
            self._count(ERRORS)
        if is_whole and not self._status:  # its caller had waited long enough, and so long did it take at least
            self._count(find_bucket(monotonic() - self._since))

    def _count(self, what: str | int) -> None:
        self._counts[(*self._of, what)] += 1
