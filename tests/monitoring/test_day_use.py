"""A day of cards: pools add up, what nobody saw is a gap, and what is to come is neither."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.utils import timezone

from monitoring.models import Sample
from monitoring.series.day_use import STEPS_S, build_slots, load_day_use
from monitoring.series.keys import Key, Kind
from tests import make

START = datetime(2026, 11, 1, tzinfo=UTC)
NONE = float("nan")


def test_pools_add_up_and_what_nobody_saw_is_not_nothing():
    one = np.array([[8000, NONE, 8000]] + [[4000, NONE, 1000]] * 4)
    two = np.array([[2000, NONE, NONE]] + [[500, NONE, NONE]] * 4)
    slots = build_slots({Key(Kind.POOL, 1): one, Key(Kind.POOL, 2): two}, START, timedelta(hours=8), 3)
    assert [(slot.capacity, slot.held, slot.is_known) for slot in slots] == [
        (10, 4.5, True), (None, None, False), (8, 1, True),
    ]  # fmt: skip
    assert [slot.begins.hour for slot in slots] == [0, 8, 16]
    assert [slot.held for slot in build_slots({}, START, timedelta(hours=8), 3)] == [None] * 3


@pytest.mark.django_db
@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_day_is_drawn_from_the_samples_of_its_pools(step_s):
    cast, now = make.cast(), timezone.now()
    day = (now - timedelta(days=1)).date()
    begins = datetime.combine(day, datetime.min.time(), UTC)
    for minute in range(60 * 12):
        at = begins + timedelta(minutes=minute + 1)
        busy = 900 if minute < 600 else 100
        Sample.objects.create(
            kind=Kind.POOL, subject=cast.dev.pk, at=at, span_ms=60_000, source="simulated",
            values=[1000, 1000, busy, 1000 - busy, 0],
        )  # fmt: skip
    use = load_day_use([cast.dev.pk], day, step_s, now)
    assert (len(use.slots), use.step_s, use.begun, use.simulated) == (86_400 // step_s, step_s, 86_400 // step_s, True)
    assert use.known_percent == 50 and use.percent("held") == 100
    assert use.percent("active") == pytest.approx(76.7, abs=0.1)
    assert (use.busiest.begins, use.busiest.active) == (begins, 0.9)
    assert load_day_use([0], day, step_s, now).known == []


@pytest.mark.django_db
def test_what_is_to_come_has_not_begun():
    now = timezone.now()
    use = load_day_use([make.cast().dev.pk], now.date(), 1800, now)
    assert use.begun == (now.hour * 60 + now.minute) // 30 + 1 and use.known_percent == 0
    assert load_day_use([1], now.date() + timedelta(days=1), 1800, now).begun == 0
