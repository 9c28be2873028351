"""Wakes open sockets when a user's access must be rechecked (events.record_and_publish.recheck).

A message may be lost, and none comes while Valkey is frozen. So the database is asked every few seconds, in few
statements for all who have open sockets, whether somebody's rights have changed.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import DatabaseError

from accounts.models import Membership, SshKey, User
from sharing.models import NotebookToken, Share

log = logging.getLogger("tessera.gateway")

AGAIN_S = 5  # after the channel layer failed
LOOK_S = 2


class Rechecks:
    """Listens and looks for users with open sockets; calls `forget` with their id before waking them."""

    def __init__(self, forget: Callable[[int], None]):
        self._forget = forget
        self._bells: dict[int, set[asyncio.Event]] = {}
        self._listening: dict[int, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def bell(self, user_id: int) -> Iterator[asyncio.Event]:
        """Yield an event that is set to request a recheck."""
        bell = asyncio.Event()
        self._bells.setdefault(user_id, set()).add(bell)
        if user_id not in self._listening:
            self._listening[user_id] = asyncio.create_task(self._listen(user_id))
        self._looking = self._looking or asyncio.create_task(self._look())
        try:
            yield bell
        finally:
            self._bells[user_id].remove(bell)
            if not self._bells[user_id]:
                del self._bells[user_id]
                self._listening.pop(user_id).cancel()
            if not self._bells and self._looking:
                self._looking.cancel()
                self._looking = None

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
                    self._ring(user_id)
        finally:
            await layer.group_discard(group, channel)

    async def _look(self) -> None:
        """Wake those whose rights are not as at the last look; at the first, everybody."""
        known: dict[int, Hashable] = {}
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                found = await database_sync_to_async(load_rights)(list(self._bells))
            except DatabaseError as away:
                log.warning("cannot ask whose rights have changed: %s", away)
                continue
            for user_id in [one for one in self._bells if one not in known or known[one] != found.get(one)]:
                self._ring(user_id)
            known = found

    def _ring(self, user_id: int) -> None:
        self._forget(user_id)
        for bell in self._bells.get(user_id, ()):
            bell.set()


def load_rights(user_ids: Collection[int]) -> dict[int, Hashable]:
    """Return by person what decides their access: whether they are suspended, their roles, keys, tokens and shares."""
    parts: defaultdict[int, list[tuple]] = defaultdict(list)
    people = User.objects.filter(pk__in=user_ids).values_list("pk", "suspended_at")
    roles = Membership.objects.filter(user__in=user_ids).order_by("pk").values_list("user", "team", "role")
    keys = SshKey.objects.live().filter(user__in=user_ids).order_by("pk").values_list("user", "pk")
    tokens = NotebookToken.objects.live().filter(user__in=user_ids).order_by("pk").values_list("user", "pk")
    shares = Share.objects.filter(user__in=user_ids).order_by("pk").values_list("user", "pk")
    for rows in (people, roles, keys, tokens, shares):
        for user_id, *part in rows:
            parts[user_id].append(tuple(part))
    return {user_id: tuple(found) for user_id, found in parts.items()}
