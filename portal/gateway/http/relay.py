"""Relays an HTTP request to an app at the slower side's pace."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import aiohttp

from portal.gateway.http.cross_origin import Headers
from portal.gateway.http.headers import to_browser, to_program
from portal.gateway.http.scope import Receive, Request, Send
from portal.gateway.http.upstream import NOT_ANSWERING, Target, url_in

AnswerHeaders = Callable[[Headers], list[tuple[bytes, bytes]]]
"""Filters a program's headers for whoever asked."""

log = logging.getLogger("tessera.gateway")


class NotStarted(Exception):
    """The app failed before a response was sent; see the cause."""


class Left(Exception):
    """The browser disconnected within its body."""


async def relay(
    session: aiohttp.ClientSession,
    target: Target,
    request: Request,
    receive: Receive,
    send: Send,
    answer_headers: AnswerHeaders = to_browser,
) -> bool:
    """Relay until the response is sent or the browser disconnects. Returns whether it is whole, or nobody reads it.

    Raises NotStarted.
    """
    body = Body(receive, request.has_body)
    passing = asyncio.ensure_future(_relay_request(session, target, request, body, send, answer_headers))
    leaving = asyncio.ensure_future(body.until_left())
    try:
        await asyncio.wait({passing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return not passing.done() or passing.result()
    finally:
        for one in (passing, leaving):
            one.cancel()
        await asyncio.gather(passing, leaving, return_exceptions=True)


class Body:
    """A request body, read as the app takes it."""

    def __init__(self, receive: Receive, expected: bool):
        self._receive = receive
        self._gone = False
        self._ended = asyncio.Event()  # read to its end, or gone before
        if not expected:
            self._ended.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone = True
                self._ended.set()
                raise Left
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                self._ended.set()
                return

    async def until_left(self) -> None:
        """Return when the browser has disconnected; waits for the body's reader, as only one may call receive."""
        await self._ended.wait()
        while not self._gone:
            if (await self._receive())["type"] == "http.disconnect":
                return


async def _relay_request(
    session: aiohttp.ClientSession,
    target: Target,
    request: Request,
    body: Body,
    send: Send,
    answer_headers: AnswerHeaders,
) -> bool:
    """Return whether the app's answer is whole."""
    started = False
    try:
        async with session.request(
            request.method,
            url_in(target.task, target.port, request.raw_path, request.query),
            headers=to_program(request.headers, request.scheme, target.authorization),
            data=body.pieces() if request.has_body else None,
            allow_redirects=False,
        ) as answer:
            await send(
                {
                    "type": "http.response.start",
                    "status": answer.status,
                    "headers": answer_headers(answer.raw_headers),
                }
            )
            started = True
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        return True
    except NOT_ANSWERING as away:
        if not started:
            raise NotStarted from away
        log.info("an app broke off its answer: %s", away)  # the closed connection shows that it is cut
        return False
