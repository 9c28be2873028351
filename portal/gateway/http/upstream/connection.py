"""One HTTP/1.1 connection into a task, for one request at a time, at the pace of who reads its answer.

The gateway's own client, for it is on the way of each request: aiohttp's takes two and a half times its processor time.
What is sent and parsed is httptools', uvicorn's own parser.
"""

import asyncio
from collections import deque

import httptools

from portal.gateway.http.upstream.dialing import LONGEST_HEADER, READ_BYTES

CONTINUE, SWITCHING, OK = 100, 101, 200


class BrokenOff(ConnectionError):
    """The program closed the connection before its answer was whole, or sent what is no HTTP."""


class ProgramConnection(asyncio.Protocol):
    """status, headers: of the answer, once `read_head` returned. has_said: whether anything of it came."""

    def __init__(self) -> None:
        self.status, self.headers = 0, list[tuple[bytes, bytes]]()
        self.has_said = self.is_whole = False
        self._transport: asyncio.Transport
        self._parser = self._new_parser()
        self._has_head = True  # it may say nothing before it is asked
        self._to_head = self._is_reusable = self._is_paused = False
        self._head_bytes = self._kept_bytes = 0
        self._pieces: deque[bytes] = deque()
        self._failed: BaseException | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._is_full = False

    # ---- for one request ----

    def begin(self, head: bytes, *, to_head: bool) -> None:
        """Send a request's head, and what of its body is there. to_head: its answer has no body (HEAD)."""
        self.status, self.headers = 0, []
        self.has_said = self.is_whole = self._has_head = self._is_reusable = False
        self._head_bytes, self._to_head = 0, to_head
        self._transport.write(head)

    async def write(self, data: bytes) -> None:
        """Send more of the body once the program has taken what was sent. Raises BrokenOff."""
        if self._is_full:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        if self._transport.is_closing():
            raise BrokenOff("It closed the connection.")
        self._transport.write(data)

    async def read_head(self) -> None:
        """Wait for the answer's status and headers. Raises BrokenOff."""
        while not self._has_head:
            await self._wait()

    async def read_piece(self) -> bytes:
        """Return what came of the answer's body, b"" at its end. Raises BrokenOff."""
        while not self._pieces:
            if self.is_whole:
                return b""
            await self._wait()
        piece = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._kept_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    @property
    def may_be_kept(self) -> bool:
        """Whether another request may be sent: this answer is whole, and it was all that came."""
        return self.is_whole and self._is_reusable and not self._pieces and not self._transport.is_closing()

    def close(self) -> None:
        """Close at once; who reads gets BrokenOff."""
        self._transport.abort()

    async def _wait(self) -> None:
        if self._failed is not None:
            raise BrokenOff(str(self._failed)) from self._failed
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _fail(self, why: BaseException) -> None:
        self._failed = self._failed or why
        self._is_reusable = False
        self._transport.abort()

    # ---- asyncio's protocol ----

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.has_said = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as wrong:
            self._fail(wrong)
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > LONGEST_HEADER:
                self._fail(BrokenOff("Its headers are too large."))
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._has_head and not self.is_whole and exc is None and self._failed is None and self._ends_by_closing():
            self.is_whole = True
        self._failed = self._failed or exc or BrokenOff("It closed the connection.")
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    # ---- the parser's callbacks ----

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        return parser

    def on_message_begin(self) -> None:
        if self._has_head:
            raise BrokenOff("It answered twice.")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if CONTINUE <= self.status < OK:
            return
        self._has_head = True
        if self._to_head:
            self.is_whole = True  # the parser waits for a body that never comes: this connection is not kept

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._kept_bytes += len(body)
        if self._kept_bytes > READ_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.status == SWITCHING:
            raise BrokenOff("It speaks another protocol, for which nobody asked.")
        if not self._has_head:  # such as 103: the answer is yet to come
            self.headers = []
            return
        self.is_whole = True
        self._is_reusable = not self._to_head and self._parser.should_keep_alive()

    def _ends_by_closing(self) -> bool:
        """Whether nothing but the connection's end tells that of the body (RFC 9112, 6.3)."""
        said = {name.lower(): value.lower() for name, value in self.headers}
        if (coding := said.get(b"transfer-encoding")) is not None:
            return not coding.endswith(b"chunked")
        return b"content-length" not in said
