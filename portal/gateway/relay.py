"""One HTTP request through to the program and its answer back, no faster than the slower side takes it."""

import asyncio
import logging
from collections.abc import AsyncIterator

import aiohttp

from portal.app_sessions import Visit
from portal.gateway.headers import to_browser, to_program
from portal.gateway.scope import Receive, Request, Send
from portal.gateway.upstream import NOT_ANSWERING, url_in

log = logging.getLogger("tessera.gateway")


class NotStarted(Exception):
    """Nothing was answered to the browser yet. The cause says why."""


class Left(Exception):
    """The browser is gone in the middle of what it sends."""


async def relay(session: aiohttp.ClientSession, visit: Visit, request: Request, receive: Receive, send: Send) -> None:
    """Until the answer is sent, or the browser leaves: then the program's connection is closed too.

    Raises NotStarted where the program does not answer.
    """
    body = Body(receive, request.has_body)
    passing = asyncio.ensure_future(_pass(session, visit, request, body, send))
    leaving = asyncio.ensure_future(body.until_left())
    try:
        await asyncio.wait({passing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if passing.done():
            passing.result()
    finally:
        for one in (passing, leaving):
            one.cancel()
        await asyncio.gather(passing, leaving, return_exceptions=True)


class Body:
    """What the browser sends, taken piece by piece as the program reads it."""

    def __init__(self, receive: Receive, expected: bool):
        self._receive = receive
        self._read = asyncio.Event()
        self._gone = asyncio.Event()
        if not expected:
            self._read.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone.set()
                raise Left
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                self._read.set()
                return

    async def until_left(self) -> None:
        """Returns when the browser hung up. While a body is read, its reader finds that out."""
        read, gone = asyncio.ensure_future(self._read.wait()), asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({read, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            read.cancel()
            gone.cancel()
        while not self._gone.is_set():
            if (await self._receive())["type"] == "http.disconnect":
                return


async def _pass(session: aiohttp.ClientSession, visit: Visit, request: Request, body: Body, send: Send) -> None:
    started = False
    try:
        async with session.request(
            request.method,
            url_in(visit.task, visit.port, request.raw_path, request.query),
            headers=to_program(request.headers, request.scheme, visit.authorization),
            data=body.pieces() if request.has_body else None,
            allow_redirects=False,
        ) as answer:
            await send(
                {
                    "type": "http.response.start",
                    "status": answer.status,
                    "headers": to_browser(answer.raw_headers),
                }
            )
            started = True
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
    except NOT_ANSWERING as away:
        if not started:
            raise NotStarted from away
        log.info("an app broke off its answer: %s", away)  # the connection is closed: the browser sees it is not whole
