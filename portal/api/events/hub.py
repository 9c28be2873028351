"""Poll the event table once for all event streams of a process.

Each event is encoded once and queued for those who may see it. Slow streams are cut; clients resume by Last-Event-ID.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakSet

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connection

from events.models import Event
from portal.access.event_visibility import EventVisibility
from portal.api.events.order import SettledIds
from portal.api.view import MAX_ID

log = logging.getLogger("tessera.events")
T = TypeVar("T")

POLL_S = 0.25
BATCH = 500
QUEUE = 1000
"""Most events queued for one stream."""
BEGINS_WITHIN_S = 10


@dataclass(frozen=True)
class Encoded:
    id: int
    event: Event
    json: bytes


@dataclass(eq=False)
class Stream:
    """One client's stream. `sight` is replaced when rights change; `cut` if it was too slow."""

    user_id: int
    sight: EventVisibility
    topics: frozenset[str]
    queue: asyncio.Queue[Encoded] = field(default_factory=lambda: asyncio.Queue(QUEUE))
    begins_after: int = MAX_ID
    cut: bool = False
    asked_at: float = field(default_factory=time.monotonic)
    joined: bool = False
    left: bool = False

    def wants(self, event: Event) -> bool:
        return wanted(event, self.topics) and self.sight.sees(event)

    @property
    def is_open(self) -> bool:
        """Whether the client reads, or has BEGINS_WITHIN_S to begin."""
        return not self.left and (self.joined or time.monotonic() - self.asked_at < BEGINS_WITHIN_S)


def wanted(event: Event, topics: frozenset[str]) -> bool:
    """Match a kind ("job") or type ("job.failed"); no topics match all."""
    return not topics or event.kind in topics or event.type in topics


def encode(event: Event, **also: str) -> Encoded:
    return Encoded(event.pk, event, json.dumps(event.as_json() | also, separators=(",", ":")).encode())


class Hub:
    """The poller of one event loop. A joined stream gets each later event exactly once."""

    def __init__(self) -> None:
        self.streams: set[Stream] = set()
        self.position = 0
        self._looks = 0
        self._ids = SettledIds()
        self._watching: asyncio.Task | None = None
        self._ready = asyncio.Event()
        self._looked = asyncio.Condition()

    async def join(self, stream: Stream) -> None:
        """Add a stream; it gets events after `begins_after`, no older than this call."""
        stream.joined = True
        self.streams.add(stream)
        looks = self._looks + 2  # a poll under way may have begun too early
        if self._watching is None or self._watching.done():
            looks = self._looks
            self._ready.clear()
            self._watching = asyncio.create_task(self._watch())
            self._watching.add_done_callback(_log_failure)
        await self._ready.wait()
        async with self._looked:
            await self._looked.wait_for(lambda: self._looks >= looks)
        stream.begins_after = self.position

    def leave(self, stream: Stream) -> None:
        """Remove a stream; without any, the poller ends."""
        stream.left = True
        self.streams.discard(stream)

    async def _watch(self) -> None:
        await self._begin()
        while True:
            try:
                for event in await sync_to_async(self._list_next_events)():
                    self._queue_event(encode(event))
                async with self._looked:
                    self._looks += 1
                    self._looked.notify_all()
            except DatabaseError as away:
                log.warning("the event stream waits for the database: %s", away)
            await asyncio.sleep(POLL_S)
            if not self.streams:
                return

    async def _begin(self) -> None:
        """Start at the settled id; later streams read older events from the table."""
        settled = None
        while settled is None:
            try:
                settled = await sync_to_async(_closing)(self._ids.settled)
            except DatabaseError as away:
                log.warning("the event stream waits for the database: %s", away)
            if settled is None:
                await asyncio.sleep(POLL_S)
        self.position = max(settled, self.position)
        self._ready.set()
        await asyncio.sleep(POLL_S)

    def _list_next_events(self) -> list[Event]:
        """Return the next events by id, none before one that may still appear."""
        settled = _closing(self._ids.settled) or self.position
        found = list_events(self.position, settled, BATCH)
        self.position = found[-1].pk if len(found) == BATCH else max(settled, self.position)
        return found

    def _queue_event(self, event: Encoded) -> None:
        for stream in self.streams:
            if not stream.cut and event.id > stream.begins_after and stream.wants(event.event):
                try:
                    stream.queue.put_nowait(event)
                except asyncio.QueueFull:
                    stream.cut = True


def list_events(after: int, until: int, most: int) -> list[Event]:
    """Return settled events with after < id <= until."""
    try:
        return list(Event.objects.filter(pk__gt=after, pk__lte=until).order_by("pk")[:most]) if until > after else []
    finally:
        connection.close()


def admit(stream: Stream, most: int) -> bool:
    """Register the stream unless its user has `most` open in this process."""
    with _admitting:
        others = sum(one.user_id == stream.user_id and one.is_open for one in _admitted)
        if others < most:
            _admitted.add(stream)
        return others < most


def the_hub() -> Hub:
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()
_admitted: WeakSet[Stream] = WeakSet()
_admitting = Lock()


def _closing(read: Callable[[], T]) -> T:
    """Run `read` and close the connection, to hold none between polls."""
    try:
        return read()
    finally:
        connection.close()


def _log_failure(task: asyncio.Task) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("the event stream's watcher failed", exc_info=error)
