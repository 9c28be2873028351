"""Add up what a holding was used for, from readings of counters. Pure.

A total is a difference of counters, so that a lost, doubled or late reading changes none. Whether the holding was
active or idle is said only of spans that were watched; what was not watched is unknown, and neither.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from monitoring.samples.growth import ACTIVE_PERCENT, LONGEST_SPAN_MS

IDLE_MS = 15 * 60_000
"""How long it has to be less active without a break to be idle."""


@dataclass(frozen=True)
class Reading:
    """Counters of a holding at one moment. of_card: busy_ms is the whole card's, which began before the holding."""

    run: str
    up_ms: int
    at: datetime
    source: str
    busy_ms: int | None = None
    cpu_ms: int | None = None
    read_kib: int | None = None
    write_kib: int | None = None
    used_mib: int | None = None
    peak_mib: int | None = None
    of_card: bool = False


@dataclass(frozen=True)
class Count:
    """The columns of monitoring.models.usage.Use."""

    run: str
    up_ms: int
    at: datetime
    source: str
    of_card: bool = False
    busy_at: int | None = None
    cpu_at: int | None = None
    read_at: int | None = None
    write_at: int | None = None
    energy_at: int | None = None
    sm_at: int | None = None
    throttle_at: int | None = None
    seen_ms: int = 0
    active_ms: int = 0
    idle_ms: int = 0
    low_ms: int = 0
    busy_ms: int | None = None
    cpu_ms: int | None = None
    read_kib: int | None = None
    write_kib: int | None = None
    energy_mj: int | None = None
    sm_ms: int | None = None
    sm_of_ms: int = 0
    throttle_ms: int | None = None
    throttle_of_ms: int = 0
    memory_ms: int = 0
    memory_mib_ms: int = 0
    peak_mib: int | None = None


def count_card(before: Count | None, reading: Reading, percent: int) -> Count:
    """Add a reading of a card. percent: of the card's time that the holding has."""
    if before is None:
        before = Count("", 0, reading.at, reading.source)
    if reading.busy_ms is None:  # its time goes on until the counter is read again
        return replace(before, peak_mib=_max(before.peak_mib, reading.used_mib, reading.peak_mib))
    if _is_known(before, reading):
        return before
    span_ms = _measure_span(before, reading)
    grown = _measure_busy(before, reading)
    count = _move_on(before, reading, span_ms if grown is not None else None)
    count = replace(count, of_card=reading.of_card, busy_at=reading.busy_ms, busy_ms=_add(before.busy_ms, grown))
    if grown is None or span_ms is None:
        return replace(count, low_ms=0)
    return _judge_span(count, span_ms, active=100 * grown * 100 >= ACTIVE_PERCENT * span_ms * max(percent, 1))


def count_host(before: Count | None, reading: Reading) -> Count:
    """Add a reading of a task's CPU, memory and disk, whose counters begin with the task and go on in every run."""
    if before is None:
        before = Count("", 0, reading.at, reading.source)
    if reading.cpu_ms is None:
        return replace(before, peak_mib=_max(before.peak_mib, reading.used_mib, reading.peak_mib))
    if _is_known(before, reading):
        return before
    return replace(
        _move_on(before, reading, _measure_span(before, reading)),
        cpu_at=reading.cpu_ms,
        cpu_ms=_add(before.cpu_ms, _grow(before.cpu_at, reading.cpu_ms)),
        read_at=before.read_at if reading.read_kib is None else reading.read_kib,
        read_kib=_add(before.read_kib, _grow(before.read_at, reading.read_kib)),
        write_at=before.write_at if reading.write_kib is None else reading.write_kib,
        write_kib=_add(before.write_kib, _grow(before.write_at, reading.write_kib)),
    )


def continue_count(before: Count) -> Count:
    """Return the count of a holding that follows another of the same task and card: only the counters go on."""
    names = ("run", "up_ms", "at", "source", "of_card", "busy_at", "cpu_at", "read_at", "write_at", "energy_at")
    return Count(**{name: getattr(before, name) for name in names})


def _is_known(before: Count, reading: Reading) -> bool:
    return before.run == reading.run and reading.up_ms <= before.up_ms


def _measure_span(before: Count, reading: Reading) -> int | None:
    """Return the milliseconds since the last reading; None if they were not watched."""
    span_ms = reading.up_ms - before.up_ms
    return span_ms if before.run == reading.run and span_ms <= LONGEST_SPAN_MS else None


def _measure_busy(before: Count, reading: Reading) -> int | None:
    """Return how much busier the card got by it; None if that is not known. Never more than time has passed."""
    assert reading.busy_ms is not None  # count_card asked
    if before.of_card != reading.of_card and before.busy_at is not None:
        return None
    if before.run == reading.run:
        grown = reading.busy_ms - (before.busy_at or 0)
        return None if grown < 0 else min(grown, reading.up_ms - before.up_ms)
    return None if reading.of_card else min(reading.busy_ms, reading.up_ms)  # its counter began with it, or the run


def _move_on(before: Count, reading: Reading, span_ms: int | None) -> Count:
    """Take the reading as the newest. span_ms: if it was watched."""
    known_ms = span_ms if span_ms is not None and reading.used_mib is not None else 0
    return replace(
        before,
        run=reading.run,
        up_ms=reading.up_ms,
        at=reading.at,
        source=reading.source,
        seen_ms=before.seen_ms + (span_ms or 0),
        memory_ms=before.memory_ms + known_ms,
        memory_mib_ms=before.memory_mib_ms + known_ms * (reading.used_mib or 0),
        peak_mib=_max(before.peak_mib, reading.used_mib, reading.peak_mib),
    )


def _judge_span(count: Count, span_ms: int, *, active: bool) -> Count:
    if active:
        return replace(count, active_ms=count.active_ms + span_ms, low_ms=0)
    low_ms = count.low_ms + span_ms
    if low_ms < IDLE_MS:
        return replace(count, low_ms=low_ms)
    return replace(count, low_ms=low_ms, idle_ms=count.idle_ms + (span_ms if count.low_ms >= IDLE_MS else low_ms))


def _grow(before: int | None, after: int | None) -> int | None:
    """Return by how much a task's counter grew. One that fell began anew: how much it grew is not known."""
    if after is None or (before is not None and after < before):
        return None
    return after - (before or 0)


def _add(total: int | None, grown: int | None) -> int | None:
    return total if grown is None else (total or 0) + grown


def _max(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)
