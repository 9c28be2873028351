"""What the gateway has of connections into tasks: kept ones for requests, a session for websockets."""

import asyncio
from collections.abc import Callable

import aiohttp

from portal.gateway.http.upstream.pool import ConnectionPool
from portal.gateway.http.upstream.sockets import open_session
from runtimes.contract.access import Access


class Upstream:
    def __init__(self, access: Callable[[], Access]):
        self._access = access
        self.pool = ConnectionPool(access)
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:  # made in the event loop
            self._session = open_session(self._access)
        return self._session

    async def aclose(self) -> None:
        self.pool.close()
        await asyncio.sleep(0)  # sockets are closed by the loop
        if self._session is not None:
            await self._session.close()
