"""Ask for the newest samples of what is watched, once for all sockets of a process.

Twice a second, while anything is watched, one look at the database gives the ticks of all subjects. Each is encoded
once, and the text is handed to every watcher. A slow watcher misses ticks, and is told so when it can read again; it
never holds the hub.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connection

from monitoring.samples.pace import mark_watched
from portal.live.sample_ticks import Subject, Tick, list_machines, load_ticks

log = logging.getLogger("tessera.live")

POLL_S, MARK_EVERY_S = 0.5, 5.0
QUEUE = 16
"""Ticks that wait for one socket."""
MISSED = json.dumps({"samples_missed": True})


@dataclass(eq=False)
class Watcher:
    """One socket and what it watches. new: of what it has heard nothing yet. missed: whether it was too slow for a
    tick.
    """

    subjects: dict[str, Subject] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)
    queue: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue(QUEUE))
    missed: bool = False

    def watch(self, subjects: dict[str, Subject]) -> None:
        """Watch these from now on. What waits of others is not sent any more."""
        self.new |= subjects.keys() - self.subjects.keys()
        if self.subjects.keys() - subjects.keys():
            self.missed = self.missed or not self.queue.empty()
            self.queue = asyncio.Queue(QUEUE)
        self.subjects = subjects

    def offer(self, text: str) -> None:
        try:
            self.queue.put_nowait(text)
        except asyncio.QueueFull:
            self.missed = True

    async def next(self) -> str:
        """Return what is to be sent next; after a gap, that there was one."""
        if self.missed and self.queue.empty():
            self.missed = False
            return MISSED
        return await self.queue.get()


class SampleHub:
    """The one who asks, of an event loop."""

    def __init__(self) -> None:
        self.watchers: set[Watcher] = set()
        self._asking: asyncio.Task | None = None
        self._sent: dict[tuple[Subject, datetime], Tick] = {}

    def join(self, watcher: Watcher) -> None:
        """Add a watcher, or leave out one that watches nothing any more."""
        if not watcher.subjects:
            self.leave(watcher)
            return
        self.watchers.add(watcher)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_forever())
            self._asking.add_done_callback(_log_failure)

    def leave(self, watcher: Watcher) -> None:
        """Remove a watcher; without any, nothing is asked."""
        self.watchers.discard(watcher)

    async def _ask_forever(self) -> None:
        marked = float("-inf")
        while self.watchers:
            subjects = {subject for watcher in self.watchers for subject in watcher.subjects.values()}
            try:
                self._hand_out(await sync_to_async(_load)(subjects))
                if monotonic() - marked > MARK_EVERY_S:
                    await sync_to_async(_mark)(subjects)
                    marked = monotonic()
            except DatabaseError as away:
                log.warning("samples wait for the database: %s", away)
            await asyncio.sleep(POLL_S)

    def _hand_out(self, ticks: list[Tick]) -> None:
        """Give each new tick to those who watch its subject by now, and the newest to those who have just come."""
        before, self._sent = self._sent, {(tick.subject, tick.at): tick for tick in ticks}
        watching: defaultdict[str, list[Watcher]] = defaultdict(list)
        for watcher in self.watchers:
            for name in watcher.subjects:
                watching[name].append(watcher)
        for tick in ticks:
            is_new, name = before.get((tick.subject, tick.at)) != tick, tick.subject.name
            if there := [one for one in watching[name] if is_new or name in one.new]:
                text = json.dumps({"samples": tick.as_json()}, separators=(",", ":"))
                for watcher in there:
                    watcher.offer(text)
        for watcher in self.watchers:
            watcher.new -= {tick.subject.name for tick in ticks}


def the_hub() -> SampleHub:
    return _hubs.setdefault(asyncio.get_running_loop(), SampleHub())


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, SampleHub] = WeakKeyDictionary()


def _load(subjects: Collection[Subject]) -> list[Tick]:
    """Ask, and hold no connection until the next time."""
    try:
        return load_ticks(subjects)
    finally:
        connection.close()


def _mark(subjects: Collection[Subject]) -> None:
    """Have the machines sampled more often, on which that is what is watched."""
    try:
        mark_watched(list_machines(subjects))
    finally:
        connection.close()


def _log_failure(task: asyncio.Task) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("nobody asks for samples any more", exc_info=error)
