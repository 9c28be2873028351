"""A pod's port through the API server's port-forward, as a local socket.

Only failures are reported, on channel 1; there is no half-close.
Source: k8s.io/kubelet/pkg/cri/streaming/portforward (v4.channel.k8s.io; each channel starts with the port's number).
"""

import asyncio
import contextlib
import socket

import aiohttp

from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.async_client import PIECE, AsyncClient, receive, send

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
REFUSED = "refused"
_pumps: set[asyncio.Task] = set()


class Forward:
    """A forwarded connection that may still be refused."""

    def __init__(self, wire: AsyncClient, line: aiohttp.ClientWebSocketResponse):
        self._wire, self._line = wire, line
        self._greeted: set[int] = set()
        self._first: asyncio.Task[tuple[int, bytes] | None] | None = None

    async def find_out(self, wait_s: float) -> None:
        """Raise ConnectionRefusedError if the engine reports a closed port within wait_s; or Unavailable."""
        self._first = asyncio.create_task(self._hear())
        done, _ = await asyncio.wait([self._first], timeout=wait_s)
        if done and (heard := self._first.result()) is not None and heard[0] == ERROR:
            raise refusal(heard[1])

    def carry(self) -> socket.socket:
        """Return a socket whose bytes are pumped until either end closes."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        pump = asyncio.create_task(self._pump(ours))
        _pumps.add(pump)  # the loop keeps only weak references
        pump.add_done_callback(_pumps.discard)
        return theirs

    async def _pump(self, ours: socket.socket) -> None:
        sending = asyncio.create_task(self._send(ours))
        try:
            await self._receive(ours)
        except OSError:
            pass  # our reader is gone
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            ours.close()
            await self._wire.close()

    async def _send(self, ours: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(ours, PIECE):
                await send(self._line, DATA, data)

    async def _receive(self, ours: socket.socket) -> None:
        loop, heard = asyncio.get_running_loop(), await (self._first or self._hear())
        while heard is not None and heard[0] == DATA:
            await loop.sock_sendall(ours, heard[1])
            heard = await self._hear()

    async def _hear(self) -> tuple[int, bytes] | None:
        """Return the next message after each channel's port number."""
        while (heard := await receive(self._line)) is not None:
            if heard[0] in self._greeted:
                return heard
            self._greeted.add(heard[0])
            if len(heard[1]) > 2:
                return heard[0], heard[1][2:]
        return None


async def open_forward(wire: AsyncClient, path: str, port: int) -> Forward:
    """Open the pod's portforward path. Raises Rejected, Unavailable."""
    return Forward(wire, await wire.open(path, [("ports", str(port))], PROTOCOL))


def refusal(words: bytes) -> Exception:
    said = words.decode(errors="replace")
    return ConnectionRefusedError(said) if REFUSED in said else Unavailable(f"The port cannot be reached: {said[:300]}")
