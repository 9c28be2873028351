"""Predictions on a tenth of the drawn years of `bin/bench lengths`, by the law that docs/simulation.md tells."""

import pytest

from bench.lengths import measure_predictions, measure_waits
from bench.shared.drawn_years import draw_year
from scheduler.core.model.types import Policy


@pytest.mark.parametrize("seed", range(1, 11))
def test_half_of_the_predictions_are_near_and_nine_tenths_not_far_off(seed):
    found = measure_predictions(draw_year(seed, 2000))
    assert found["within_1.5"] >= 0.5
    assert found["within_4"] >= 0.9
    assert found["within_1.5"] > found["said_within_1.5"] + 0.1
    assert 0.84 < found["below_latest"] < 0.95


def test_jobs_wait_no_longer_than_by_what_people_say():
    waits = [measure_waits(draw_year(1000 + seed, 600), Policy(), seed) for seed in (1, 2)]
    mean_s = {told: sum(one[told] for one in waits) / len(waits) for told in waits[0]}
    assert mean_s["predicted"] <= mean_s["said"]
