"""The process that bench/gateway.py measures: the real gateway and server, with every secret open to one program.

python -m bench._gateway_server PORT PROGRAM_PORT
"""

import asyncio
import socket
import sys

import django
import uvicorn

django.setup()  # loads the apps: the imports below need them

from config.web import WEBSOCKET_BYTES  # noqa: E402
from portal.app_sessions import Visit  # noqa: E402
from portal.gateway.gateway import Gateway  # noqa: E402
from portal.gateway.scope import Message, Receive, Send  # noqa: E402


class OneProgram:
    """Stands for the runtime's way into tasks: every task is the program at this port."""

    def __init__(self, port: int):
        self.port = port

    async def dial(self, uuid: str, port: int) -> socket.socket:
        end = socket.socket()
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", self.port))
        return end


async def no_portal(scope: Message, receive: Receive, send: Send) -> None:
    raise RuntimeError("only the hosts of apps are measured")


def main(port: int, program_port: int) -> None:
    visit = Visit(1, "", "f" * 32, program_port, "", "job-1", "/j/job-1/")
    gateway = Gateway(no_portal, lambda: OneProgram(program_port), lambda label, secret: visit)
    uvicorn.run(
        gateway,
        host="127.0.0.1",
        port=port,
        access_log=False,
        log_level="error",
        lifespan="off",
        ws_per_message_deflate=False,
        ws_max_size=WEBSOCKET_BYTES,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
