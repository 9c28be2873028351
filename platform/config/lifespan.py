"""ASGI lifespan: what runs beside the web process's requests."""

import gc
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

from django.conf import settings

from monitoring.presence import present
from portal.gateway.ssh import server

log = logging.getLogger("tessera.web")


class Lifespan:
    """Runs context managers for the process's life; failures are logged."""

    def __init__(self, *blocks: Callable[[], AbstractAsyncContextManager]):
        self._blocks = blocks

    async def __call__(self, scope: dict, receive: Callable[[], Awaitable], send: Callable[[Any], Awaitable]) -> None:
        async with AsyncExitStack() as stack:
            await receive()
            for block in self._blocks:
                try:
                    await stack.enter_async_context(block())
                except Exception:
                    log.exception("a part of the web process could not be started")
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


SELDOM = (10_000, 20, 20)
"""New objects until the youngest are looked through, and how many such looks until the older ones are."""


@asynccontextmanager
async def lasting_objects() -> AsyncIterator[None]:
    """Load all views, and let the garbage collector pass over what was loaded and stays for good.

    A full collection stops every request: for 200 ms among all modules, for 10 ms without them. It looks less often:
    requests make hundreds of objects that do not last, and looking took an eighth of the time at the door of services.
    """
    usual = gc.get_threshold()
    try:
        import_module(settings.ROOT_URLCONF)
        gc.collect()
        gc.freeze()
    finally:
        gc.set_threshold(*SELDOM)
        gc.enable()
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


@asynccontextmanager
async def presence() -> AsyncIterator[None]:
    """Say that this web process is there."""
    with present("web", settings.TESSERA_WEB_METRICS):
        yield


def ssh_gateway() -> AbstractAsyncContextManager:
    """Return the SSH gateway on the supervisor's sockets, or its own."""
    numbers = [int(number) for number in os.environ.get("TESSERA_SSH_FDS", "").split(",") if number]
    sockets = [socket.socket(fileno=number) for number in numbers]
    if settings.TESSERA_SSH_PORT and not sockets:
        sockets = [server.bind(settings.TESSERA_SSH_HOST, settings.TESSERA_SSH_PORT)]
    return server.serve(sockets) if sockets else AsyncExitStack()
