"""Uses are differences of counters: what is lost, doubled, late or begun anew changes no total."""

import random
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from monitoring.usage.counting import IDLE_MS, LONGEST_SPAN_MS, Count, Reading, continue_count, count_card, count_host

TICK_MS = 10_000
EPOCH = datetime(2026, 11, 1, tzinfo=UTC)
QUARTER = 25
levels = st.sampled_from([0, 1, 4, 5, 6, 40, 100])
long = st.lists(st.tuples(st.integers(1, 120), levels), min_size=1, max_size=5)
"""(ticks, percent of its share)."""
short = st.lists(st.tuples(st.integers(1, 20), levels), min_size=1, max_size=4)


def read(run: str, up_ms: int, **values) -> Reading:
    return Reading(run, up_ms, EPOCH + timedelta(milliseconds=up_ms), "measured", **values)


def expand(parts: list[tuple[int, int]]) -> list[int]:
    return [level for ticks, level in parts for _ in range(ticks)]


def sample(activity: list[int], run: str = "boot/1") -> list[Reading]:
    """A reading after each tick of a quarter, whose counter begins with the run."""
    readings, busy = [], 0
    for i, level in enumerate(activity, 1):
        busy += TICK_MS * level * QUARTER // 10_000
        readings.append(read(run, i * TICK_MS, busy_ms=busy, used_mib=100))
    return readings


def count(readings: list[Reading], before: Count | None = None, percent: int = QUARTER) -> Count | None:
    for reading in readings:
        before = count_card(before, reading, percent)
    return before


@given(long)
@settings(deadline=None, max_examples=50)
def test_of_what_was_watched_all_is_active_or_idle_or_a_short_pause(parts):
    activity = expand(parts)
    first, *rest = sample(activity)
    told = count([first, *rest])
    spans = [(low, len(list(some))) for low, some in groupby(activity[1:], key=lambda level: level < 5)]
    assert told.seen_ms == TICK_MS * len(rest) == told.memory_ms
    assert told.active_ms == sum(TICK_MS * ticks for low, ticks in spans if not low)
    assert told.idle_ms == sum(TICK_MS * ticks for low, ticks in spans if low and TICK_MS * ticks >= IDLE_MS)
    assert told.low_ms == (TICK_MS * spans[-1][1] if spans and spans[-1][0] else 0)
    assert told.memory_mib_ms == 100 * told.memory_ms


@given(st.lists(short, min_size=1, max_size=3), st.integers(0, 2**30))
@settings(deadline=None, max_examples=50)
def test_busy_is_the_integral_of_any_trace_but_for_a_tick(runs, seed):
    """Of each run some reports are lost, some come twice, some late; the sampler is started anew between the runs."""
    told, truth, watched, dice = None, 0, 0, random.Random(seed)
    for number, parts in enumerate(runs):
        readings = sample(expand(parts), f"boot/{number}")
        truth += readings[-1].busy_ms
        kept = [reading for reading in readings[:-1] if dice.random() < 0.5] + readings[-1:]
        ups = [reading.up_ms for reading in kept]
        spans = [later - sooner for sooner, later in pairwise(ups)]
        watched += sum(span for span in spans if span <= LONGEST_SPAN_MS)
        for reading in kept:
            told = count([reading, *dice.choices(readings[: readings.index(reading) + 1], k=2)], told)
    assert told.busy_ms == truth
    assert told.active_ms + told.low_ms <= told.seen_ms == watched
    assert told.idle_ms <= told.seen_ms - told.active_ms


def test_a_gap_is_caught_up_but_was_seen_neither_active_nor_idle():
    before = count([read("r", 0, busy_ms=0), read("r", TICK_MS, busy_ms=0)])
    told = count([read("r", TICK_MS + LONGEST_SPAN_MS + 1, busy_ms=30_000)], before)
    assert (told.busy_ms, told.seen_ms, told.active_ms, told.low_ms) == (30_000, TICK_MS, 0, 0)


def test_a_counter_that_falls_is_no_negative_use_and_none_leaps():
    told = count(
        [read("r", TICK_MS, busy_ms=5000), read("r", 2 * TICK_MS, busy_ms=10), read("r", 3 * TICK_MS, busy_ms=20)]
    )
    assert (told.busy_ms, told.seen_ms) == (5010, TICK_MS)
    assert count([read("r", 4 * TICK_MS, busy_ms=900_000)], told).busy_ms == 5010 + TICK_MS


def test_without_a_counter_only_the_peak_is_known():
    told = count([read("r", TICK_MS, used_mib=900), read("r", 2 * TICK_MS, used_mib=800)])
    assert (told.peak_mib, told.busy_ms, told.seen_ms) == (900, None, 0)
    assert count([read("r", 3 * TICK_MS, busy_ms=700)], told).busy_ms == 700  # since it began


def test_a_whole_card_counts_from_where_its_counter_stood():
    told = count([read("r", up, busy_ms=busy, of_card=True) for up, busy in ((TICK_MS, 8000), (2 * TICK_MS, 12_000))])
    assert (told.busy_ms, told.seen_ms) == (4000, TICK_MS)
    assert count([read("r", 3 * TICK_MS, busy_ms=3)], told).busy_ms == 4000  # another counter: of its own share


def test_a_resized_slice_goes_on_from_the_counter_and_from_nothing_else():
    before = count(sample([100] * 5))
    after = count([read("boot/1", 6 * TICK_MS, busy_ms=before.busy_at + 2500)], continue_count(before), percent=50)
    assert (after.busy_ms, after.seen_ms, after.active_ms) == (2500, TICK_MS, TICK_MS)


def test_a_tasks_own_counters_go_on_when_the_sampler_begins_anew():
    told = None
    for reading in (
        read("a", 5000, cpu_ms=1000, read_kib=10, used_mib=64, peak_mib=70),
        read("a", 15_000, cpu_ms=3000, read_kib=30, used_mib=64),
        read("b", 1000, cpu_ms=9000, write_kib=5, used_mib=80),
        read("b", 1000, cpu_ms=9900),
        read("b", 11_000, cpu_ms=9500, read_kib=20),
    ):
        told = count_host(told, reading)
    assert (told.cpu_ms, told.read_kib, told.write_kib, told.peak_mib) == (9500, 30, 5, 80)
    assert (told.seen_ms, told.memory_ms, told.memory_mib_ms) == (20_000, 10_000, 640_000)
