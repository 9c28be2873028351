"""A port of a pod through the API server: a websocket whose ends are a socket of this process and one of the pod's.

The engine connects to the pod's own loopback, and says on channel 1 where it could not; of a success it says nothing.
Source of the protocol: k8s.io/kubelet/pkg/cri/streaming/portforward (v4.channel.k8s.io; each channel's first message
is the port's number). It knows no half-closed connection: what we end, we end both ways once the pod has ended too.
"""

import asyncio
import contextlib
import socket

import aiohttp

from runtimes.base import Unavailable
from runtimes.kubernetes.wire import PIECE, Wire, receive, send

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
REFUSED = "refused"
_pumps: set[asyncio.Task] = set()


class Forward:
    """A connection to a port, that may still turn out to be none."""

    def __init__(self, wire: Wire, line: aiohttp.ClientWebSocketResponse):
        self._wire, self._line = wire, line
        self._greeted: set[int] = set()
        self._first: asyncio.Task[tuple[int, bytes] | None] | None = None

    async def find_out(self, wait_s: float) -> None:
        """Raises ConnectionRefusedError where nobody listens, if the engine says so within wait_s, and Unavailable."""
        self._first = asyncio.create_task(self._hear())
        done, _ = await asyncio.wait([self._first], timeout=wait_s)
        if done and (heard := self._first.result()) is not None and heard[0] == ERROR:
            raise refusal(heard[1])

    def carry(self) -> socket.socket:
        """The other end of it. From now on it looks after itself."""
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
            pass  # who asked for it is gone
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
        """Until the pod's end is closed, or ours is."""
        loop, heard = asyncio.get_running_loop(), await (self._first or self._hear())
        while heard is not None and heard[0] == DATA:
            await loop.sock_sendall(ours, heard[1])
            heard = await self._hear()

    async def _hear(self) -> tuple[int, bytes] | None:
        """The next message but for the greetings."""
        while (heard := await receive(self._line)) is not None:
            if heard[0] in self._greeted:
                return heard
            self._greeted.add(heard[0])
            if len(heard[1]) > 2:
                return heard[0], heard[1][2:]
        return None


async def open_forward(wire: Wire, path: str, port: int) -> Forward:
    """path: of the pod's portforward. Raises Rejected, Unavailable."""
    return Forward(wire, await wire.open(path, [("ports", str(port))], PROTOCOL))


def refusal(words: bytes) -> Exception:
    said = words.decode(errors="replace")
    return ConnectionRefusedError(said) if REFUSED in said else Unavailable(f"The port cannot be reached: {said[:300]}")
