"""Short caches of what requests ask the database for: of app grants, and of the callers and routes of services."""

import asyncio
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Generic, TypeVar

from channels.db import database_sync_to_async

from portal.access.app_sessions import AppGrant

KEEP_S = 5
MOST_KEPT = 4096

Value = TypeVar("Value")


class LoadCache(Generic[Value]):
    """Caches what `load` returns for `keep_s()` seconds. None is not cached, nor what it raises."""

    def __init__(self, load: Callable[..., Value | None], keep_s: Callable[[], float]):
        self._load, self._keep_s = load, keep_s
        self._kept: dict[tuple[Hashable, ...], tuple[float, Value]] = {}
        self._asked: dict[tuple[Hashable, ...], asyncio.Task[Value | None]] = {}

    async def find(self, *key: Hashable) -> Value | None:
        asked_at, value = self._kept.get(key, (0.0, None))
        if value is not None and monotonic() < asked_at + self._keep_s():
            return value
        if key not in self._asked:  # concurrent requests share one query
            self._asked[key] = asyncio.create_task(self._load_once(key))
        return await asyncio.shield(self._asked[key])

    def drop(self, *key: Hashable) -> None:
        """Drop an entry and its running query, which may predate the change."""
        self._kept.pop(key, None)
        self._asked.pop(key, None)

    def drop_older(self, age_s: float, *key: Hashable) -> None:
        """Drop an entry that was asked for longer ago."""
        asked_at, _ = self._kept.get(key, (0.0, None))
        if monotonic() >= asked_at + age_s:
            self._kept.pop(key, None)

    async def _load_once(self, key: tuple[Hashable, ...]) -> Value | None:
        asked_at, value, still_asked = monotonic(), None, False
        try:
            value = await database_sync_to_async(self._load)(*key)
        finally:
            if still_asked := self._asked.get(key) is asyncio.current_task():
                del self._asked[key]
        if still_asked:
            self._store(key, value, asked_at)
        return value

    def _store(self, key: tuple[Hashable, ...], value: Value | None, asked_at: float) -> None:
        self._kept.pop(key, None)
        if value is None or not self._keeps(value):
            return
        if len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]  # the oldest
        self._kept[key] = (asked_at, value)

    def _keeps(self, value: Value) -> bool:
        return True


class GrantCache(LoadCache[AppGrant]):
    """Caches grants by label and secret for KEEP_S, which bounds how late lost access is noticed."""

    def __init__(self, load: Callable[[str, str], AppGrant | None]):
        super().__init__(load, lambda: KEEP_S)

    def forget(self, user_id: int) -> None:
        """Drop a user's entries and all running queries, which may predate the change."""
        self._kept = {key: kept for key, kept in self._kept.items() if kept[1].user_id != user_id}
        self._asked.clear()

    def _keeps(self, value: AppGrant) -> bool:
        return value.is_open
