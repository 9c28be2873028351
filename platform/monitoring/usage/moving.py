"""Move the uses of holdings on by a machine's ticks.

If it fails, the newest samples are kept all the same, and the counters catch up with the next tick.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from cluster.models import Node
from monitoring.models import Source, TaskUse, TaskUseNow
from monitoring.models.usage import Use
from monitoring.samples.shares import WHOLE_MILLI
from monitoring.samples.wire import Sampled, TaskSampled, Tick
from monitoring.upsert import upsert
from monitoring.usage.counting import Count, Reading, continue_count, count_card, count_host
from monitoring.usage.energy import Holder, share_energy
from monitoring.usage.whole_cards import count_whole_card
from quotas.models import Holding

log = logging.getLogger("tessera.samples")

COLUMNS = [field.name for field in fields(Count)]
HOLDINGS = """
SELECT h.id, h.task, gpu.uuid, h.gpu_milli, h.gpu_compute_percent, h.held_from, h.released_at,
    {columns}
FROM quotas_holding h LEFT JOIN cluster_gpu gpu ON gpu.id = h.gpu_id
LEFT JOIN monitoring_taskusenow newest ON newest.holding_id = h.id
WHERE h.node_id = %(node)s AND h.id IN (
    SELECT id FROM quotas_holding WHERE task = ANY(%(tasks)s::uuid[])
    UNION ALL SELECT id FROM quotas_holding WHERE released_at IS NULL
        AND gpu_id IN (SELECT id FROM cluster_gpu WHERE uuid = ANY(%(cards)s::text[]))
)
ORDER BY h.held_from, h.id
""".replace("{columns}", ", ".join(f"newest.{name}" for name in COLUMNS))
"""By task and by card apart, so that an index finds either, however much the machine has ever held."""


class Key(NamedTuple):
    """What a reading is of. card: its uuid; None is for CPU and memory."""

    task: UUID
    card: str | None


class Row(NamedTuple):
    """What is needed of a holding, so that a tick makes no model objects. used: its newest count, if any."""

    pk: int
    task: UUID
    card: str | None
    gpu_milli: int
    gpu_compute_percent: int
    held_from: datetime
    released_at: datetime | None
    used: Count | None


Held = dict[Key, list[Row]]


def move_uses(node: Node, run: str, ticks: Sequence[Tick]) -> None:
    """Add ticks of a run, oldest first, to the uses of the machine's holdings. The caller has locked the machine."""
    try:
        with transaction.atomic():
            _move_uses(node, run, ticks)
    except DatabaseError as failed:
        log.warning("uses of %s were not moved: %s", node.name, failed)


def _share_energy(
    tick: Tick, run: str, at: datetime, held: Held, before: Mapping[int, Count | None], now: Mapping[int, Count | None]
) -> dict[int, Count]:
    """Return the counts of cards' holders with their parts of what it drew. before, now: this tick's readings."""
    found: dict[int, Count] = {}
    for uuid, card in tick.cards.items():
        if (energy_mj := card.values.get("energy_mj")) is None:
            continue
        rows = [row for key, some in held.items() if key.card == uuid and _is_held(row := _choose(some, at)[0], at)]
        counts = [now[row.pk] or Count("", 0, at, card.source) for row in rows]
        holders = [
            Holder(row.gpu_milli, before[row.pk], count, (count.run, count.up_ms) == (run, tick.up_ms))
            for row, count in zip(rows, counts, strict=True)
        ]
        found |= zip((row.pk for row in rows), share_energy(holders, energy_mj), strict=True)
    return found


def _count_whole_cards(
    tick: Tick, run: str, at: datetime, held: Held, before: Mapping[int, Count | None], moved: Mapping[int, Count]
) -> dict[int, Count]:
    """Return the counts of who holds a whole card, with what only the card itself counts."""
    found: dict[int, Count] = {}
    for key, some in held.items():
        card, row = tick.cards.get(key.card or ""), _choose(some, at)[0]
        if card is not None and row.gpu_milli >= WHOLE_MILLI and row.pk in moved and _is_held(row, at):
            found[row.pk] = count_whole_card(before[row.pk], moved[row.pk], card.values, run, tick.up_ms)
    return found


def _is_held(row: Row, at: datetime) -> bool:
    return row.held_from <= at and (row.released_at is None or row.released_at > at)


def load_count(row: Use | None) -> Count | None:
    return None if row is None else Count(**{name: getattr(row, name) for name in COLUMNS})


def _move_uses(node: Node, run: str, ticks: Sequence[Tick]) -> None:
    held = _load_holdings(node, ticks)
    known = {row.pk: row.used for rows in held.values() for row in rows}
    moved: dict[int, Count] = {}
    now = timezone.now()
    for tick in ticks:
        at, before_tick = now - timedelta(milliseconds=tick.age_ms), known | moved
        for key, reading in _list_readings(tick, run, at, held):
            row, earlier = _choose(held[key], reading.at)
            before = moved.get(row.pk) or known[row.pk]
            if before is None and earlier is not None:
                last = moved.get(earlier.pk) or known[earlier.pk]
                before = None if last is None else continue_count(last)
            if key.card is None:
                moved[row.pk] = count_host(before, reading)
            else:
                moved[row.pk] = count_card(before, reading, row.gpu_compute_percent)
        moved |= _share_energy(tick, run, at, held, before_tick, known | moved)
        moved |= _count_whole_cards(tick, run, at, held, before_tick, moved)
    upsert([TaskUseNow(holding_id=pk, **_dump(count)) for pk, count in moved.items()], "holding_id")


def find_count(holding: Holding) -> Count | None:
    """Return a holding's newest count. Loaded with `use` and `use_now`."""
    return load_count(getattr(holding, "use_now", None) or getattr(holding, "use", None))


def _load_holdings(node: Node, ticks: Sequence[Tick]) -> Held:
    """Return the holdings that the ticks may be of, oldest first: a resize begins another one. Who holds a card has a
    part of what it draws, and who holds all of it does all that it does, also where no tick tells of their task.
    """
    asked: dict[str, Any] = {
        "node": node.pk,
        "tasks": list({uuid for tick in ticks for uuid in tick.tasks}),
        "cards": list({uuid for tick in ticks for uuid in tick.cards}),
    }
    with connection.cursor() as cursor:
        cursor.execute(HOLDINGS, asked)
        rows = [Row._make((*told[:7], Count(*told[7:]) if told[7] is not None else None)) for told in cursor]
    saved = TaskUse.objects.in_bulk([row.pk for row in rows if row.used is None])
    found: Held = defaultdict(list)
    for row in rows:
        found[Key(row.task, row.card)].append(row._replace(used=row.used or load_count(saved.get(row.pk))))
    return found


def _list_readings(tick: Tick, run: str, at: datetime, held: Held) -> Iterator[tuple[Key, Reading]]:
    for key, rows in held.items():
        sampled = tick.tasks.get(key.task)
        if key.card is None:
            if sampled is not None:
                yield key, _read_host(sampled, tick, run, at)
            continue
        share, card = sampled.shares.get(key.card) if sampled is not None else None, tick.cards.get(key.card)
        if share is not None and (share.values.get("busy_ms") is not None or card is None):
            yield key, _read_card(share, tick, run, at)
        elif card is not None and rows[-1].gpu_milli >= WHOLE_MILLI and rows[-1].held_from <= at:
            yield key, _read_card(card, tick, run, at, of_card=True)
        elif share is not None:
            yield key, _read_card(share, tick, run, at)


def _read_card(sampled: Sampled, tick: Tick, run: str, at: datetime, *, of_card: bool = False) -> Reading:
    busy_ms, used_mib = sampled.values.get("busy_ms"), sampled.values.get("used_mib")
    return Reading(run, tick.up_ms, at, sampled.source, busy_ms=busy_ms, used_mib=used_mib, of_card=of_card)


def _read_host(sampled: TaskSampled, tick: Tick, run: str, at: datetime) -> Reading:
    get = sampled.values.get
    return Reading(
        run,
        tick.up_ms - sampled.age_ms,
        at - timedelta(milliseconds=sampled.age_ms),
        Source.MEASURED,
        cpu_ms=get("cpu_ms"),
        read_kib=get("read_kib"),
        write_kib=get("write_kib"),
        used_mib=get("memory_mib"),
        peak_mib=get("peak_mib"),
    )


def _choose(rows: list[Row], at: datetime) -> tuple[Row, Row | None]:
    """Return the holding at a moment, and the one before it."""
    place = max((i for i, row in enumerate(rows) if row.held_from <= at), default=0)
    return rows[place], rows[place - 1] if place else None


def _dump(count: Count) -> dict:
    return {name: getattr(count, name) for name in COLUMNS}
