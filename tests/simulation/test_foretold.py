"""What a forecast tells in a play, and that it knows no more than it may."""

from dataclasses import replace

import pytest

from bench.forecast import OURS, draw_jobs, measure, play
from bench.replays import forecast_replay
from bench.replays.forecast_replay import ReplaySettings
from bench.replays.gang_traces import TraceJob
from scheduler.core.model.types import Policy

HOW = ReplaySettings(Policy(), every_s=50.0, futures=5)


def jobs(*times):
    """(submit, takes, says) of jobs that each want a whole node."""
    return [TraceJob(row, at, takes, 8, "team", says) for row, (at, takes, says) in enumerate(times)]


def test_with_exact_times_every_start_is_told_to_the_second():
    found = play(jobs(*[(0.0, 100.0, 100.0)] * 5, (1000.0, 1.0, 1.0)), 1, HOW)
    assert [one.job for one in found.told] == [1, 2, 3, 4]
    assert all(one.raw.p10 == one.raw.p90 == one.started_at for one in found.told)
    assert measure(found, OURS)["coverage_pct"] == 100


def test_a_job_is_told_once_and_by_what_was_known_then():
    """All say twice what they take: only when the first has ended is that known."""
    found = play(jobs(*[(0.0, 100.0, 200.0)] * 3, (120.0, 100.0, 200.0), (1000.0, 1.0, 1.0)), 1, HOW)
    told = {one.job: (one.made_at, one.raw.p50) for one in found.told}
    assert told == {1: (0.0, 200.0), 2: (0.0, 400.0), 3: (200.0, 300.0)}


def test_a_look_waits_until_somebody_does():
    """Not in the middle of the 50 s: the first who waits comes at 1 s."""
    [one] = play(jobs((0.0, 1000.0, 1000.0), (1.0, 100.0, 100.0), (2000.0, 1.0, 1.0)), 1, HOW).told
    assert (one.made_at, one.raw.p90, one.started_at) == (1.0, 1000.0, 1000.0)


def test_a_long_wait_that_was_told_nothing_counts_and_a_short_one_does_not():
    """The second is never in line at a look: it starts when the first ends, before the next one."""
    rare = replace(HOW, every_s=1e6)
    times = (0.0, 50.0, 50.0), (0.0, 700.0, 700.0), (1.0, 50.0, 50.0), (60.0, 100.0, 100.0), (3000.0, 1.0, 1.0)
    found = play(jobs(*times), 1, rare)
    assert [one.job for one in found.told] == [1] and found.untold_s == [0.0, 749.0, 740.0, 0.0]


@pytest.mark.slow
def test_what_jobs_are_told_is_seldom_moved_later(monkeypatch):
    """By the rule of production; a range told anew at each look slides. The whole week: `bin/bench forecast`."""
    how, drawn = ReplaySettings(Policy(), every_s=900.0, futures=5), draw_jobs(120, 3, 0)
    steady = measure(play(drawn, 3, how), OURS)["steady_pct"]
    monkeypatch.setattr(forecast_replay, "revise_told_range", lambda told, fresh, now: fresh)
    assert steady >= 95 and measure(play(drawn, 3, how), OURS)["steady_pct"] < 60


@pytest.mark.parametrize("seed", [0, 1])
def test_the_synthetic_trace_is_the_same_for_each_seed_and_fills_the_cards(seed):
    first, again = draw_jobs(500, 4, seed), draw_jobs(500, 4, seed)
    assert first == again != draw_jobs(500, 4, seed + 2)
    span = first[-1].submit_s - first[0].submit_s
    assert 0.7 < sum(job.gpus * job.duration_s for job in first) / (span * 32) < 0.9
