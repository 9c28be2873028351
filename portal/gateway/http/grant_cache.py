"""Short cache of the app grants of session secrets."""

import asyncio
from collections.abc import Callable
from time import monotonic

from channels.db import database_sync_to_async

from portal.access.app_sessions import AppGrant

KEEP_S = 5
MOST_KEPT = 4096


class GrantCache:
    """Caches grants for KEEP_S, which bounds how late lost access is noticed; misses are not cached."""

    def __init__(self, load: Callable[[str, str], AppGrant | None]):
        self._load = load
        self._kept: dict[tuple[str, str], tuple[float, AppGrant]] = {}
        self._asked: dict[tuple[str, str], asyncio.Task[AppGrant | None]] = {}

    async def find(self, label: str, secret: str) -> AppGrant | None:
        key = (label, secret)
        until, grant = self._kept.get(key, (0.0, None))
        if grant is not None and monotonic() < until:
            return grant
        if key not in self._asked:  # concurrent requests share one query
            self._asked[key] = asyncio.create_task(self._load_once(key))
        return await asyncio.shield(self._asked[key])

    def forget(self, user_id: int) -> None:
        """Drop a user's entries and all running queries, which may predate the change."""
        self._kept = {key: kept for key, kept in self._kept.items() if kept[1].user_id != user_id}
        self._asked.clear()

    async def _load_once(self, key: tuple[str, str]) -> AppGrant | None:
        asked_at, grant, still_asked = monotonic(), None, False
        try:
            grant = await database_sync_to_async(self._load)(*key)
        finally:
            if still_asked := self._asked.get(key) is asyncio.current_task():
                del self._asked[key]
        if still_asked:
            self._store(key, grant, asked_at + KEEP_S)
        return grant

    def _store(self, key: tuple[str, str], grant: AppGrant | None, until: float) -> None:
        self._kept.pop(key, None)
        if grant is None or not grant.task:
            return
        if len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]  # the oldest
        self._kept[key] = (until, grant)
