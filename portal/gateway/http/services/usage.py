"""Count the requests of each caller in this process, and add them to what is kept every few seconds."""

import asyncio
import logging
from collections import defaultdict

from channels.db import database_sync_to_async
from django.db import Error

from common.steady_clock import steady_now
from portal.gateway.http.scope import Message, Send
from services.usage import Calls, add_usage

log = logging.getLogger("tessera.gateway")

EVERY_S = 10.0
"""What a process counted within is lost if it is killed."""
STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")


class UsageCounter:
    def __init__(self) -> None:
        self._counted: dict[Calls, list[int]] = defaultdict(lambda: [0, 0])

    def watch(self, calls: Calls, send: Send) -> Send:
        """Return a `send` that counts one request once its answer starts; from 400 on it is an error."""

        async def send_counted(message: Message) -> None:
            if message["type"] in STARTS:
                counts = self._counted[calls]
                counts[0] += 1
                counts[1] += message.get("status", 0) >= 400
            await send(message)

        return send_counted

    async def store(self) -> None:
        """Store every few seconds, and once more at the end."""
        try:
            while True:
                await asyncio.sleep(EVERY_S)
                await self.add()
        finally:
            await self.add()

    async def add(self) -> None:
        """Add what was counted since the last time."""
        counted, self._counted = self._counted, defaultdict(lambda: [0, 0])
        if not counted:
            return
        try:
            today = steady_now().date()
            await database_sync_to_async(add_usage)(today, {one: (n, bad) for one, (n, bad) in counted.items()})
        except Error as away:
            log.warning("the usage of services is kept for now: %s", away)
            for one, (n, bad) in counted.items():
                self._counted[one][0] += n
                self._counted[one][1] += bad
