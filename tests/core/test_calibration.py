"""What past forecasts teach: ranges that held too few starts become wider, those that held too many narrower."""

from math import inf
from random import Random

import pytest

from scheduler.core.forecast.calibration import (
    DEFAULT_MOVE,
    MIN_MOMENTS,
    MIN_PAST_FORECASTS,
    MOMENT_LENGTH_S,
    WAIT_RESOLUTION_S,
    Calibration,
    PastForecast,
    fit_calibration,
)
from scheduler.core.model.types import StartRange

HOUR = 3600.0


def past(waits, p10=HOUR, p90=2 * HOUR, count=100):
    """Ranges told ten minutes after one another, and how long each job then waited."""
    dice, times = Random(1), [MOMENT_LENGTH_S * n for n in range(count)]
    return [PastForecast(at, at + p10, at + p90, at + waits(dice)) for at in times]


def share_inside(calibration, waits, count=4000):
    told, dice = calibration.apply(StartRange(HOUR, 1.5 * HOUR, 2 * HOUR), 0.0), Random(2)
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
    assert 0.76 < share_inside(fit_calibration(past(waits, count=1000)), waits) < 0.85


def test_ranges_that_hold_enough_stay_as_they_are():
    calibration = fit_calibration(past(lambda dice: dice.uniform(0.875, 2.125) * HOUR, count=1000))
    assert abs(calibration.early) < 0.1 and abs(calibration.late) < 0.1


def test_a_job_that_still_waits_beyond_its_range_is_late_and_one_within_says_nothing():
    held = past(lambda dice: 1.5 * HOUR)
    overdue = [PastForecast(one.made_at, one.p10, one.p90, one.p90 + 5 * HOUR, is_waiting=True) for one in held[:30]]
    within = [PastForecast(one.made_at, one.p10, one.p90, one.p10, is_waiting=True) for one in held[:30]]
    assert fit_calibration(held + overdue).late > fit_calibration(held).late == fit_calibration(held + within).late


def test_of_few_ranges_and_of_few_moments_nothing_is_learned_but_that_futures_are_too_sure():
    unsure, late = Calibration(DEFAULT_MOVE, DEFAULT_MOVE), past(lambda dice: 9 * HOUR)
    assert (
        fit_calibration([])
        == fit_calibration(late[: MIN_PAST_FORECASTS - 1])
        == unsure
        != fit_calibration(late[:MIN_PAST_FORECASTS])
    )
    within = MOMENT_LENGTH_S * (MIN_MOMENTS - 1) / 100
    at_once = [PastForecast(within * n, HOUR, 2 * HOUR, 9 * HOUR) for n in range(100)]
    assert fit_calibration(at_once) == unsure
    told = unsure.apply(StartRange(HOUR, 1.5 * HOUR, 2 * HOUR), 0.0)
    assert told.p10 < HOUR and 2.9 * HOUR < told.p90 < 3.1 * HOUR


def test_the_fewer_moments_are_known_the_wider_a_range_gets():
    """As many starts, one in ten of them late: of four moments nobody knows how late the fifth will be."""

    def waits(dice):
        return dice.uniform(1.0, 2.2) * HOUR

    many = past(waits)
    few = [
        PastForecast(one.made_at // (25 * MOMENT_LENGTH_S) * (25 * MOMENT_LENGTH_S), *_at_same_waits(one))
        for one in many
    ]
    assert (
        fit_calibration(few).late > fit_calibration(many).late
        and fit_calibration(few).early >= fit_calibration(many).early
    )


def _at_same_waits(one):
    """p10, p90 and the start, as far from a moment that is a multiple of 25."""
    moved = one.made_at // (25 * MOMENT_LENGTH_S) * (25 * MOMENT_LENGTH_S) - one.made_at
    return one.p10 + moved, one.p90 + moved, one.started_at + moved


def test_a_range_stays_in_order_and_after_now():
    for early, late in ((2.0, 2.0), (-2.0, -2.0), (2.0, -2.0), (-2.0, 2.0)):
        told = Calibration(early, late).apply(StartRange(100.0, 200.0, 4000.0), 100.0)
        assert 100.0 <= told.p10 <= told.p50 <= told.p90


def test_what_starts_now_and_what_nobody_knows_stay():
    calibration = Calibration(1.0, 1.0)
    assert calibration.apply(StartRange(5.0, 5.0, 5.0), 5.0) == StartRange(5.0, 5.0, 5.0)
    assert calibration.apply(StartRange(inf, inf, inf), 5.0) == StartRange(inf, inf, inf)
    assert calibration.apply(StartRange(WAIT_RESOLUTION_S, inf, inf), 0.0).p90 == inf
