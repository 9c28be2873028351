"""Connections into tasks. Never by an address: the runtime connects to a listener of this very task (Access.dial)."""

import asyncio
from collections.abc import Callable

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from runtimes.base import Access, Rejected, Unavailable

DIAL_S = 10
KEEP_S = 4  # shorter than any server keeps an idle connection, so that none dies under a request
READ_BYTES = 64 * 1024
LONGEST_HEADER = 64 * 1024

NOT_ANSWERING = (aiohttp.ClientError, OSError, TimeoutError, Unavailable)
NOT_RUNNING = Rejected
NO_EXTRAS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")  # what aiohttp would add by itself


class TaskConnector(aiohttp.BaseConnector):
    """Connections are kept by host and port, and the host is the task's uuid: none ever serves another task."""

    def __init__(self, access: Callable[[], Access]):
        super().__init__(limit=0, keepalive_timeout=KEEP_S)
        self._access = access

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
    ) -> ResponseHandler:
        async with asyncio.timeout(DIAL_S):
            connected = await self._access().dial(req.url.host or "", req.url.port or 0)
        try:
            _, protocol = await self._loop.create_connection(self._factory, sock=connected)
        except BaseException:
            connected.close()
            raise
        return protocol


def open_session(access: Callable[[], Access]) -> aiohttp.ClientSession:
    """Remembers no cookies, follows no redirect, decodes nothing: bytes go through as they are."""
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
    """http://<task>:<port>/..., with the path exactly as the browser wrote it."""
    return URL(f"http://{task}:{port}{raw_path}{'?' if query else ''}{query}", encoded=True)
