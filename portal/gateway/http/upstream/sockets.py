"""aiohttp's sessions over connections into tasks, for websockets."""

from collections.abc import Callable

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from portal.gateway.http.upstream.dialing import LONGEST_HEADER, READ_BYTES, dial
from runtimes.contract.access import Access

NO_EXTRAS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")  # aiohttp's own


class TaskConnector(aiohttp.BaseConnector):
    """Opens a connection for each websocket. The host is the task's uuid."""

    def __init__(self, access: Callable[[], Access]):
        super().__init__(limit=0, force_close=True)
        self._access = access

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
    ) -> ResponseHandler:
        connected = await dial(self._access, req.url.host or "", req.url.port or 0)
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
