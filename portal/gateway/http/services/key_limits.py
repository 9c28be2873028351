"""Hold each key to its limits: requests a minute, and requests in flight at all gateways together."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from uuid import uuid4

from asgiref.sync import sync_to_async
from redis.exceptions import RedisError

from common.errors import TooManyRequests
from common.rates import count_use
from portal.access.services.callers import Caller
from services.key_limits import leave_place, renew_places, take_place

log = logging.getLogger("tessera.gateway")

RENEW_S = 8.0


class KeyLimits:
    """Knows which requests of this process have a place."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def admitted(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Count a request while it lasts. Raises TooManyRequests, which names the limit."""
        if caller.per_minute is None and caller.in_flight is None:
            return nullcontext()
        return self._count(caller)

    @asynccontextmanager
    async def _count(self, caller: Caller) -> AsyncIterator[None]:
        if caller.per_minute is not None:
            counted = sync_to_async(count_use, thread_sensitive=False)
            window = await counted("service key", str(caller.key), limit=caller.per_minute, per_s=60)
            if window.used > window.limit:
                raise TooManyRequests("service_key_rate", limit=window.limit, retry_after_s=window.ends_in_s)
        if caller.in_flight is None:
            yield
            return
        place = uuid4().hex
        if not await sync_to_async(take_place, thread_sensitive=False)(caller.key, place, caller.in_flight):
            raise TooManyRequests("service_key_in_flight", limit=caller.in_flight, retry_after_s=1)
        self._places[place] = caller.key
        try:
            yield
        finally:
            del self._places[place]
            await _try(leave_place, caller.key, place)

    async def renew(self) -> None:
        """Keep the places of requests that last, for as long as the process lives."""
        while True:
            await asyncio.sleep(RENEW_S)
            if self._places:
                await _try(renew_places, dict(self._places))


async def _try(act, *arguments) -> None:
    try:
        await sync_to_async(act, thread_sensitive=False)(*arguments)
    except RedisError as away:  # a place ends by itself
        log.warning("requests in flight of keys are not counted: %s", away)
