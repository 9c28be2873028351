"""uvicorn's HTTP with an end to what a visitor may send or hold before anybody is asked."""

import asyncio
from asyncio.events import TimerHandle

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_BYTES = 64 * 1024
PATIENCE_S = 20
HEAD_TOO_LARGE = b"The headers of this request are larger than 64 KiB. Send fewer or shorter ones; cookies count, too."
HEAD_TOO_SLOW = b"The headers of this request did not arrive within 20 seconds. Send the request again."


class HeadTooLarge(Exception):
    """Ends the parser, whose error is answered in send_400_response."""


class BoundedHttp(HttpToolsProtocol):
    """Headers end at 64 KiB and after 20 s, and so does a body that goes on after its answer.

    How long a body may take before its answer is up to who reads it: BodyLimit for the portal, and people's apps.
    """

    in_head, head_bytes, too_large = True, 0, False
    timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.in_head:
            self.head_bytes += len(data)
            if self.timer is None:  # also for empty lines, with which no request begins
                self._wait()
        super().data_received(data)
        if self.in_head and self.head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431, HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Wait for the rest of a head, which may have come with the end of the request before it."""
        super().on_message_begin()
        self.head_bytes = max(self.head_bytes, 1)
        if self.timer is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._wait_no_more()
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_BYTES:
            self.too_large = True
            raise HeadTooLarge
        self.in_head, self.head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._wait_no_more()
        self.in_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.in_head:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refused, which HeadTooLarge also ends."""
        if self.too_large:
            self._refuse(431, HEAD_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def _wait(self) -> None:
        self._wait_no_more()
        self.timer = self.loop.call_later(PATIENCE_S, self._give_up)

    def _wait_no_more(self) -> None:
        if self.timer:
            self.timer.cancel()
        self.timer = None

    def _give_up(self) -> None:
        """Close. Only who has sent a part of a request gets an answer: browsers open connections ahead."""
        if self.in_head and self.head_bytes:
            self._refuse(408, HEAD_TOO_SLOW)
        self.transport.close()

    def _refuse(self, status: int, words: bytes) -> None:
        about = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(
            words
        )
        self.transport.write(STATUS_LINE[status] + about + words)
        self.transport.close()
