"""Connections into tasks through the runtime (Access.dial), never by address."""

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

import aiohttp

from runtimes.contract.access import Access
from runtimes.contract.errors import Rejected, Unavailable

DIAL_S = 10
LONGEST_HEADER = 64 * 1024
READ_BYTES = 64 * 1024

NOT_ANSWERING = (aiohttp.ClientError, OSError, TimeoutError, Unavailable)
NOT_RUNNING = Rejected


class Target(Protocol):
    """Where a request goes. task: uuid in hex. authorization: replaces the client's, if set."""

    @property
    def task(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def authorization(self) -> str: ...


class NotDialed(aiohttp.ClientConnectionError):
    """No connection came about, so no program has seen the request; see the cause."""


async def dial(access: Callable[[], Access], task: str, port: int) -> socket.socket:
    """Return a socket that is connected to a task's port. Raises NotDialed, and NOT_RUNNING."""
    try:
        async with asyncio.timeout(DIAL_S):
            return await access().dial(task, port)
    except (OSError, TimeoutError, Unavailable) as away:
        raise NotDialed(str(away)) from away
