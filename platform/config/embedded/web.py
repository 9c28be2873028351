"""The embedded web process: uvicorn on the supervisor's sockets."""

import gc
import os
import socket

import uvicorn

from config.http_protocol import BoundedHttp

WEBSOCKET_BYTES = 64 * 1024 * 1024
"""Largest websocket message for people's own apps. The portal's own sockets take far less."""
KEEP_ALIVE_S = 75
"""Above what clients and proxies keep an idle connection: who closes first loses what is sent at that moment."""


def main() -> None:
    gc.disable()  # until all is loaded (config.lifespan): a fifth of the start was spent on looking through it
    sockets = [socket.socket(fileno=int(number)) for number in os.environ["TESSERA_LISTEN_FDS"].split(",")]
    config = uvicorn.Config(
        "config.asgi:application",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=KEEP_ALIVE_S,
        ws_per_message_deflate=False,
        http=BoundedHttp,
        ws_max_size=WEBSOCKET_BYTES,
    )
    uvicorn.Server(config).run(sockets=sockets)


if __name__ == "__main__":
    main()
