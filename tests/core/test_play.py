"""Time that passes in a snapshot: closed forms that a play has to meet."""

from dataclasses import replace
from math import inf

import pytest

from scheduler.core.forecast.completion_queue import CompletionQueue
from scheduler.core.forecast.simulate import Simulation, SimulationRules
from scheduler.core.model.types import LendingWindow, Policy
from tests.worlds import build_waiting, wants, world


def starts(snapshot, run_s=100.0, until=inf, policy=None, **words):
    """[(when, job)] of all that starts, and the play."""
    play = Simulation(snapshot, policy or Policy(), 0.0, lambda job: run_s, **words)
    return [(moment.at, start.job) for moment in play.run_steps(until) for start in moment.plan.starts], play


def one_card(*wishes):
    return world("n1: V100-32GBx1", *wishes)


def test_on_one_card_equal_jobs_wait_for_those_before_them():
    snapshot = one_card(*[wants("ada", "1", time_s=100, at=0)] * 4)
    assert starts(snapshot)[0] == [(0, 1), (100, 2), (200, 3), (300, 4)]


def test_a_job_that_was_stopped_goes_on_where_it_was_for_the_price_of_a_checkpoint():
    snapshot = one_card(wants("ada", "1", preemptible=True, time_s=100))
    come = build_waiting(snapshot, 2, wants("ada", "1", priority="high", at=40, time_s=100))
    found, play = starts(snapshot, arrivals=[come], rules=SimulationRules(resume_cost_s=5))
    assert found == [(0, 1), (40, 2), (140, 1)] and play.now == 140 + 60 + 5


def test_without_a_checkpoint_it_begins_again():
    snapshot = one_card(wants("ada", "1", preemptible=True, time_s=100))
    come = build_waiting(snapshot, 2, wants("ada", "1", priority="high", at=40, time_s=100))
    assert starts(snapshot, arrivals=[come])[1].now == 240


def test_cards_of_another_pool_are_lent_to_jobs_that_end_in_time():
    wishes = [wants("ada", "1", pool="train", time_s=100, at=0)] * 4
    snapshot = world("n1 dev: V100-32GBx1\nn2 train: V100-32GBx1", *wishes)
    snapshot = replace(snapshot, windows=(LendingWindow((0,), 1, 50, 190), LendingWindow((0,), 1, 300, 400)))
    assert starts(snapshot)[0] == [(0, 1), (50, 2), (100, 3), (200, 4)]


def test_after_its_last_start_a_window_takes_nobody_though_its_job_may_run_on():
    wishes = [wants("ada", "1", pool="train", time_s=100, at=0)] * 2
    snapshot = world("n1 dev: V100-32GBx1\nn2 train: closed V100-32GBx1", *wishes)
    windows = LendingWindow((0,), 1, 10, 400, last_start=20), LendingWindow((0,), 1, 500, 900, last_start=510)
    assert starts(replace(snapshot, windows=windows))[0] == [(10, 1), (500, 2)]


def test_who_is_tired_of_waiting_leaves_and_who_started_ends_then():
    snapshot = one_card(wants("ada", "1"), wants("bob", "1"))
    play = Simulation(snapshot, Policy(), 0.0, lambda job: 1000, rules=SimulationRules(leaves_at={1: 60, 2: 50}))
    moments = [(moment.at, moment.ended, moment.gave_up) for moment in play.run_steps()]
    assert moments == [
        (0, (), ()),
        (50, (), (2,)),
        (60, (1,), ()),
    ]


def test_a_job_that_is_slowed_for_half_of_its_time_ends_later():
    snapshot = world("n1: V100-32GBx1", wants("ada", "20GB@50"))
    come = build_waiting(snapshot, 2, wants("ada", "4GB@10", at=0))

    def pace(job, now):
        return 0.5 if job.job == 1 and now.gpu_slices[0] == 2 else 1.0

    rules = SimulationRules(pace=pace, leaves_at={2: 60})
    found, play = starts(snapshot, arrivals=[come], rules=rules)
    assert found == [(0, 1), (0, 2)] and play.now == 60 + (100 - 30)


@pytest.mark.parametrize("depth", [None, 1, 2])
def test_a_short_look_at_the_queue_starts_as_much(depth):
    snapshot = world("n1: V100-32GBx3", *[wants("ada", "1", time_s=100, at=0)] * 7)
    found, _ = starts(snapshot, rules=SimulationRules(depth=depth))
    assert found == [(0, 1), (0, 2), (0, 3), (100, 4), (100, 5), (100, 6), (200, 7)]


def test_a_short_look_hides_no_other_team():
    wishes = [wants("ada", "1", time_s=100, at=0)] * 3 + [wants("bob", "1", time_s=100, at=1)] * 3
    snapshot = world("n1: V100-32GBx4", *wishes, limit={("ada", "dev"): {"gpu_milli": 1000}})
    found, _ = starts(snapshot, rules=SimulationRules(depth=1))
    assert found == [(0, 1), (0, 4), (0, 5), (0, 6), (100, 2), (200, 3)]


def test_a_clock_forgets_what_was_stopped_and_keeps_what_was_done():
    clock = CompletionQueue({1: 100.0}, 0.0)
    clock.begin(2, 50, 0)
    clock.set_pace(2, 0.5, 20)
    assert clock.work_left(2, 40) == 20 and clock.next_end() == 80
    clock.remove(2)
    assert clock.next_end() == 100 and clock.pop_next() == 1 and clock.next_end() == inf
