"""Relays a WebSocket to an app; the browser's is accepted after the app's, and refused as the app refuses it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp

from portal.gateway.http.headers import to_program
from portal.gateway.http.relay import NotStarted
from portal.gateway.http.responses import SEALED, Answer, deny
from portal.gateway.http.scope import Receive, Request, Send
from portal.gateway.http.upstream.dialing import NOT_ANSWERING, Target
from portal.gateway.http.upstream.sockets import url_in

log = logging.getLogger("tessera.gateway")

NORMAL, BROKEN, RIGHT_ENDED = 1000, 1011, 4403
BAD_GATEWAY = 502
CLOSE_S, HANDSHAKE_S = 2, 60
UNSENDABLE = {1004, 1005, 1006, 1015}  # reserved (RFC 6455, 7.4.1)


async def relay_socket(
    session: aiohttp.ClientSession,
    target: Target,
    request: Request,
    protocols: list[str],
    receive: Receive,
    send: Send,
    until_ended: Callable[[], Awaitable[None]],
) -> None:
    """Relay until a side closes or `until_ended` returns (access ended). Raises NotStarted."""
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            program = await _connect(session, target, request, protocols)
    except aiohttp.WSServerHandshakeError as refused:
        await deny(Answer(refused.status if refused.status >= 400 else BAD_GATEWAY, list(SEALED)), send)
        return
    except NOT_ANSWERING as away:
        raise NotStarted from away
    try:
        async with program:
            await send({"type": "websocket.accept", "subprotocol": program.protocol})
            await _pump(program, receive, send, until_ended)
    except NOT_ANSWERING as away:
        log.info("a socket to an app broke off: %s", away)


async def _connect(
    session: aiohttp.ClientSession, target: Target, request: Request, protocols: list[str]
) -> aiohttp.ClientWebSocketResponse:
    """Open the app's WebSocket. Message size is unlimited here: the web server limits it, without reading ahead."""
    headers = to_program(request.headers, request.scheme, target.authorization)
    return await session.ws_connect(
        url_in(target.task, target.port, request.raw_path, request.query),
        headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers],
        protocols=protocols,
        max_msg_size=0,
        compress=0,
        timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
    )


async def _pump(
    program: aiohttp.ClientWebSocketResponse, receive: Receive, send: Send, until_ended: Callable[[], Awaitable[None]]
) -> None:
    """Copy messages both ways until a side closes or `until_ended` returns (access ended)."""
    up = asyncio.ensure_future(_to_program(receive, program))
    down = asyncio.ensure_future(_to_browser(program, send))
    ended = asyncio.ensure_future(until_ended())
    everything = {up, down, ended}
    try:
        await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        left = up.done() and not up.exception() and up.result()
        code = RIGHT_ENDED if ended.done() else _code_of(down)
    finally:
        for one in everything:
            one.cancel()
        await asyncio.gather(*everything, return_exceptions=True)
    if left:
        await program.close(code=sendable(left, NORMAL))
        return
    await send({"type": "websocket.close", "code": code})
    await program.close(code=code if code == RIGHT_ENDED else NORMAL)


def sendable(code: int, instead: int) -> int:
    return code if 1000 <= code < 5000 and code not in UNSENDABLE else instead


def _code_of(down: asyncio.Future[int]) -> int:
    return down.result() if down.done() and not down.exception() else BROKEN


async def _to_program(receive: Receive, program: aiohttp.ClientWebSocketResponse) -> int:
    """Copy messages to the app; return the browser's close code."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return message.get("code") or NORMAL
        if message.get("bytes") is not None:
            await program.send_bytes(message["bytes"])
        elif message.get("text") is not None:
            await program.send_str(message["text"])


async def _to_browser(program: aiohttp.ClientWebSocketResponse, send: Send) -> int:
    """Copy messages to the browser; return the app's close code, BROKEN if lost."""
    async for message in program:
        if message.type is aiohttp.WSMsgType.TEXT:
            await send({"type": "websocket.send", "text": message.data})
        elif message.type is aiohttp.WSMsgType.BINARY:
            await send({"type": "websocket.send", "bytes": message.data})
    code = program.close_code or BROKEN
    return NORMAL if code == 1005 else sendable(code, BROKEN)
