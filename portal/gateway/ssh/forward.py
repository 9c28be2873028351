"""Forwarded ports and nested logins over an SSH channel (direct-tcpip, RFC 4254 section 7.2)."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

import asyncssh

from portal.gateway.ssh.channel_flow import HELD_BYTES, Flow

PIECE_BYTES = 64 * 1024


class Forward(Flow, asyncssh.SSHTCPSession):
    """Copies bytes between a channel and a socket, which it closes."""

    def __init__(self, sock: socket.socket, touched: Callable[[], None], ended: Callable[[], None]):
        super().__init__()
        self._sock, self._touched, self._ended = sock, touched, ended
        self._work: asyncio.Task | None = None

    def touched(self) -> None:
        self._touched()

    def session_started(self) -> None:
        self._work = asyncio.create_task(self._copy_both_ways())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._ended()
        if self._work:
            self._work.cancel()
        else:
            self._sock.close()

    async def _copy_both_ways(self) -> None:
        reader, writer = await asyncio.open_connection(sock=self._sock, limit=HELD_BYTES)
        try:
            await asyncio.gather(self._copy_in(writer), self._copy_out(reader))
        except OSError:
            pass  # closing informs the other side
        finally:
            writer.close()
            self.chan.close()

    async def _copy_in(self, writer: asyncio.StreamWriter) -> None:
        while data := await self.receive():
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()

    async def _copy_out(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(PIECE_BYTES):
            await self.send(data)
        with contextlib.suppress(OSError):
            self.chan.write_eof()
