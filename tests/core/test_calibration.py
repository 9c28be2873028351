"""What past forecasts teach: ranges that held too few starts become wider, those that held too many narrower."""

from math import inf
from random import Random

import pytest

from scheduler.core.calibration import GRAIN_S, LEAST, LEAST_MOMENTS, MOMENT_S, UNSURE, Calibration, Past, calibrate
from scheduler.core.forecast import Range

HOUR = 3600.0


def past(waits, p10=HOUR, p90=2 * HOUR, count=100):
    """Ranges told ten minutes after one another, and how long each job then waited."""
    dice, times = Random(1), [MOMENT_S * n for n in range(count)]
    return [Past(at, at + p10, at + p90, at + waits(dice)) for at in times]


def share_inside(calibration, waits, count=4000):
    told, dice = calibration.of(Range(HOUR, 1.5 * HOUR, 2 * HOUR), 0.0), Random(2)
    return sum(told.p10 <= waits(dice) <= told.p90 for _ in range(count)) / count


@pytest.mark.parametrize(
    "waits",
    [
        lambda dice: dice.uniform(0, 10 * HOUR),
        lambda dice: dice.uniform(1.4, 1.6) * HOUR,
        lambda dice: dice.lognormvariate(8.0, 1.0),
        lambda dice: dice.uniform(3, 4) * HOUR,
    ],
    ids=["far too narrow", "far too wide", "skewed", "always too early"],
)
def test_four_starts_of_five_lie_in_the_range_whatever_the_futures_got_wrong(waits):
    assert 0.76 < share_inside(calibrate(past(waits, count=1000)), waits) < 0.85


def test_ranges_that_hold_enough_stay_as_they_are():
    calibration = calibrate(past(lambda dice: dice.uniform(0.875, 2.125) * HOUR, count=1000))
    assert abs(calibration.early) < 0.1 and abs(calibration.late) < 0.1


def test_a_job_that_still_waits_beyond_its_range_is_late_and_one_within_says_nothing():
    held = past(lambda dice: 1.5 * HOUR)
    overdue = [Past(one.made_at, one.p10, one.p90, one.p90 + 5 * HOUR, waits=True) for one in held[:30]]
    within = [Past(one.made_at, one.p10, one.p90, one.p10, waits=True) for one in held[:30]]
    assert calibrate(held + overdue).late > calibrate(held).late == calibrate(held + within).late


def test_of_few_ranges_and_of_few_moments_nothing_is_learned_but_that_futures_are_too_sure():
    unsure, late = Calibration(UNSURE, UNSURE), past(lambda dice: 9 * HOUR)
    assert calibrate([]) == calibrate(late[: LEAST - 1]) == unsure != calibrate(late[:LEAST])
    within = MOMENT_S * (LEAST_MOMENTS - 1) / 100
    at_once = [Past(within * n, HOUR, 2 * HOUR, 9 * HOUR) for n in range(100)]
    assert calibrate(at_once) == unsure
    told = unsure.of(Range(HOUR, 1.5 * HOUR, 2 * HOUR), 0.0)
    assert told.p10 < HOUR and 2.9 * HOUR < told.p90 < 3.1 * HOUR


def test_the_fewer_moments_are_known_the_wider_a_range_gets():
    """As many starts, one in ten of them late: of four moments nobody knows how late the fifth will be."""

    def waits(dice):
        return dice.uniform(1.0, 2.2) * HOUR

    many = past(waits)
    few = [Past(one.made_at // (25 * MOMENT_S) * (25 * MOMENT_S), *_at_same_waits(one)) for one in many]
    assert calibrate(few).late > calibrate(many).late and calibrate(few).early >= calibrate(many).early


def _at_same_waits(one):
    """p10, p90 and the start, as far from a moment that is a multiple of 25."""
    moved = one.made_at // (25 * MOMENT_S) * (25 * MOMENT_S) - one.made_at
    return one.p10 + moved, one.p90 + moved, one.started_at + moved


def test_a_range_stays_in_order_and_after_now():
    for early, late in ((2.0, 2.0), (-2.0, -2.0), (2.0, -2.0), (-2.0, 2.0)):
        told = Calibration(early, late).of(Range(100.0, 200.0, 4000.0), 100.0)
        assert 100.0 <= told.p10 <= told.p50 <= told.p90


def test_what_starts_now_and_what_nobody_knows_stay():
    calibration = Calibration(1.0, 1.0)
    assert calibration.of(Range(5.0, 5.0, 5.0), 5.0) == Range(5.0, 5.0, 5.0)
    assert calibration.of(Range(inf, inf, inf), 5.0) == Range(inf, inf, inf)
    assert calibration.of(Range(GRAIN_S, inf, inf), 0.0).p90 == inf
