"""B8: the worlds are drawn by their laws, the rivals know what is said, and a starving gang is a missed target."""

import numpy as np
import pytest

from bench import b8
from bench.replays.gang_traces import TraceJob
from bench.replays.hard_worlds import CARDS, DAY_S, LONGEST_S, WORLDS, draw_world, tell_true_times
from bench.replays.queue_rules import KNOWN_RULES, replay_rule
from tests.whole import WHOLE

HOUR, DAYS = 3600.0, 5.0


def job(row: int, submit_s: float, duration_s: float, gpus: float, said_s: float | None = None) -> TraceJob:
    return TraceJob(row, submit_s, duration_s, gpus, "team", said_s or duration_s)


@pytest.mark.parametrize("world", WORLDS)
def test_a_world_is_drawn_by_its_law_and_its_seed_alone(world):
    jobs = draw_world(world, 3, DAYS, true_times=True)
    assert jobs == draw_world(world, 3, DAYS, true_times=True) != draw_world(world, 4, DAYS, true_times=True)
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    small = [job for job in jobs if job.gpus in WORLDS[world].small.cards]
    load = sum(job.gpus * job.duration_s for job in small) / (CARDS * DAYS * DAY_S)
    assert load == pytest.approx(WORLDS[world].load, rel=0.4)
    assert len(jobs) - len(small) == round(WORLDS[world].gangs_a_day * DAYS)
    assert max(job.duration_s for job in jobs) <= LONGEST_S


@pytest.mark.parametrize(("world", "wrong"), [("gangs", 0.1), ("liars", 0.19)])
def test_said_times_have_helios_errors_and_nine_in_ten_jobs_end_before_their_latest(world, wrong):
    jobs = draw_world(world, 0, DAYS, true_times=False)
    said = np.array([job.predicted_s for job in jobs])
    true, latest = np.array([job.duration_s for job in jobs]), np.array([job.latest_s for job in jobs])
    off = np.maximum(said / true, true / said)
    assert (off >= 10).mean() == pytest.approx(wrong, abs=0.04)
    assert (true <= latest + 1e-6).mean() == pytest.approx(0.9, abs=0.01)
    assert all(job.predicted_s == job.latest_s == job.duration_s for job in tell_true_times(jobs))


def test_easy_lets_pass_who_says_to_end_before_and_thus_delays_the_first():
    """A job of 4 of 8 cards runs until 100; a gang of all comes, then somebody who says 50 and takes 500."""
    jobs = [job(0, 0, 100, 4), job(1, 1, 10, 8), job(2, 2, 500, 4, said_s=50)]
    assert replay_rule(jobs, 1, KNOWN_RULES["easy"]).queue_s == {0: 0, 1: 501, 2: 0}
    assert replay_rule(tell_true_times(jobs), 1, KNOWN_RULES["easy"]).queue_s == {0: 0, 1: 99, 2: 108}


def test_easy_takes_who_is_over_its_time_to_run_as_long_again():
    """At 60 the first, which said 50, is taken to run until 120: 50 more fit before, 70 do not."""
    running = job(0, 0, 1000, 4, said_s=50)
    late = [job(1, 1, 10, 8), job(2, 60, 70, 4)], [job(1, 1, 10, 8), job(2, 60, 50, 4)]
    waits = [replay_rule([running, *jobs], 1, KNOWN_RULES["easy"]).queue_s[2] for jobs in late]
    assert waits == [950, 0]


def test_two_halves_share_a_card_and_a_gang_waits_for_both():
    jobs = [job(0, 0, 100, 0.5), job(1, 0, 200, 0.5), job(2, 1, 10, 8), job(3, 2, 150, 0.5), job(4, 2, 300, 0.5)]
    assert replay_rule(jobs, 1, KNOWN_RULES["easy"]).queue_s == {0: 0, 1: 0, 2: 199, 3: 0, 4: 208}


def figures(**jct: float) -> dict[str, b8.Figures]:
    return {name: {"mean_jct_s": jct.get(name, 100.0), "longest_gang_s": HOUR, "over_a_day": 0} for name in b8.POLICIES}


def test_targets_are_missed_by_a_gang_that_starves_and_by_a_mean_beyond_the_best_fair_rival():
    key, well = ("gangs", "true", 0), figures()
    assert b8.judge({key: well}) == []
    starved = well | {"tessera": well["tessera"] | {"longest_gang_s": 13 * HOUR}}
    assert b8.judge({key: starved}) == ["gangs with true times, seed 0: a gang waits 13.0 h, the target is 12.0 h"]
    assert len(b8.judge({key: figures(tessera=120.0)})) == 1
    assert len(b8.judge({key: figures(tessera=130.0)})) == 2
    unfair = figures(tessera=130.0, easy=150.0, fifo=160.0, greedy=50.0)
    unfair["greedy"]["longest_gang_s"] = 20 * HOUR
    assert b8.find_best(unfair) == "easy" and b8.judge({key: unfair}) == []
    for name in ("easy", "fifo"):
        unfair[name] = replace_longest(unfair[name], 20 * HOUR)
    assert b8.find_best(unfair) == b8.YARDSTICK


def replace_longest(of: b8.Figures, longest_s: float) -> b8.Figures:
    return of | {"longest_gang_s": longest_s}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("times", b8.TIMES)
@pytest.mark.parametrize("world", WORLDS)
def test_no_gang_waits_longer_than_it_may(world, times):
    """A tenth of the bench."""
    run = b8.Run(world, times, 0, 2.0 if WHOLE else 0.75)
    found = b8.play(run)
    assert found["tessera"]["longest_gang_s"] <= b8.find_bound(found)
    assert world == "sweeps" or found["tessera"]["longest_gang_s"] > 0  # no gang of so short a time of sweeps waits
