"""Wakes open sockets when a user's access must be rechecked (events.record_and_publish.recheck).

Messages may be lost, so callers also recheck periodically.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from channels.layers import get_channel_layer

log = logging.getLogger("tessera.gateway")

AGAIN_S = 5  # after the channel layer failed


class Rechecks:
    """Listens once per user with open sockets; calls `forget` with their id before waking them."""

    def __init__(self, forget: Callable[[int], None]):
        self._forget = forget
        self._bells: dict[int, set[asyncio.Event]] = {}
        self._listening: dict[int, asyncio.Task[None]] = {}

    @contextmanager
    def bell(self, user_id: int) -> Iterator[asyncio.Event]:
        """Yield an event that is set to request a recheck."""
        bell = asyncio.Event()
        self._bells.setdefault(user_id, set()).add(bell)
        if user_id not in self._listening:
            self._listening[user_id] = asyncio.create_task(self._listen(user_id))
        try:
            yield bell
        finally:
            self._bells[user_id].remove(bell)
            if not self._bells[user_id]:
                del self._bells[user_id]
                self._listening.pop(user_id).cancel()

    async def _listen(self, user_id: int) -> None:
        while True:
            try:
                await self._receive_rechecks(user_id)
            except Exception as away:
                log.warning("sockets of person %s hear nothing for now: %r", user_id, away)
                await asyncio.sleep(AGAIN_S)

    async def _receive_rechecks(self, user_id: int) -> None:
        layer, group = get_channel_layer(), f"user-{user_id}"
        channel = await layer.new_channel()
        await layer.group_add(group, channel)
        try:
            while True:
                if (await layer.receive(channel))["type"] == "recheck":
                    self._forget(user_id)
                    for bell in self._bells[user_id]:
                        bell.set()
        finally:
            await layer.group_discard(group, channel)
