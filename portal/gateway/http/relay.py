"""Relays an HTTP request to an app at the slower side's pace."""

import logging
from collections.abc import Callable

from portal.gateway.http.cross_origin import Headers
from portal.gateway.http.headers import to_browser
from portal.gateway.http.scope import Receive, Request, Send
from portal.gateway.http.upstream.connection import BrokenOff, ProgramConnection
from portal.gateway.http.upstream.dialing import NotDialed, Target
from portal.gateway.http.upstream.pool import ConnectionPool
from portal.gateway.http.upstream.request_head import build_head
from portal.gateway.http.upstream.upload import Upload

AnswerHeaders = Callable[[Headers], list[tuple[bytes, bytes]]]
"""Filters a program's headers for whoever asked."""
REPEATED = {"GET", "HEAD", "OPTIONS"}
"""Sent once more where a kept connection closed before it said anything (RFC 9110, 9.2.2)."""

log = logging.getLogger("tessera.gateway")


class NotStarted(Exception):
    """The app failed before a response was sent; see the cause."""


async def relay(
    pool: ConnectionPool,
    target: Target,
    request: Request,
    receive: Receive,
    send: Send,
    answer_headers: AnswerHeaders = to_browser,
) -> bool:
    """Relay until the response is sent or the browser disconnects. Returns whether it is whole, or nobody reads it.

    Raises NotStarted, NOT_RUNNING.
    """
    connection = pool.take(target)
    if connection is not None and request.method in REPEATED and not request.has_body:
        try:
            return await _pass_on(pool, target, connection, request, receive, send, answer_headers)
        except NotStarted:
            if connection.has_said:
                raise
            connection = None
    if connection is None:
        try:
            connection = await pool.open(target)
        except NotDialed as away:
            raise NotStarted from away
    return await _pass_on(pool, target, connection, request, receive, send, answer_headers)


async def _pass_on(
    pool: ConnectionPool,
    target: Target,
    connection: ProgramConnection,
    request: Request,
    receive: Receive,
    send: Send,
    answer_headers: AnswerHeaders,
) -> bool:
    upload, started = Upload(connection, receive), False
    try:
        await upload.begin(build_head(request, target.authorization))
        await connection.read_head()
        headers = answer_headers(connection.headers)
        await send({"type": "http.response.start", "status": connection.status, "headers": headers})
        started = True
        while not connection.is_whole:
            if piece := await connection.read_piece():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": await connection.read_piece()})
        return True
    except BrokenOff as away:
        if upload.left:
            return True
        if not started:
            raise NotStarted from away
        log.info("an app broke off its answer: %s", away)  # the closed connection shows that it is cut
        return False
    finally:
        if await upload.stop():
            pool.give_back(target, connection)
        else:
            connection.close()
