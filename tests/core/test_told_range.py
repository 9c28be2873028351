"""What was told stays while it holds."""

from math import inf

import pytest

from scheduler.core.forecast.told_range import LATER, MUCH_NARROWER, revise_told_range
from scheduler.core.model.types import StartRange

NOW = 1000.0
TOLD = StartRange(1500.0, 2000.0, 3000.0)


@pytest.mark.parametrize(
    "fresh",
    [StartRange(1600.0, 1800.0, 3100.0), StartRange(1200.0, 1500.0, 2900.0), StartRange(1600.0, 3000.0, 9000.0)],
)
def test_another_draw_within_the_range_moves_only_the_likely_time(fresh):
    assert revise_told_range(TOLD, fresh, NOW) == StartRange(TOLD.p10, fresh.p50, TOLD.p90)


def test_a_likely_start_before_the_range_replaces_it():
    sooner = StartRange(1100.0, 1200.0, 1300.0)
    assert revise_told_range(TOLD, sooner, NOW) == sooner


def test_a_range_that_moves_later_gets_more_room_at_its_end():
    later = StartRange(3100.0, 3500.0, 4000.0)
    assert revise_told_range(TOLD, later, NOW) == StartRange(3100.0, 3500.0, NOW + LATER * 3000.0)
    passed = StartRange(2900.0, 3050.0, 3100.0)
    assert revise_told_range(TOLD, passed, TOLD.p90) == StartRange(2900.0, 3050.0, TOLD.p90 + LATER * 100.0)


def test_a_much_narrower_range_is_told_and_a_little_narrower_one_is_not():
    width = TOLD.p90 - TOLD.p10
    narrow = StartRange(1900.0, 2000.0, 1900.0 + MUCH_NARROWER * width)
    wider = StartRange(1900.0, 2000.0, 1901.0 + MUCH_NARROWER * width)
    assert revise_told_range(TOLD, narrow, NOW) == narrow
    assert revise_told_range(TOLD, wider, NOW) == StartRange(TOLD.p10, 2000.0, TOLD.p90)


def test_a_range_without_an_end_holds_nothing():
    fresh = StartRange(1100.0, 1200.0, 1300.0)
    assert revise_told_range(None, fresh, NOW) == fresh
    assert revise_told_range(StartRange(900.0, 1200.0, inf), fresh, NOW) == fresh
    unknown = StartRange(inf, inf, inf)
    assert revise_told_range(TOLD, unknown, NOW) == unknown
