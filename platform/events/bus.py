"""Record events; on commit publish change messages and wake loops.

Messages and hints may be lost: pages refresh and loops run anyway. Neither may ever fail the transaction.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import async_to_sync
from celery import current_app
from channels.layers import BaseChannelLayer, get_channel_layer
from django.conf import settings
from django.db.models import Max, Model
from django.utils.module_loading import import_string

from events import hints
from events.models import Event
from events.on_commit import collect_on_commit, once_on_commit


@dataclass(frozen=True)
class Actor:
    """A person, or a part of the platform without an id."""

    name: str
    id: int | None = None


@dataclass(frozen=True)
class EventLine:
    """What an event says of its row."""

    row: Any
    params: dict = field(default_factory=dict)
    reason: str = ""
    from_state: str = ""
    to_state: str = ""


SCHEDULER = Actor("scheduler")
RUNTIME = Actor("runtime")
SYSTEM = Actor("system")

SEND_S = 2.0
"""How long a commit waits at most for change messages to be sent."""

TEAM_KINDS = frozenset({"job", "task", "quota"})
"""Kinds of objects that the whole team may read. Others are their owner's."""


def record(
    row: Model, verb: str, *, actor: Actor, reason: str = "", params: dict | None = None, new: bool = False
) -> Event:
    """Append an event to a row's history, under its lock. new: it has none yet."""
    return record_all([EventLine(row, params or {}, reason)], verb, actor=actor, new=new)[0]


def record_all(lines: Sequence[EventLine], verb: str, *, actor: Actor, new: bool = False) -> list[Event]:
    """Append events of rows of one kind in few statements."""
    last = Counter({} if new else load_last_seqs(lines[0].row.KIND, {line.row.pk for line in lines}))
    events = []
    for line in lines:
        last[line.row.pk] += 1
        events.append(_build_event(line, last[line.row.pk], verb, actor))
    _call_listeners(Event.objects.bulk_create(events))
    for line in lines:
        publish_row(line.row)
    return events


def record_change(row: Model, before: Model | None, fields: Iterable[str], verb: str, *, actor: Actor) -> bool:
    """Record which of `fields` changed, in values that JSON can hold, and return whether any did.

    before: the row as it was; None if it is new.
    """
    now = {name: getattr(row, name) for name in fields}
    was = {name: getattr(before, name) if before else None for name in now}
    changed = [name for name in now if was[name] != now[name]]
    if changed:
        params = {"from": {name: was[name] for name in changed}, "to": {name: now[name] for name in changed}}
        record(row, verb, actor=actor, params=params)
    return bool(changed)


def load_last_seqs(kind: str, pks: Iterable[int]) -> dict[int, int]:
    events = Event.objects.filter(kind=kind, object_id__in=list(pks)).order_by()
    return dict(events.values_list("object_id").annotate(last=Max("seq")))


def _build_event(line: EventLine, seq: int, verb: str, actor: Actor) -> Event:
    row = line.row
    return Event(
        kind=row.KIND,
        object_id=row.pk,
        label=row.public_id,
        seq=seq,
        verb=verb,
        from_state=line.from_state,
        to_state=line.to_state,
        reason=line.reason,
        actor=actor.name,
        actor_id=actor.id,
        team_id=row.team_id,
        owner_id=getattr(row, "user_id", None),
        params=line.params,
    )


def publish_row(row: Model) -> None:
    """On commit, publish that `row` changed."""
    touch: dict[str, Any] = {"kind": row.KIND, "id": row.public_id}  # type: ignore[attr-defined]
    team_id = row.team_id  # type: ignore[attr-defined]
    if team_id is not None:
        _send_on_commit(f"team-{team_id}", touch)
    if pool_id := getattr(row, "pool_id", None):
        publish_pool(pool_id)


def publish_pool(pool_id: int) -> None:
    """On commit, publish that a pool changed."""
    _send_on_commit(f"pool-{pool_id}", {"kind": "queue", "id": ""})
    _send_on_commit(f"pool-{pool_id}", {"kind": "cluster", "id": ""})


def publish_person(user_id: int, kind: str) -> None:
    """On commit, publish a change of what is one person's."""
    _send_on_commit(f"user-{user_id}", {"kind": kind, "id": ""})


def publish_recheck(user_id: int) -> None:
    """On commit, make a person's sockets check their rights."""
    once_on_commit(("recheck", user_id), lambda: _send(f"user-{user_id}", {"type": "recheck"}))


def hint(task: str) -> None:
    """On commit, ask a loop ("cycle", "reconcile") to run."""
    once_on_commit(("hint", task), lambda: hints.request_run(task))


def hint_sender() -> None:
    """On commit, ask the sender to run."""
    once_on_commit(("hint", "send"), _hint_sender_now)


def _call_listeners(events: Sequence[Event]) -> None:
    """Give new events, in their transaction, to the functions that the settings name: their apps stand above."""
    for name in settings.TESSERA_EVENT_LISTENERS:
        import_string(name)(events)


def _send_on_commit(group: str, touch: dict) -> None:
    collect_on_commit(_send_all, (group, touch["kind"], touch["id"]), (group, {"type": "touch", **touch}))


def _send(group: str, message: dict) -> None:
    _send_all([(group, message)])


def _send_all(messages: Iterable[tuple[str, dict]]) -> None:
    layer = get_channel_layer()
    if layer is not None:
        async_to_sync(_send_messages)(layer, messages)


async def _send_messages(layer: BaseChannelLayer, messages: Iterable[tuple[str, dict]]) -> None:
    """Send messages, for RING_S at most: a commit must not wait."""
    async with asyncio.timeout(SEND_S):
        for group, message in messages:
            await layer.group_send(group, message)


def _hint_sender_now() -> None:
    current_app.send_task("portal.tasks.send", queue="outside", expires=5, retry=False)
