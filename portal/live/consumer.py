"""The live websocket: change messages, heartbeats and logs.

To the browser: {"touched": ["job-412", "queue"]}, {"now": iso, "away": seconds without database}, {"pong": n},
messages of portal.live.log_tail, and {"log": uuid, "refused": pointer, "detail": sentence}; {"samples": …} of what is
watched (portal.live.sample_ticks), {"samples_missed": true}, and {"watched": names}, without what may not be seen.
From it: {"ping": n}, {"follow": task uuid, "offset": n}, {"unfollow": uuid}, {"ack": n, "log": uuid}, {"watch": names},
{"unwatch": names}.
Of changes only the names of objects are sent; the browser fetches the page again.
"""

import asyncio
import json
import logging
from collections.abc import Coroutine
from datetime import UTC, datetime
from time import monotonic
from uuid import UUID

from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings

from common.errors import FieldError
from portal.access.origin import comes_from_our_page
from portal.error_pages import DATABASE_ERRORS
from portal.live.log_tail import LogTail
from portal.live.rights import find_watched, read_rights, sees_task
from portal.live.sample_hub import Watcher, the_hub
from portal.wording.errors import describe_field_error
from runtimes.log_store import LogStore

log = logging.getLogger("tessera.live")

GATHER_S = 0.2
HEARTBEAT_S = 15
RECHECK_EVERY = 2  # heartbeats
MOST_FOLLOWED = MOST_WATCHED = 8
LONGEST_MESSAGE = 1024
FURTHEST = 2**63 - 1  # bytes of a file
SIGNED_OUT, NOT_UNDERSTOOD, RIGHTS_CHANGED = 4401, 4400, 4403
TRY_LATER = 1013


class LiveConsumer(AsyncJsonWebsocketConsumer):
    async def connect(self) -> None:
        self.touched: set[str] = set()
        self.running: set[asyncio.Task] = set()
        self.tails: dict[str, LogTail] = {}
        self.watcher: Watcher | None = None
        self.rights, self.away = None, False
        if not comes_from_our_page(self.scope["headers"]):
            await self.close()
            return
        try:
            self.rights = await read_rights(self.scope["session"].session_key)
        except DATABASE_ERRORS as away:
            log.warning("nobody knows who listens: %s", away)
            await self.close(TRY_LATER)
            return
        self.answered = monotonic()
        if self.rights is None:
            await self.accept()  # close codes reach only accepted sockets
            await self.close(SIGNED_OUT)
            return
        for group in self.rights.groups:  # before accepting, to miss nothing
            await self.channel_layer.group_add(group, self.channel_name)
        await self.accept()
        self._spawn(self._pulse())

    async def disconnect(self, code: int) -> None:
        if self.watcher is not None:
            the_hub().leave(self.watcher)
        for task in self.running:
            task.cancel()
        for group in self.rights.groups if self.rights else ():
            await self.channel_layer.group_discard(group, self.channel_name)

    # ---- from the channel layer ----

    async def touch(self, message: dict) -> None:
        """Handle a change of an object, or of a shared page by its kind."""
        if not self.touched:
            self._spawn(self._send_changes_soon())
        self.touched.add(message["id"] or message["kind"])

    async def recheck(self, message: dict) -> None:
        """Handle a sign-out, suspension or team change at once."""
        await self._check_rights()

    # ---- from the browser ----

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: object) -> None:
        message = _read(text_data or "")
        if not isinstance(message, dict) or self.rights is None:
            await self.close(NOT_UNDERSTOOD)
            return
        for word, answer in self._answers.items():
            if word in message:
                await answer(self, message)

    async def _ping(self, message: dict) -> None:
        await self.send_json({"pong": message["ping"] if isinstance(message["ping"], int) else 0})

    async def _follow(self, message: dict) -> None:
        """Stream a log from `offset`; if repeated, again from there."""
        task, offset = _uuid(message["follow"]), message.get("offset", 0)
        if task is None or not await sees_task(self.rights, task):
            await self.send_json({"log": message["follow"] if task else "", "missing": True})
            return
        if not isinstance(offset, int) or abs(offset) > FURTHEST:
            wrong = FieldError("/offset", "out_of_range", {"min": -FURTHEST, "max": FURTHEST})
            await self.send_json({"log": task, "refused": "/offset", "detail": describe_field_error(wrong)})
            return
        await self._drop(task)
        if len(self.tails) >= MOST_FOLLOWED:
            await self._drop(next(iter(self.tails)))
        tail = LogTail(LogStore(settings.TESSERA_LOGS), task, offset, self.send_json)
        self.tails[task] = tail
        tail.running = self._spawn(tail.run())

    async def _unfollow(self, message: dict) -> None:
        await self._drop(_uuid(message["unfollow"]))

    async def _ack(self, message: dict) -> None:
        tail = self.tails.get(_uuid(message.get("log")) or "")
        if tail and isinstance(message["ack"], int):
            tail.acknowledge(message["ack"])

    async def _watch(self, message: dict) -> None:
        """Send the samples of these, too; of more than MOST_WATCHED, the newest that were asked for."""
        now = self.watcher.subjects if self.watcher is not None else {}
        asked = [name for name in now if name not in _names(message["watch"])] + _names(message["watch"])
        await self._watch_only(asked[-MOST_WATCHED:])
        await self.send_json({"watched": list(self.watcher.subjects) if self.watcher is not None else []})

    async def _unwatch(self, message: dict) -> None:
        if self.watcher is not None:
            left = self.watcher.subjects.keys() - set(_names(message["unwatch"]))
            await self._watch_only([name for name in self.watcher.subjects if name in left])

    _answers = {
        "ping": _ping,
        "follow": _follow,
        "unfollow": _unfollow,
        "ack": _ack,
        "watch": _watch,
        "unwatch": _unwatch,
    }

    # ---- by itself ----

    async def _send_changes_soon(self) -> None:
        await asyncio.sleep(GATHER_S)
        touched, self.touched = sorted(self.touched), set()
        await self.send_json({"touched": touched})

    async def _pulse(self) -> None:
        beats = 0
        while True:
            away = {"away": max(1, round(monotonic() - self.answered))} if self.away else {}
            await self.send_json({"now": datetime.now(UTC).isoformat(), **away})
            await asyncio.sleep(HEARTBEAT_S)
            beats += 1
            if beats % RECHECK_EVERY == 0:
                await self._check_rights()

    async def _check_rights(self) -> None:
        """Close if the session ended or its rights changed."""
        try:
            now = await read_rights(self.scope["session"].session_key)
        except DATABASE_ERRORS as away:
            log.warning("rights are looked at later: %s", away)
            self.away = True
            return
        self.away, self.answered = False, monotonic()
        if now is None:
            await self.close(SIGNED_OUT)
        elif now != self.rights:
            await self.close(RIGHTS_CHANGED)
        elif self.watcher is not None:
            await self._watch_only(list(self.watcher.subjects))

    async def _watch_only(self, names: list[str]) -> None:
        """Watch those of them that may be seen now."""
        found = await find_watched(self.rights, names) if names else {}
        if self.watcher is None and found:
            self.watcher = Watcher()
            self._spawn(self._send_samples(self.watcher))
        if self.watcher is not None:
            self.watcher.watch({name: found[name] for name in names if name in found})
            the_hub().join(self.watcher)

    async def _send_samples(self, watcher: Watcher) -> None:
        while True:
            await self.send(text_data=await watcher.next())

    async def _drop(self, task: str | None) -> None:
        tail = self.tails.pop(task or "", None)
        if tail and tail.running:
            tail.running.cancel()

    def _spawn(self, work: Coroutine) -> asyncio.Task:
        task = asyncio.create_task(work)
        self.running.add(task)  # the loop keeps only weak references
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a live task failed", exc_info=error)


def _read(text: str) -> object:
    """Parse a message; None if invalid."""
    try:
        return json.loads(text) if len(text) <= LONGEST_MESSAGE else None
    except (ValueError, RecursionError):
        return None


def _names(told: object) -> list[str]:
    """Return the subjects that a message names, each once."""
    return list(dict.fromkeys(name for name in told if isinstance(name, str))) if isinstance(told, list) else []


def _uuid(text: object) -> str | None:
    try:
        return str(UUID(text)) if isinstance(text, str) else None
    except ValueError:
        return None
