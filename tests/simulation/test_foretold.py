"""What a forecast tells in a play, and that it knows no more than it may."""

import pytest

from bench.forecast import OURS, draw_jobs, measure, play
from bench.replays.forecast_replay import ReplaySettings
from bench.replays.gang_traces import TraceJob
from scheduler.core.model.types import Policy

HOW = ReplaySettings(Policy(), every_s=50.0, futures=5)


def jobs(*times):
    """(submit, takes, says) of jobs that each want a whole node."""
    return [TraceJob(row, at, takes, 8, "team", says) for row, (at, takes, says) in enumerate(times)]


def test_with_exact_times_every_start_is_told_to_the_second():
    found = play(jobs(*[(0.0, 100.0, 100.0)] * 5, (1000.0, 1.0, 1.0)), 1, HOW)
    assert [one.job for one in found] == [1, 2, 3, 4]
    assert all(one.raw.p10 == one.raw.p90 == one.started_at for one in found)
    assert measure(found, OURS)["coverage_pct"] == 100


def test_a_job_is_told_once_and_by_what_was_known_then():
    """All say twice what they take: only when the first has ended is that known."""
    found = play(jobs(*[(0.0, 100.0, 200.0)] * 3, (120.0, 100.0, 200.0), (1000.0, 1.0, 1.0)), 1, HOW)
    told = {one.job: (one.made_at, one.raw.p50) for one in found}
    assert told == {1: (0.0, 200.0), 2: (0.0, 400.0), 3: (200.0, 300.0)}


def test_a_look_waits_until_somebody_does():
    """Not in the middle of the 50 s: the first who waits comes at 1 s."""
    [one] = play(jobs((0.0, 1000.0, 1000.0), (1.0, 100.0, 100.0), (2000.0, 1.0, 1.0)), 1, HOW)
    assert (one.made_at, one.raw.p90, one.started_at) == (1.0, 1000.0, 1000.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_synthetic_trace_is_the_same_for_each_seed_and_fills_the_cards(seed):
    first, again = draw_jobs(500, 4, seed), draw_jobs(500, 4, seed)
    assert first == again != draw_jobs(500, 4, seed + 2)
    span = first[-1].submit_s - first[0].submit_s
    assert 0.7 < sum(job.gpus * job.duration_s for job in first) / (span * 32) < 0.9
