"""Samples and packs in PostgreSQL: what is written, and read back as means over equal steps."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection

from monitoring.models import Sample, Source
from monitoring.samples.growth import LONGEST_SPAN_MS
from monitoring.series.grid import Array, coarsen, spread
from monitoring.series.keys import COLUMNS, Key, Kind
from monitoring.series.packs import pack, unpack
from monitoring.series.tiers import RAW, Tier
from monitoring.upsert import insert_missing

WIDTH = max(map(len, COLUMNS.values()))


@dataclass(frozen=True)
class Block:
    """Means and maxima of a series over equal steps, each (columns, slots)."""

    means: Array
    peaks: Array
    source: str

    def coarsen(self, times: int) -> "Block":
        if times == 1:
            return self
        return Block(coarsen(self.means, times), coarsen(self.peaks, times, "max"), self.source)


@dataclass(frozen=True)
class Keys:
    """Which series: those named, or the next ones after a key, at most so many."""

    named: tuple[Key, ...] = ()
    after: tuple[int, int, int] = (0, 0, 0)
    most: int = 0


def keep_samples(samples: list[Sample]) -> None:
    """Insert samples; those that are there already stay."""
    insert_missing(samples)


def read_blocks(tier: Tier, keys: Keys, start: datetime, end: datetime) -> dict[Key, Block]:
    """Return what a tier knows of series from start to end, in its own step, in the order of the keys."""
    return _read_raw(keys, start, end) if tier is RAW else _read_packs(tier, keys, start, end)


def write_blocks(tier: Tier, blocks: dict[Key, Block], start: datetime) -> None:
    """Insert the packs of a span; those that are there already stay."""
    rows = [
        (key.kind, key.subject, key.card, start, block.source, pack(_stack(tier, block)))
        for key, block in blocks.items()
    ]
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {tier.table} VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING", rows)


def join_sources(least: str, greatest: str) -> str:
    """Return the weakest of the sources between two, as they sort: estimated, measured, simulated."""
    return greatest if greatest == Source.SIMULATED else least


def _read_raw(keys: Keys, start: datetime, end: datetime) -> dict[Key, Block]:
    slots = (end - start) // timedelta(seconds=RAW.step_s)
    columns = ", ".join(f'array_agg("values"[{i + 1}] ORDER BY at)' for i in range(WIDTH))
    what = f"array_agg(extract(epoch FROM at - %s)::float8 ORDER BY at), array_agg(span_ms ORDER BY at), {columns}"
    found = {}
    for key, source, ends, spans, *values in _select(
        RAW, keys, what, [start], start, end + timedelta(milliseconds=LONGEST_SPAN_MS)
    ):
        told = np.array(values[: len(COLUMNS[key.kind])], dtype=np.float64)  # NULL becomes NaN
        means = spread(np.array(ends), np.array(spans) / 1000, told, 0.0, RAW.step_s, slots)
        if not np.isnan(means).all():
            found[key] = Block(means, means, source)
    return found


def _read_packs(tier: Tier, keys: Keys, start: datetime, end: datetime) -> dict[Key, Block]:
    step, span = timedelta(seconds=tier.step_s), timedelta(seconds=tier.span_s)
    slots, length = (end - start) // step, tier.span_s // tier.step_s
    found = {}
    for key, source, starts, packs in _select(tier, keys, "array_agg(start), array_agg(data)", [], start - span, end):
        columns = len(COLUMNS[key.kind])
        means, peaks = np.full((2, columns, slots), np.nan)
        for began, data in zip(starts, packs, strict=True):
            stacked, at = unpack(bytes(data)), (began - start) // step
            first, last = max(at, 0), min(at + length, slots)
            for filled, told in zip((means, peaks), _unstack(tier, stacked), strict=True):
                filled[: len(told), first:last] = told[:columns, first - at : last - at]
        found[key] = Block(means, peaks, source)
    return found


def _select(
    tier: Tier, keys: Keys, what: str, params: list, start: datetime, end: datetime
) -> Iterable[tuple]:  # (key, source, …)
    """Read what lies between start and end, a row for each series."""
    names = "kind, subject, card"
    if keys.named:
        which = f"({names}) IN (SELECT * FROM unnest(%s::smallint[], %s::bigint[], %s::bigint[]))"
        chosen: list[Any] = [
            list(part) for part in zip(*((key.kind, key.subject, key.card) for key in keys.named), strict=True)
        ]
    else:
        which, chosen = f"({names}) > (%s, %s, %s)", list(keys.after)
    most = f"LIMIT {keys.most}" if keys.most else ""
    query = f"""
        SELECT {names}, min(source), max(source), {what} FROM {tier.table}
        WHERE {tier.column} > %s AND {tier.column} < %s AND {which} GROUP BY {names} ORDER BY {names} {most}
    """
    with connection.cursor() as cursor:
        cursor.execute(query, [*params, start, end, *chosen])
        for kind, subject, card, least, greatest, *rest in cursor.fetchall():
            yield Key(Kind(kind), subject, card), join_sources(least, greatest), *rest


def _stack(tier: Tier, block: Block) -> Array:
    return block.means if tier.step_s == RAW.step_s else np.concatenate((block.means, block.peaks))


def _unstack(tier: Tier, stacked: Array) -> tuple[Array, Array]:
    if tier.step_s == RAW.step_s:
        return stacked, stacked
    half = len(stacked) // 2
    return stacked[:half], stacked[half:]
