"""Whom a job may stop, and whom it chooses."""

from itertools import islice

import pytest

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.model.types import Eviction, Policy
from tests.core.test_cycle import ONE_CARD, cycle, started, why
from tests.worlds import build_waiting, wants, world

ADA = {("ada", "dev"): ONE_CARD}
HOUR = 3600.0


def evicted(plan) -> list[int]:
    return [eviction.job for eviction in plan.evictions]


def test_a_team_takes_back_its_guarantee_from_one_that_borrowed():
    plan = cycle(world("n1: V100-32GBx1 | eve holds 1 preemptible", wants("ada", "1"), guarantee=ADA))
    assert plan.evictions == [Eviction(-1, "reclaimed", 1)] and started(plan) == []


def test_a_job_that_is_not_preemptible_is_never_stopped():
    plan = cycle(world("n1: V100-32GBx1 | eve holds 1 low", wants("ada", "1", priority="urgent"), guarantee=ADA))
    assert evicted(plan) == []


def test_beyond_its_guarantee_a_team_takes_nothing_back():
    held = "n1: V100-32GBx2 | ada holds 1 | eve holds 1 preemptible"
    assert evicted(cycle(world(held, wants("ada", "1"), guarantee=ADA))) == []


def test_what_another_team_is_guaranteed_is_not_taken():
    guarantee = {**ADA, ("eve", "dev"): ONE_CARD}
    held = "n1: V100-32GBx1 | eve holds 1 low preemptible"
    assert evicted(cycle(world(held, wants("ada", "1", priority="high"), guarantee=guarantee))) == []


def test_a_guarantee_is_taken_back_on_one_node_though_the_cheapest_victims_are_on_two():
    """eve may lose two cards of four; what loses least is scattered, and ada's job needs both cards of one node."""
    guarantee = {(who, "dev"): {"gpu_milli": 2000} for who in ("ada", "eve")}
    held = (
        "n1: V100-32GBx2 | eve holds 1 preemptible saved 90 | eve holds 1 preemptible saved 10\n"
        "n2: V100-32GBx2 | eve holds 1 preemptible saved 80 | eve holds 1 preemptible saved 20"
    )
    plan = cycle(world(held, wants("ada", "2"), guarantee=guarantee))
    assert sorted(evicted(plan)) == [-2, -1]
    guarantee[("eve", "dev")] = {"gpu_milli": 3000}
    assert evicted(cycle(world(held, wants("ada", "2"), guarantee=guarantee))) == []


def test_a_higher_class_stops_a_lower_one():
    plan = cycle(world("n1: V100-32GBx1 | eve holds 1 low preemptible", wants("ada", "1")))
    assert plan.evictions == [Eviction(-1, "preempted", 1)]
    assert why(plan, 1)[0] == "making_room"


def test_equals_do_not_stop_one_another():
    assert evicted(cycle(world("n1: V100-32GBx1 | eve holds 1 preemptible", wants("ada", "1")))) == []


def test_a_pool_whose_policy_forbids_it_preempts_nobody():
    snapshot = world("n1: V100-32GBx1 | eve holds 1 low preemptible", wants("ada", "1"))
    assert evicted(run_cycle(snapshot, Policy(preempt=False), 100.0)) == []


def test_the_one_that_loses_least_work_is_stopped():
    held = "n1: V100-32GBx2 | eve holds 1 low preemptible saved 10 | eve holds 1 low preemptible saved 90"
    assert evicted(cycle(world(held, wants("ada", "1")))) == [-2]


def test_no_more_are_stopped_than_needed():
    held = "n1: V100-32GBx1 | eve holds 1/8 low preemptible saved 90 | eve holds 1/2 low preemptible saved 50"
    assert evicted(cycle(world(held, wants("ada", "3/4")))) == [-2]


def test_while_room_is_being_made_nobody_else_is_stopped():
    held = "n1: V100-32GBx2 | eve holds 1 low preemptible leaving | eve holds 1 low preemptible"
    plan = cycle(world(held, wants("ada", "1")))
    assert evicted(plan) == [] and why(plan, 1)[0] == "making_room"


def test_a_gang_stops_over_several_nodes_and_only_if_it_then_fits():
    held = "n1: V100-32GBx1 | eve holds 1 low preemptible\nn2: V100-32GBx1 | eve holds 1 low preemptible"
    assert sorted(evicted(cycle(world(held, wants("ada", "1", gang=2))))) == [-2, -1]
    held = "n1: V100-32GBx1 | eve holds 1 low preemptible\nn2: V100-32GBx1 | eve holds 1 low"
    assert evicted(cycle(world(held, wants("ada", "1", gang=2)))) == []


def test_a_job_that_cannot_be_stopped_does_not_borrow_what_others_are_guaranteed():
    held = "n1: V100-32GBx2 | bob holds 1"
    plan = cycle(world(held, wants("eve", "1"), wants("ada", "cpu"), guarantee=ADA))
    assert started(plan) == [2] and why(plan, 1) == ["borrow_denied"]
    assert plan.refusals[1][0].params == {"teams": ["ada"]}


def test_a_preemptible_job_borrows_what_is_free():
    plan = cycle(world("n1: V100-32GBx1", wants("eve", "1", preemptible=True), wants("ada", "cpu"), guarantee=ADA))
    assert sorted(started(plan)) == [1, 2]


def test_the_guarantee_of_a_team_covers_that_of_those_below_it():
    guarantee, parents = {("lab", "dev"): ONE_CARD, **ADA}, {"ada": "lab"}
    plan = cycle(world("n1: V100-32GBx2", wants("eve", "1"), wants("ada", "cpu"), guarantee=guarantee, parents=parents))
    assert 1 in started(plan)


def test_a_job_that_is_borrowed_only_in_part_is_stopped_where_no_other_will_do():
    guarantee = {**ADA, ("eve", "dev"): ONE_CARD}
    held = "n1: V100-32GBx2 | eve holds 2 preemptible"
    assert evicted(cycle(world(held, wants("ada", "1"), guarantee=guarantee))) == [-1]
    held = "n1: V100-32GBx3 | eve holds 2 preemptible | eve holds 1 preemptible saved 0"
    assert evicted(cycle(world(held, wants("ada", "1"), guarantee=guarantee))) == [-2]


def play(*wishes, come, hours) -> list[tuple[float, int]]:
    """[(hour, job)] of all that starts on one card, each for an hour but the first, which takes hours."""
    snapshot = world("n1: V100-32GBx1", *wishes)
    number = len(wishes) + 1
    arrivals = [build_waiting(snapshot, number + n, wish) for n, wish in enumerate(come)]
    run_s = {1: hours * HOUR}
    steps = Simulation(snapshot, Policy(), 0.0, lambda job: run_s.get(job.job, HOUR), arrivals=arrivals).run_steps()
    return [(round(step.at / HOUR, 3), start.job) for step in islice(steps, 60) for start in step.plan.starts]


@pytest.mark.parametrize(("low", "high"), [("low", "normal"), ("normal", "high"), ("low", "high")])
def test_who_was_stopped_after_a_long_run_does_not_come_back_before_whom_it_was_stopped_for(low, high):
    """Its age would have raised it, and it would have started and been stopped each second."""
    old = wants("ada", "1", priority=low, preemptible=True, at=0)
    come = [wants("ada", "1", priority=high, at=30 * HOUR)]
    assert play(old, come=come, hours=40) == [(0, 1), (30, 2), (31, 1)]


def test_who_waited_long_to_start_is_not_stopped_by_the_class_to_which_its_wait_had_raised_it():
    first, patient = wants("ada", "1", at=0), wants("ada", "1", priority="low", preemptible=True, at=1)
    come = [wants("ada", "1", priority="normal", at=30.5 * HOUR)]
    assert play(first, patient, come=come, hours=30) == [(0, 1), (30, 2), (31, 3)]
