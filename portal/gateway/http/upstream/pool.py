"""Connections to programs that are kept for a while, by task and port: no task gets another's."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from time import monotonic

from portal.gateway.http.upstream.connection import ProgramConnection
from portal.gateway.http.upstream.dialing import Target, dial
from runtimes.contract.access import Access

KEEP_S = 4
"""Below any server's keep-alive, so that a kept connection is alive."""


class ConnectionPool:
    def __init__(self, access: Callable[[], Access]):
        self._access = access
        self._kept: dict[tuple[str, int], deque[tuple[float, ProgramConnection]]] = defaultdict(deque)
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, target: Target) -> ProgramConnection | None:
        """Return a kept connection that is still open, the newest, if there is one."""
        kept = self._kept.get((target.task, target.port))
        while kept:
            since, connection = kept.pop()
            if monotonic() < since + KEEP_S and connection.may_be_kept:
                return connection
            connection.close()
        return None

    async def open(self, target: Target) -> ProgramConnection:
        """Open a connection. Raises NotDialed, and NOT_RUNNING."""
        connected = await dial(self._access, target.task, target.port)
        try:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(ProgramConnection, sock=connected)
        except BaseException:
            connected.close()
            raise
        return connection

    def give_back(self, target: Target, connection: ProgramConnection) -> None:
        """Keep a connection for the next request if its answer came whole; else close it."""
        if not connection.may_be_kept:
            connection.close()
            return
        self._kept[(target.task, target.port)].append((monotonic(), connection))
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(KEEP_S, self._close_old)

    def close(self) -> None:
        """Close all that are kept."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep = None
        for kept in self._kept.values():
            for _, connection in kept:
                connection.close()
        self._kept.clear()

    def _close_old(self) -> None:
        self._sweep, now = None, monotonic()
        for where, kept in list(self._kept.items()):
            while kept and now >= kept[0][0] + KEEP_S:
                kept.popleft()[1].close()
            if not kept:
                del self._kept[where]
        if self._kept:
            self._sweep = asyncio.get_running_loop().call_later(KEEP_S, self._close_old)
