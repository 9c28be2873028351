"""Write a line of history now; ring the doorbell and the hint when it is committed.

Doorbells tell browsers to look, hints tell a loop to look. Both may be lost: a page refreshes by itself and a loop
runs every second anyway, so neither may ever fail the transaction that caused it.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from celery import current_app
from channels.layers import BaseChannelLayer, get_channel_layer
from django.db import connection, transaction
from django.db.models import Max, Model, Q
from django.db.models.functions import Now

from events.models import Delivery, Event, Webhook

log = logging.getLogger("tessera.bus")


@dataclass(frozen=True)
class Actor:
    """Who did it, as values: a person's name and id, or a part of the platform without an id."""

    name: str
    id: int | None = None


SCHEDULER = Actor("scheduler")
RUNTIME = Actor("runtime")
SYSTEM = Actor("system")

RING_S = 2.0
"""So long a commit waits at most until its doorbell is taken."""

TEAM_KINDS = frozenset({"job", "task", "quota"})
"""Objects that everybody in their team may read. Every other object's history is its owner's."""


def record(row: Model, verb: str, *, actor: Actor, reason: str = "", params: dict | None = None, **state: str) -> Event:
    """Append to the history of `row`, which has KIND, pk, public_id and team_id. The caller holds the row's lock.

    state: from_state and to_state for a move.
    """
    kind, pk = row.KIND, row.pk  # type: ignore[attr-defined]
    event = store_event(
        kind=kind,
        object_id=pk,
        label=row.public_id,  # type: ignore[attr-defined]
        seq=last_seq(kind, pk) + 1,
        verb=verb,
        reason=reason,
        actor=actor.name,
        actor_id=actor.id,
        team_id=row.team_id,  # type: ignore[attr-defined]
        owner_id=getattr(row, "user_id", None),
        params=params or {},
        **state,
    )
    _queue_deliveries(event)
    ring(row)
    return event


def last_seq(kind: str, pk: int) -> int:
    return Event.objects.filter(kind=kind, object_id=pk).aggregate(last=Max("seq"))["last"] or 0


def store_event(**values: Any) -> Event:
    return Event.objects.create(**values)


def ring(row: Model) -> None:
    """On commit, tell whoever may see `row` that it changed."""
    touch: dict[str, Any] = {"kind": row.KIND, "id": row.public_id}  # type: ignore[attr-defined]
    team_id = row.team_id  # type: ignore[attr-defined]
    if team_id is not None:
        _send_on_commit(f"team-{team_id}", touch)
    if pool_id := getattr(row, "pool_id", None):
        ring_pool(pool_id)


def ring_pool(pool_id: int) -> None:
    """On commit, tell the shared pages (Queue, Cluster, GPU map) of a pool to look again. Carries no object."""
    _send_on_commit(f"pool-{pool_id}", {"kind": "queue", "id": ""})
    _send_on_commit(f"pool-{pool_id}", {"kind": "cluster", "id": ""})


def ring_person(user_id: int, kind: str) -> None:
    """On commit, tell the open pages of one person to look again at what is theirs alone ("notices")."""
    _send_on_commit(f"user-{user_id}", {"kind": kind, "id": ""})


def recheck(user_id: int) -> None:
    """On commit, let the open sockets of a person ask again what they may hear: rights or the session changed."""
    _once_on_commit(("recheck", user_id), lambda: _send(f"user-{user_id}", {"type": "recheck"}))


def hint(task: str) -> None:
    """On commit, ask a loop ("cycle", "reconcile") to run now instead of at its next beat."""
    _once_on_commit(("hint", task), lambda: _send_hint(task))


def hint_sender() -> None:
    """On commit, ask the sender of webhooks and mails to look now instead of at its next beat."""
    _once_on_commit(("hint", "send"), _send_hint_outside)


def _queue_deliveries(event: Event) -> None:
    """In the event's own transaction: what is recorded is delivered, what is rolled back was never heard of."""
    own = Q(team_id__isnull=True, user_id=event.owner_id) if event.owner_id else Q(pk=None)
    of_team = Q(team_id=event.team_id) if event.team_id and event.kind in TEAM_KINDS else Q(pk=None)
    listening = Webhook.objects.filter(own | of_team, disabled_at__isnull=True)
    wanted = [webhook for webhook in listening if webhook.wants(event.type)]
    if wanted:
        Delivery.objects.bulk_create(Delivery(webhook=webhook, event=event, due_at=Now()) for webhook in wanted)
        hint_sender()


def _send_on_commit(group: str, touch: dict) -> None:
    _once_on_commit((group, touch["kind"], touch["id"]), lambda: _send(group, {"type": "touch", **touch}))


def _once_on_commit(key: tuple, act: Any) -> None:
    """The same bell rings once for a transaction, however many rows it moved."""
    pending = [item[1] for item in connection.run_on_commit]
    if connection.in_atomic_block and any(getattr(waiting, "key", None) == key for waiting in pending):
        return

    def ring_it() -> None:
        act()

    ring_it.key = key  # type: ignore[attr-defined]
    transaction.on_commit(ring_it, robust=True)


def _send(group: str, message: dict) -> None:
    layer = get_channel_layer()
    if layer is not None:
        async_to_sync(_ring)(layer, group, message)


async def _ring(layer: BaseChannelLayer, group: str, message: dict) -> None:
    """A bell may be lost; whoever committed never waits for a broker that does not answer."""
    async with asyncio.timeout(RING_S):
        await layer.group_send(group, message)


def _send_hint(task: str) -> None:
    current_app.send_task(f"scheduler.tasks.{task}", queue="scheduler", expires=5, retry=False)


def _send_hint_outside() -> None:
    current_app.send_task("portal.tasks.send", queue="outside", expires=5, retry=False)
