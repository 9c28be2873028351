"""A pod's port through the API server's port-forward, as a local socket.

Only failures are reported, on channel 1; there is no half-close.
Source: k8s.io/kubelet/pkg/cri/streaming/portforward (v4.channel.k8s.io; each channel starts with the port's number).
"""

import asyncio
import contextlib
import socket

from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.async_client import PIECE, AsyncClient, Websocket, receive, send

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
REFUSED = "refused"
_pumps: set[asyncio.Task] = set()


class PortForward:
    """A forwarded connection that may still be refused."""

    def __init__(self, client: AsyncClient, websocket: Websocket):
        self._client, self._websocket = client, websocket
        self._opened: set[int] = set()
        self._first: asyncio.Task[tuple[int, bytes] | None] | None = None

    async def check_port(self, wait_s: float) -> None:
        """Raise ConnectionRefusedError if the engine reports a closed port within wait_s; or Unavailable."""
        self._first = asyncio.create_task(self._receive_message())
        done, _ = await asyncio.wait([self._first], timeout=wait_s)
        if done and (message := self._first.result()) is not None and message[0] == ERROR:
            raise build_refusal(message[1])

    def open_socket(self) -> socket.socket:
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
            await self._client.close()

    async def _send(self, ours: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(ours, PIECE):
                await send(self._websocket, DATA, data)

    async def _receive(self, ours: socket.socket) -> None:
        loop, message = asyncio.get_running_loop(), await (self._first or self._receive_message())
        while message is not None and message[0] == DATA:
            await loop.sock_sendall(ours, message[1])
            message = await self._receive_message()

    async def _receive_message(self) -> tuple[int, bytes] | None:
        """Return the next message after each channel's port number."""
        while (message := await receive(self._websocket)) is not None:
            if message[0] in self._opened:
                return message
            self._opened.add(message[0])
            if len(message[1]) > 2:
                return message[0], message[1][2:]
        return None


async def open_port_forward(client: AsyncClient, path: str, port: int) -> PortForward:
    """Open the pod's portforward path. Raises Rejected, Unavailable."""
    return PortForward(client, await client.open(path, [("ports", str(port))], PROTOCOL))


def build_refusal(words: bytes) -> Exception:
    said = words.decode(errors="replace")
    return ConnectionRefusedError(said) if REFUSED in said else Unavailable(f"The port cannot be reached: {said[:300]}")
