"""Jobs that are stopped after a time: who waits counts on it, and so do forecasts."""

from dataclasses import replace
from math import inf

import pytest

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.run_times import RunTimeHistory
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.forecast.start_forecast import forecast_starts
from scheduler.core.model.types import Policy
from scheduler.core.queueing.release_times import estimate_end
from tests.worlds import wants, with_waiting, world

ONE = "n1: V100-32GBx1"


@pytest.mark.parametrize(
    ("time_s", "limit_s", "now", "ends_at"),
    [
        (100, inf, 50, 100),
        (100, inf, 150, 300),  # over its time: as long again
        (100, 200, 150, 200),  # but no longer than it may
        (inf, 200, 150, 200),
        (inf, inf, 150, inf),
        (200, 200, 250, 251),  # it is being stopped
    ],
)
def test_when_a_job_is_expected_to_end(time_s, limit_s, now, ends_at):
    assert estimate_end(0.0, time_s, now, limit_s) == ends_at


def holds_a_notebook(limit_s, *wishes):
    snapshot = world(f"{ONE} | ada holds 1", *wishes)
    (job,) = snapshot.running
    snapshot.running = (
        replace(job, time_s=limit_s, limit_s=limit_s, ends_at=estimate_end(0.0, limit_s, 0.0, limit_s)),
    )
    return snapshot


def test_a_reservation_counts_on_the_end_of_a_notebooks_hours():
    assert run_cycle(holds_a_notebook(3600, wants("bob", "1")), Policy(), 0.0).reserved_at == {1: 3600}
    assert run_cycle(holds_a_notebook(inf, wants("bob", "1")), Policy(), 0.0).reserved_at == {}


def test_no_future_lets_a_notebook_outlive_its_hours():
    """Though the jobs of the past ran ten times as long as they had said."""
    found = forecast_starts(holds_a_notebook(3600, wants("bob", "1")), Policy(), 0.0, RunTimeHistory((10.0,)))
    assert found[1].p90 == 3600


def test_nor_a_job_that_has_yet_to_start_outlive_its_limit():
    snapshot = world(ONE, wants("ada", "1", time_s=100), wants("bob", "1"))
    first, second = snapshot.waiting
    snapshot = with_waiting(snapshot, replace(first, limit_s=150), second)
    ends = [moment.at for moment in Simulation(snapshot, Policy(), 0.0, lambda job: 1000.0).run_steps() if moment.ended]
    assert ends == [150, 1150]
    assert forecast_starts(snapshot, Policy(), 0.0, RunTimeHistory((10.0,)))[2].p50 == 150
