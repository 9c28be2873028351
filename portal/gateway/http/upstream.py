"""HTTP connections into tasks through the runtime (Access.dial), never by address."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from runtimes.contract.access import Access
from runtimes.contract.errors import Rejected, Unavailable

DIAL_S = 10
KEEP_S = 4  # below any server's keep-alive, so that reused connections are alive
READ_BYTES = 64 * 1024
LONGEST_HEADER = 64 * 1024

NOT_ANSWERING = (aiohttp.ClientError, OSError, TimeoutError, Unavailable)
NOT_RUNNING = Rejected
NO_EXTRAS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")  # aiohttp's own


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


class TaskConnector(aiohttp.BaseConnector):
    """Pools connections by host, which is the task's uuid: no task gets another's."""

    def __init__(self, access: Callable[[], Access]):
        super().__init__(limit=0, keepalive_timeout=KEEP_S)
        self._access = access

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
    ) -> ResponseHandler:
        try:
            async with asyncio.timeout(DIAL_S):
                connected = await self._access().dial(req.url.host or "", req.url.port or 0)
        except (OSError, TimeoutError, Unavailable) as away:
            raise NotDialed(str(away)) from away
        try:
            _, protocol = await self._loop.create_connection(self._factory, sock=connected)
        except BaseException:
            connected.close()
            raise
        return protocol


def open_session(access: Callable[[], Access]) -> aiohttp.ClientSession:
    """Return a session that passes data unchanged: no cookies, redirects or decompression."""
    return aiohttp.ClientSession(
        connector=TaskConnector(access),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=READ_BYTES,
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
        skip_auto_headers=NO_EXTRAS,
    )


def url_in(task: str, port: int, raw_path: str, query: str) -> URL:
    """Return a URL into the task, the path exactly as sent."""
    return URL(f"http://{task}:{port}{raw_path}{'?' if query else ''}{query}", encoded=True)
