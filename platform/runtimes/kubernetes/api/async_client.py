"""Asynchronous API access: single requests, and websockets with channels (exec, port-forward)."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.kubernetes.api.client import Gone, Thing
from runtimes.kubernetes.api.credentials import Credentials, CredentialSource
from runtimes.kubernetes.api.response_handling import read_answer

Websocket = aiohttp.ClientWebSocketResponse
CONNECT_S, ANSWER_S = 5.0, 15.0
PIECE = 32 * 1024
"""Bytes per message: larger ones need larger buffers on the way."""


class AsyncClient:
    """One way to the API server; `close` also closes its websockets."""

    def __init__(self, source: CredentialSource, credentials: Credentials):
        self._source, self._credentials = source, credentials
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=credentials.tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=credentials.proxy,
        )
        self._sockets: list[Websocket] = []

    async def close(self) -> None:
        """Cut the connections first, so that nothing waits."""
        await self._http.close()
        for socket in self._sockets:
            await socket.close()

    async def get(self, path: str, query: Mapping[str, str] = {}) -> Thing:
        """Return an object or list. Raises Unavailable, as Gone if there is none."""
        try:
            async with asyncio.timeout(ANSWER_S):
                async with self._http.get(self._url(path, [*query.items()]), **self._options()) as response:
                    self._source.report_status(self._credentials, response.status)
                    body = json.loads(await response.read() or b"{}")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise self._build_error(error) from error
        answer = read_answer("GET", response.status, body)
        if answer.next_step != "done":
            raise Gone(answer.words) if answer.next_step == "gone" else Unavailable(answer.words)
        return body

    async def open(self, path: str, query: Sequence[tuple[str, str]], protocol: str) -> Websocket:
        """Open a websocket. Raises Rejected if missing, else Unavailable."""
        url, options = self._url(path, query), self._options()
        try:
            async with asyncio.timeout(ANSWER_S):
                socket = await self._http.ws_connect(url, protocols=[protocol], max_msg_size=0, **options)
        except aiohttp.WSServerHandshakeError as refused:
            self._source.report_status(self._credentials, refused.status)
            if refused.status == 404:
                raise Rejected("This task has ended.") from refused
            words = f"The cluster answered {refused.status}."
            if refused.status in (403, 422):  # 422: admission
                words += " The platform's account lacks the right to do it."
            raise Unavailable(words) from refused
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._build_error(error) from error
        self._sockets.append(socket)
        if socket.protocol != protocol:
            raise Unavailable(f"The cluster does not speak {protocol}.")
        return socket

    def _url(self, path: str, query: Sequence[tuple[str, str]]) -> URL:
        server = self._credentials.configuration.host
        return URL(f"{server}{path}?{urlencode(query, quote_via=quote)}", encoded=True)

    def _options(self) -> dict[str, Any]:
        configuration = self._credentials.configuration
        token = configuration.get_api_key_with_prefix("BearerToken")
        headers = {"Authorization": token} if token else {}
        return {"headers": headers, "server_hostname": configuration.tls_server_name}

    def _build_error(self, error: BaseException) -> Unavailable:
        self._source.report_status(self._credentials, 0)
        return Unavailable(f"The cluster does not answer: {type(error).__name__} {error}".strip()[:300])


async def open_client(source: CredentialSource) -> AsyncClient:
    """Return a client with valid credentials; a program that gives them runs beside the event loop."""
    return AsyncClient(source, await asyncio.to_thread(source.current))


async def send(socket: Websocket, channel: int, data: bytes) -> None:
    """Send data, waiting for the receiver. Errors are ignored."""
    view = memoryview(data)
    try:
        for at in range(0, len(data), PIECE):
            await socket.send_bytes(bytes([channel]) + view[at : at + PIECE])
    except (aiohttp.ClientError, OSError):
        pass


async def receive(socket: Websocket) -> tuple[int, bytes] | None:
    """Return the next non-empty (channel, data); None at the end or on errors."""
    while True:
        try:
            message = await socket.receive()
        except (aiohttp.ClientError, OSError):
            return None
        if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
            return None
        data = message.data if isinstance(message.data, bytes) else message.data.encode()
        if len(data) > 1:
            return data[0], data[1:]
