"""Record events; on commit publish change messages and wake loops, in one callback for each connection.

Messages and hints may be lost: pages refresh and loops run anyway. Neither may ever fail the transaction.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from asgiref.sync import async_to_sync
from celery import current_app
from channels.layers import BaseChannelLayer, get_channel_layer
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Max, Model
from django.utils.module_loading import import_string
from redis.exceptions import RedisError

from common.cache_server import cache_server
from events.models import Event

log = logging.getLogger("tessera.bus")

Flush = Callable[[Iterable[Any]], None]


@dataclass(frozen=True)
class Origin:
    """Where a person's request came from. via: how its token begins; empty for the portal's session."""

    via: str = ""
    address: str = ""
    request_id: str = ""


@dataclass(frozen=True)
class Actor:
    """A person, or a part of the platform without an id."""

    name: str
    id: int | None = None
    origin: Origin = Origin()


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

HINT_WAITS_S = 1.0
"""After this another hint may be sent: the first was lost, or met a leader that will look once more."""
HINT_EXPIRES_S = 5

TEAM_KINDS = frozenset({"job", "task", "array", "quota", "service"})
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
    Event.objects.bulk_create(events)
    _call_listeners(
        [event for event, line in zip(events, lines, strict=True) if getattr(line.row, "is_told_alone", True)]
    )
    for line in lines:
        publish_row(line.row)
    return events


def record_change(
    row: Model, before: Model | None, fields: Iterable[str], verb: str, *, actor: Actor, also: dict | None = None
) -> bool:
    """Record which of `fields` changed, in values that JSON can hold, and return whether any did.

    before: the row as it was; None if it is new. also: what else the event says.
    """
    now = {name: getattr(row, name) for name in fields}
    was = {name: getattr(before, name) if before else None for name in now}
    changed = [name for name in now if was[name] != now[name]]
    if changed:
        params = {"from": {name: was[name] for name in changed}, "to": {name: now[name] for name in changed}}
        record(row, verb, actor=actor, params=params | (also or {}))
    return bool(changed)


def load_last_seqs(kind: str, pks: Iterable[int]) -> dict[int, int]:
    events = Event.objects.filter(kind=kind, object_id__in=list(pks)).order_by()
    return dict(events.values_list("object_id").annotate(last=Max("seq")))


def publish_row(row: Model) -> None:
    """On commit, publish that `row` changed."""
    touch: dict[str, Any] = {"kind": row.KIND, "id": row.public_id}  # type: ignore[attr-defined]
    team_id = row.team_id  # type: ignore[attr-defined]
    if team_id is not None:
        _send_on_commit(f"team-{team_id}", touch)
    for pool_id in getattr(row, "pool_ids", None) or [getattr(row, "pool_id", None)]:
        if pool_id:
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
    once_on_commit(("hint", task), lambda: request_run(task))


def hint_sender() -> None:
    """On commit, ask the sender to run."""
    once_on_commit(("hint", "send"), _hint_sender_now)


class Batch:
    """What one transaction has collected: for each flush function the last value of each key."""

    def __init__(self) -> None:
        self._values: dict[Flush, dict[Hashable, Any]] = {}

    def add(self, flush: Flush, key: Hashable, value: Any) -> None:
        self._values.setdefault(flush, {})[key] = value

    def run(self) -> None:
        """Run each flush function once. What fails is logged: the commit is done."""
        for flush, values in self._values.items():
            try:
                flush(values.values())
            except Exception:
                log.exception("%s failed after a commit", flush.__name__)


_batches: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Batch, Callable[[], None]]] = WeakKeyDictionary()


def collect_on_commit(flush: Flush, key: Hashable, value: Any) -> None:
    """Give `value` to `flush` on commit, together with this transaction's others; at once where there is none."""
    if connections[DEFAULT_DB_ALIAS].in_atomic_block:
        _current_batch().add(flush, key, value)
    else:
        batch = Batch()
        batch.add(flush, key, value)
        batch.run()


def once_on_commit(key: Hashable, act: Callable[[], None]) -> None:
    """Run `act` on commit, once for each key."""
    collect_on_commit(_run_each, key, act)


def request_run(loop: str) -> None:
    """Send the loop's task unless asked already. Raises OperationalError."""
    if _is_first(loop):
        current_app.send_task(f"scheduler.tasks.{loop}", queue="scheduler", expires=HINT_EXPIRES_S, retry=False)


def clear_hint(loop: str) -> None:
    """Clear the mark before reading the database, so later changes ask again."""
    try:
        cache_server().delete(_hint_key(loop))
    except RedisError:
        pass  # the mark expires by itself


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
        via=actor.origin.via,
        address=actor.origin.address,
        request_id=actor.origin.request_id,
        team_id=row.team_id,
        owner_id=getattr(row, "user_id", None),
        params=line.params,
    )


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
    """Send messages, for SEND_S at most: a commit must not wait."""
    async with asyncio.timeout(SEND_S):
        for group, message in messages:
            await layer.group_send(group, message)


def _hint_sender_now() -> None:
    current_app.send_task("portal.tasks.send", queue="outside", expires=5, retry=False)


def _current_batch() -> Batch:
    """Return the transaction's batch. A savepoint's rollback takes back a batch that was begun after it."""
    connection = connections[DEFAULT_DB_ALIAS]
    batch, run = _batches.get(connection, (None, None))
    if batch is None or not any(item[1] is run for item in connection.run_on_commit):
        batch = Batch()
        run = batch.run  # a bound method is a new object each time it is read
        _batches[connection] = batch, run
        transaction.on_commit(run, robust=True)
    return batch


def _run_each(acts: Iterable[Callable[[], None]]) -> None:
    for act in acts:
        try:
            act()
        except Exception:
            log.exception("a hint failed after a commit")


def _is_first(loop: str) -> bool:
    try:
        return bool(cache_server().set(_hint_key(loop), 1, nx=True, px=round(1000 * HINT_WAITS_S)))
    except RedisError as away:
        log.debug("whether %s was asked already is not known: %s", loop, away)
        return True


def _hint_key(loop: str) -> str:
    return f"asked:{loop}"
