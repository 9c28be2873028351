"""A web server inside a test, and the way into tasks that are sockets of this machine."""

import asyncio
import socket
from contextlib import nullcontext

import uvicorn

from runtimes.contract.errors import Rejected


class Server(uvicorn.Server):
    def capture_signals(self):
        return nullcontext()  # they are pytest's


class Sockets:
    """The way into tasks, as the runtime's: a task is known or not, and answers where it listens."""

    def __init__(self):
        self.tasks: dict[str, dict[int, int]] = {}  # {task: {its port: the port that really listens}}
        self.dialled: list[tuple[str, int]] = []

    async def dial(self, uuid, port):
        self.dialled.append((uuid, port))
        if uuid not in self.tasks:
            raise Rejected("There is no such task here.")
        if port not in self.tasks[uuid]:
            raise ConnectionRefusedError(111, "nobody listens")
        end = socket.socket()
        end.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", self.tasks[uuid][port]))
        except OSError:
            end.close()
            raise
        return end
