"""When jobs will start, where the answer can be worked out by hand."""

from dataclasses import replace
from math import inf

from scheduler.core.forecast.run_times import RunTimeHistory, learn_run_times
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.forecast.start_forecast import MAX_STEPS, draw_ends, forecast_starts, iterate_starts
from scheduler.core.model.types import Policy, StartRange
from tests.worlds import wants, world

EXACT = RunTimeHistory()


def when(snapshot, run_times=EXACT, now=0.0) -> dict[int, StartRange]:
    return forecast_starts(snapshot, Policy(), now, run_times)


def test_with_exact_times_one_card_serves_one_after_the_other():
    jobs = [wants("ada", "1", time_s=100), wants("ada", "1", time_s=50), wants("ada", "1", time_s=10)]
    found = when(world("n1: V100-32GBx1", *jobs))
    assert [found[job].p50 for job in (1, 2, 3)] == [0, 100, 150]
    assert found[3] == StartRange(150, 150, 150)


def test_who_waits_for_a_job_without_a_known_end_starts_nobody_knows_when():
    assert when(world("n1: V100-32GBx1 | bob holds 1", wants("ada", "1")))[1] == StartRange(inf, inf, inf)


def test_what_is_known_of_the_past_tells_how_long_jobs_run_that_say_nothing():
    found = when(world("n1: V100-32GBx1", wants("ada", "1"), wants("ada", "1")), RunTimeHistory(seconds=(300.0,)))
    assert found[2] == StartRange(300, 300, 300)


def test_the_range_is_that_of_the_ratios_of_the_past():
    jobs = [wants("ada", "1", time_s=100), wants("ada", "1", time_s=100)]
    found = forecast_starts(
        world("n1: V100-32GBx1", *jobs), Policy(), 0.0, RunTimeHistory((0.5, 1.0, 1.5)), futures=200
    )[2]
    assert (found.p10, found.p50, found.p90) == (50, 100, 150)


def test_the_ratios_count_of_those_who_said_about_as_much():
    """All ran for 100 s, whatever they said."""
    past = learn_run_times([(100.0, 100.0), (10_000.0, 100.0)] * 60)
    jobs = [wants("ada", "1", time_s=time_s) for time_s in (100, 10_000, 100)]
    found = forecast_starts(world("n1: V100-32GBx1", *jobs), Policy(), 0.0, past)
    assert (found[2].p90, found[3].p90) == (100, 200)


def test_jobs_that_said_nothing_tell_of_those_that_say_nothing():
    past = learn_run_times([*[(None, 300.0)] * 20, (200.0, 100.0)])
    assert (past.ratios, past.estimates, past.seconds) == ((0.5,), (200.0,), (300.0,) * 20)
    assert learn_run_times([(None, 300.0)] * 19).seconds == ()  # too few to tell
    assert learn_run_times([]) == RunTimeHistory((1.0,))


def test_the_same_snapshot_has_the_same_forecast():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1", time_s=100), wants("ada", "1", time_s=100))
    assert when(snapshot, RunTimeHistory((0.5, 1.0, 1.5))) == when(snapshot.copy(), RunTimeHistory((0.5, 1.0, 1.5)))


def test_where_many_run_moments_are_drawn_together_and_reach_half_of_the_ends():
    """One card after the other is free, each minute, on a clock that does not begin at a round number; each of those
    who wait asks for all of the first node, and the last for a card."""
    now = 1_700_000_000.123
    held = [" | ".join(f"bob holds 1 until {now + 60 * (8 * n + k)}" for k in range(1, 9)) for n in range(40)]
    text = "\n".join(f"n{n}: A100x8 | {holds}" for n, holds in enumerate(held))
    snapshot = world(text, *[wants("ada", "8", time_s=3600) for _ in range(9)])
    drawn = draw_ends(snapshot, now, EXACT, 0)
    said = {job.job: job.ends_at for job in snapshot.running}
    assert 60 * 160 / MAX_STEPS <= drawn.grain_s < 2 * 60 * 160 / MAX_STEPS
    assert all(said[job] <= at < said[job] + drawn.grain_s for job, at in drawn.ends.items())
    assert all((at - now) % drawn.grain_s == 0 for at in drawn.ends.values())
    first = next(at for _, at in iterate_starts(snapshot, Policy(), now, EXACT, 0))
    assert now + 480 <= first < now + 480 + drawn.grain_s
    few = world("n1: A100x2 | bob holds 1 until 61", wants("ada", "2"))
    assert draw_ends(few, 0.0, EXACT, 0).grain_s == 0.0


def test_who_waits_for_others_starts_after_their_ends():
    snapshot = world("n1: V100-32GBx4", *[wants("ada", "1", time_s=time_s) for time_s in (100, 50, 10, 10)])
    first, second, third, fourth = snapshot.waiting
    chained = [replace(third, after=(first.job, second.job)), replace(fourth, after=(third.job,))]
    snapshot.waiting = (*chained[::-1], first, second)
    found = when(snapshot)
    assert [found[job].p50 for job in (1, 2, 3, 4)] == [0, 0, 100, 110]


def test_who_waits_for_a_job_that_never_ends_starts_nobody_knows_when():
    snapshot = world("n1: V100-32GBx4", wants("ada", "1", time_s=10))
    snapshot.waiting = (replace(snapshot.waiting[0], after=(99,)),)
    assert when(snapshot)[1] == StartRange(inf, inf, inf)


def test_who_is_stopped_runs_again_later():
    first, second = wants("eve", "1", time_s=100, priority="low", preemptible=True), wants("ada", "1", time_s=10)
    snapshot = world("n1: V100-32GBx1", first, second)
    low, high = snapshot.waiting
    snapshot.waiting = (low,)
    play = Simulation(snapshot, Policy(), 0.0, lambda job: job.time_s, arrivals=[replace(high, submitted_at=30.0)])
    moments = list(play.run_steps())
    assert [(moment.at, [start.job for start in moment.plan.starts]) for moment in moments] == [
        (0.0, [1]),
        (30.0, [2]),
        (40.0, [1]),
        (140.0, []),
    ]
    assert [eviction.job for moment in moments for eviction in moment.plan.evictions] == [1]
