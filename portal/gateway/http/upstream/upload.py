"""A request's body on its way to an app, and the watch for a browser that leaves before its answer."""

import asyncio

from portal.gateway.http.scope import Receive
from portal.gateway.http.upstream.connection import BrokenOff, ProgramConnection
from portal.gateway.http.upstream.request_head import RequestHead

WATCH_AFTER_S = 0.05
"""How long an answer may take before somebody looks whether the browser has left: most are quicker."""
LAST_CHUNK = b"0\r\n\r\n"


class Upload:
    """left: the browser disconnected, and the connection was closed for it."""

    def __init__(self, connection: ProgramConnection, receive: Receive):
        self.left = False
        self._connection, self._receive = connection, receive
        self._is_sent = False
        self._work: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    async def begin(self, head: RequestHead) -> None:
        """Send the head and the first of the body; the rest follows while the answer is read. Raises BrokenOff."""
        piece, more = await self._read(head) if head.has_body else (b"", False)
        self._connection.begin(head.data + piece, to_head=head.to_head)
        if more:
            self._work = asyncio.create_task(self._send_rest(head))
        else:
            self._is_sent = True
            self._later = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._watch)

    async def stop(self) -> bool:
        """Stop sending and watching. Returns whether the whole body was sent."""
        if self._later is not None:
            self._later.cancel()
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        return self._is_sent

    async def _send_rest(self, head: RequestHead) -> None:
        more = True
        try:
            while more:
                piece, more = await self._read(head)
                await self._connection.write(piece)
        except BrokenOff:  # who reads the answer tells of it
            return
        self._is_sent = True
        await self._until_left()

    async def _read(self, head: RequestHead) -> tuple[bytes, bool]:
        """Return a piece of the body as it is sent, and whether there is more. Raises BrokenOff if the browser left."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._leave()
            raise BrokenOff("The browser left.")
        piece, more = message.get("body", b""), message.get("more_body", False)
        if head.is_chunked:
            piece = (b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"") + (b"" if more else LAST_CHUNK)
        return piece, more

    def _watch(self) -> None:
        self._work = asyncio.create_task(self._until_left())

    async def _until_left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._leave()

    def _leave(self) -> None:
        self.left = True
        self._connection.close()
