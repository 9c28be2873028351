"""Series in PostgreSQL: what was sampled is read back, raw and packed, in every step, and dropped when it is old."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.db import connection

from monitoring.models import FinePack, MinutePack, PackedUntil, Sample
from monitoring.series import frames, packing, partitions
from monitoring.series.frames import load_frame
from monitoring.series.keys import Key, Kind
from monitoring.series.packing import pack_for
from monitoring.series.partitions import plan_partitions, tidy_partitions
from monitoring.series.store import keep_samples
from monitoring.series.tiers import FINE, HOURS, MINUTES, RAW, choose_tier, split

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
CARD, OTHER = Key(Kind.CARD, 1), Key(Kind.CARD, 2)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


class Clock:
    now_at = NOON

    def now(self) -> datetime:
        return self.now_at


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (frames, packing, partitions):
        monkeypatch.setattr(module, "timezone", clock)
    return clock


def sample(key: Key, at: datetime, *values: int | None, source: str = "measured", span_s: float = 10) -> Sample:
    told = [*values, None, None, None][:4] if key.kind == Kind.CARD else list(values)
    return Sample(
        kind=key.kind, subject=key.subject, card=key.card, at=at, span_ms=1000 * span_s, source=source, values=told
    )


def keep_hours(key: Key, start: datetime, hours: int) -> None:
    """A sample each 10 s: busy as many percent as the minute's number, memory in use as its second."""
    ends = [start + timedelta(seconds=10 * (i + 1)) for i in range(360 * hours)]
    begins = [end - timedelta(seconds=10) for end in ends]
    keep_samples(
        [
            sample(key, end, 100 * begin.minute, 1000 + begin.second, source="simulated")
            for begin, end in zip(begins, ends, strict=True)
        ]
    )


def busy(frame, key: Key = CARD) -> list:
    return [None if np.isnan(value) else value / 100 for value in frame.values[key][0]]


pytestmark = pytest.mark.django_db


def test_raw_samples_are_means_of_slots_and_gaps_stay_gaps(clock):
    keep_samples(
        [
            sample(CARD, NOON + timedelta(seconds=10), 1000, 500),
            sample(CARD, NOON + timedelta(seconds=20), None, 600),
            sample(CARD, NOON + timedelta(seconds=50), 5000, 700, span_s=20),
        ]
    )
    clock.now_at = NOON + minutes(1)
    frame = load_frame([CARD, OTHER], NOON, NOON + minutes(1), 10)
    assert (frame.start, frame.step_s, frame.slots, list(frame.values)) == (NOON, 10, 6, [CARD])
    assert busy(frame) == [10, None, None, 50, 50, None]
    assert load_frame([CARD], NOON, NOON + minutes(1), 30).values[CARD][1].tolist() == [550, 700]
    assert load_frame([], NOON, NOON + minutes(1), 10).values == {}


def test_the_same_sample_twice_changes_nothing(clock):
    for value in (1000, 9000):
        keep_samples([sample(CARD, NOON + timedelta(seconds=10), value)])
    assert busy(load_frame([CARD], NOON, NOON + timedelta(seconds=10), 10)) == [10]


def test_hours_and_days_are_packed_and_tell_the_same(clock):
    start = NOON - timedelta(hours=12)
    keep_hours(CARD, start, 24)
    keep_hours(OTHER, start, 1)
    asked = [(start, start + timedelta(hours=1), 10), (start, NOON, 300), (start, start + timedelta(hours=24), 3600)]
    clock.now_at = start
    before = [load_frame([CARD, OTHER], *ask) for ask in asked]
    clock.now_at = start + timedelta(hours=24) + minutes(30)
    pack_for(60)
    assert FinePack.objects.count() == 24 and PackedUntil.objects.get(tier="fine").until == start + timedelta(hours=23)
    clock.now_at += minutes(10)
    pack_for(60)
    assert (FinePack.objects.count(), MinutePack.objects.count()) == (25, 2)
    Sample.objects.all().delete()
    after = [load_frame([CARD, OTHER], *ask) for ask in asked]
    for raw, packed in zip(before, after, strict=True):
        assert raw.values.keys() == packed.values.keys() and packed.sources[CARD] == "simulated"
        for key, values in raw.values.items():
            assert np.array_equal(values, packed.values[key], equal_nan=True)
    assert busy(after[0])[::6] == list(range(60))
    FinePack.objects.all().delete()
    of_the_day = load_frame([CARD], start, start + timedelta(hours=24), 60)
    assert busy(of_the_day) == 24 * list(range(60))
    assert (of_the_day.values[CARD][1][0], of_the_day.peaks[CARD][1][0]) == (1025, 1050)


def test_packing_goes_on_where_it_stopped(clock, monkeypatch):
    monkeypatch.setattr(packing, "AT_ONCE", 2)
    keys = [Key(kind, subject, card) for kind, subject, card in ((1, 1, 0), (1, 7, 0), (3, 2, 1), (3, 2, 9), (3, 5, 0))]
    keep_samples([sample(Key(Kind(k.kind), k.subject, k.card), NOON + minutes(30), 1, 2) for k in keys])
    clock.now_at = NOON + timedelta(hours=2)
    ticks = iter(range(100))
    assert pack_for(1.5, lambda: next(ticks)) == 2  # one chunk
    assert PackedUntil.objects.get(tier="fine").until == NOON
    assert load_frame(keys, NOON, NOON + timedelta(hours=1), 10).values.keys() == set(keys)  # raw until all is packed
    assert pack_for(60) == 3 and FinePack.objects.count() == 5
    assert load_frame(keys, NOON, NOON + timedelta(hours=1), 10).values.keys() == set(keys)


def test_partitions_take_over_what_the_rest_held_and_go_when_old(clock):
    keep_samples([sample(CARD, NOON + minutes(5), 100), sample(CARD, NOON - minutes(300), 100)])
    clock.now_at = NOON + minutes(6)
    tidy_partitions()
    assert tables_of_rows() == {"monitoring_sample_2026110212"}  # the older one was older than three hours
    keep_samples([sample(CARD, NOON + timedelta(hours=20), 100)])
    assert "monitoring_sample_2026110308" in tables_of_rows()
    tidy_partitions()
    clock.now_at = NOON + minutes(4 * 60)
    tidy_partitions()
    assert tables_of_rows() == {"monitoring_sample_2026110308"}
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'monitoring_sample_20%%' AND relkind = 'r'")
        (there,) = cursor.fetchone()
        cursor.execute("SELECT DISTINCT relpersistence FROM pg_class WHERE relname LIKE 'monitoring_sample_20%%'")
        assert (there, cursor.fetchall()) == (28, [("u",)])


def tables_of_rows() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT tableoid::regclass::text FROM monitoring_sample")
        return {name for (name,) in cursor.fetchall()}


KEPT = {FINE: timedelta(days=7), MINUTES: timedelta(days=60), HOURS: timedelta(days=730)}


@pytest.mark.parametrize(
    ("ago", "step_s", "tier"),
    [
        (timedelta(hours=1), 10, FINE),
        (timedelta(days=6), 10, FINE),
        (timedelta(days=8), 10, MINUTES),
        (timedelta(days=1), 60, MINUTES),
        (timedelta(days=90), 60, HOURS),
        (timedelta(days=9000), 1, HOURS),
        (timedelta(hours=1), 7200, HOURS),
    ],
)
def test_the_step_and_what_is_kept_choose_the_tier(ago, step_s, tier):
    assert choose_tier(NOON - ago, step_s, KEPT, NOON) == tier


def test_what_a_tier_has_not_made_yet_comes_from_finer_ones():
    until = {"fine": NOON - minutes(60), "minute": NOON - minutes(720)}
    start = NOON - minutes(1440)
    assert [(p.tier, p.start, p.end) for p in split(MINUTES, start, NOON, until)] == [
        (MINUTES, start, until["minute"]),
        (FINE, until["minute"], until["fine"]),
        (RAW, until["fine"], NOON),
    ]
    assert [p.tier for p in split(HOURS, NOON - minutes(1), NOON, until)] == [RAW]


def test_a_day_of_partitions_is_made_ahead():
    missing, old = plan_partitions(RAW, [NOON - timedelta(hours=9), NOON], NOON - timedelta(hours=8), NOON)
    assert (
        len(missing) == 24 and missing[0].start == NOON + timedelta(hours=1) and missing[-1].end > NOON + minutes(1440)
    )
    assert [(p.name, p.end) for p in old] == [("monitoring_sample_2026110203", NOON - timedelta(hours=8))]
