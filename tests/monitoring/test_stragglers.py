"""Who of a gang is slower than the others, by curves that are made up."""

import numpy as np
import pytest

from monitoring.series.stragglers import Straggler, find_stragglers

MINUTES = 60
NAN = float("nan")


def gang(ranks: int = 4, percent: float = 90.0) -> dict[int, np.ndarray]:
    return {rank: np.full(MINUTES, percent) for rank in range(ranks)}


def test_a_rank_that_is_a_quarter_slower_for_long_is_named_with_since_when():
    busy = gang()
    busy[2][30:] = 67.5
    assert find_stragglers(busy, 60) == {2: Straggler(0.25, 30)}


@pytest.mark.parametrize("minutes, percent", [(14, 60.0), (30, 73.0)])
def test_for_too_short_or_by_too_little_is_no_straggler(minutes, percent):
    busy = gang()
    busy[2][-minutes:] = percent
    assert find_stragglers(busy, 60) == {}


def test_one_minute_in_which_it_keeps_up_begins_anew():
    busy = gang()
    busy[2][30:] = 50.0
    busy[2][50] = 90.0
    assert find_stragglers(busy, 60) == {}


def test_a_checkpoint_of_all_says_nothing_and_breaks_nothing():
    busy = gang()
    busy[1][30:] = 50.0
    for values in busy.values():
        values[50:52] = 0.0
    assert find_stragglers(busy, 60)[1].since_slot == 30


def test_what_is_not_known_is_not_slow():
    busy = gang()
    busy[1][30:] = NAN
    assert find_stragglers(busy, 60) == {}
    busy[1][30:40] = 50.0  # seen slow, then not seen
    assert find_stragglers(busy, 60) == {}


def test_of_two_nobody_can_tell_who_is_slow():
    busy = gang(2)
    busy[1][:] = 10.0
    assert find_stragglers(busy, 60) == {}


def test_an_idle_gang_has_no_straggler():
    busy = gang(4, 2.0)
    busy[1][:] = 0.0
    assert find_stragglers(busy, 60) == {}
    assert find_stragglers({}, 60) == {}
