"""Who may pass the first in line, and what the first in line is promised."""

from math import inf
from random import Random

import pytest

from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Policy
from scheduler.core.queueing.release_times import estimate_end
from scheduler.core.queueing.reservations import ReservationPlan
from tests.core.test_cycle import cards, cycle, started, why
from tests.worlds import wants, world

TWO_BUSY = "n1: V100-32GBx2 | bob holds 1 until 1000"


def test_a_short_job_passes_one_that_waits_for_more():
    plan = cycle(world(TWO_BUSY, wants("ada", "2"), wants("eve", "1", time_s=900)))
    assert started(plan) == [2] and plan.reserved_at == {1: 1000}


def test_a_job_that_would_end_too_late_does_not_pass():
    plan = cycle(world(TWO_BUSY, wants("ada", "2"), wants("eve", "1", time_s=901)))
    assert started(plan) == [] and why(plan, 2) == ["ahead_in_queue", "reserved_for_larger"]
    assert plan.refusals[2][1].params == {"at": 1000}


def test_a_job_that_says_nothing_passes_only_where_nobody_is_delayed():
    elsewhere = f"{TWO_BUSY}\nn2: V100-32GBx1"
    plan = cycle(world(elsewhere, wants("ada", "2"), wants("eve", "1")))
    assert started(plan) == [2] and cards(plan.starts[0]) == [2]
    assert started(cycle(world(TWO_BUSY, wants("ada", "2"), wants("eve", "1")))) == []


def test_the_second_in_line_has_a_reservation_after_the_first():
    plan = cycle(world(TWO_BUSY, wants("ada", "2", time_s=500), wants("ada", "2", time_s=500)))
    assert plan.reserved_at == {1: 1000, 2: 1500}


def test_only_so_many_of_each_pool_have_a_reservation():
    snapshot = world(TWO_BUSY, wants("ada", "2", time_s=500), wants("ada", "2", time_s=500))
    assert run_cycle(snapshot, Policy(reservations=1), 100.0).reserved_at == {1: 1000}


def test_who_waits_for_somebody_of_unknown_end_is_passed_by_jobs_that_say_their_time():
    snapshot = world(
        "n1: V100-32GBx2 | bob holds 1", wants("ada", "2"), wants("eve", "1"), wants("eve", "1", time_s=60)
    )
    plan = cycle(snapshot)
    assert started(plan) == [3] and plan.reserved_at == {}


def test_a_reservation_counts_cpu_too():
    busy = "n1: V100-32GBx2 cores 4 | bob holds 1 until 1000"
    long_cpu = wants("eve", "cpu", cores=1, time_s=9000)
    plan = cycle(world(busy, wants("ada", "2", cores=4), long_cpu))
    assert started(plan) == [] and why(plan, 2)[-1] == "reserved_for_larger"


def test_a_job_that_needs_a_node_that_is_down_holds_up_nobody():
    plan = cycle(world("n1: closed V100-32GBx2\nn2: V100-32GBx1", wants("ada", "2"), wants("eve", "1")))
    assert started(plan) == [2]


def test_one_that_is_over_its_time_is_taken_to_run_as_long_again():
    assert estimate_end(0.0, 100.0, 50.0) == 100.0 and estimate_end(0.0, 100.0, 300.0) == 600.0


def crowded(dice):
    """Four nodes of four cards, each held a while as a whole, in slices or not at all, and gangs that wait."""
    nodes = []
    for number in range(4):
        cards = [dice.choice(["", "1", "1/2"]) for _ in range(4)]
        holds = [f"bob holds {ask} until {dice.randrange(100, 900)}" for ask in cards if ask]
        nodes.append(" | ".join([f"n{number}: {dice.choice(['A100', 'V100-32GB'])}x4", *holds]))
    asks = [(dice.choice(["1", "2", "4", "V100-32GB:2", "1/2"]), dice.choice([1, 1, 2, 3])) for _ in range(6)]
    jobs = [wants("ada", ask, gang=gang, time_s=dice.randrange(50, 900)) for ask, gang in asks]
    return world("\n".join(nodes), *jobs)


@pytest.mark.parametrize("drains_from", [0.0, inf])
@pytest.mark.parametrize("seed", range(30))
def test_no_time_is_left_out_at_which_a_job_would_fit(seed, drains_from, monkeypatch):
    """Where the looks begin only saves looks: from the first time on the same places are found."""
    snapshot = crowded(Random(seed))
    policy = Policy(drains_from=drains_from)
    plan = run_cycle(snapshot, policy, 0.0)
    monkeypatch.setattr(ReservationPlan, "_earliest_idle", lambda self, asked, releases: -inf)
    assert run_cycle(snapshot, policy, 0.0) == plan
