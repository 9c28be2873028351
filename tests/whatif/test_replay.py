"""A history is played by what was known then: closed forms that a play has to meet."""

from dataclasses import replace
from pathlib import Path

import pytest

from monitoring.history.file_format import Attempt, ChangeLine, MaintenanceLine, QuotaLine, read_history
from scheduler.whatif.measures import ALL, jain_index, measure, wait_s
from scheduler.whatif.recorded_runs import recall_runs
from scheduler.whatif.replay import Replay, play_history
from tests.whatif.small_history import history, job, machine

SIX_DAYS = Path(__file__).parent / "six_days.jsonl.gz"


def starts(of) -> dict[int, float]:
    """{job: when it first started in the play}"""
    play = play_history(of)
    return {play.stints[number].job.id: at for number, at in play.happened.first_start.items()}


def waits(of) -> dict[int, float]:
    play = play_history(of)
    return {stint.job.id: wait_s(play, number) for number, stint in play.stints.items()}


def test_jobs_run_as_long_as_they_did_one_after_another():
    assert starts(history(job(1, 100, 1000), job(2, 200, 500), job(3, 300, 10))) == {1: 100, 2: 1100, 3: 1600}


def test_what_was_said_decides_and_what_was_true_happens():
    """Two cards run until 1000, and a job of four has a reserved start then. Job 3 says a minute and runs an hour."""
    jobs = [job(1, 0, 1000, gpus=2, time_s=1000), job(2, 10, 100, time_s=100), job(3, 20, 3600, gpus=2, time_s=60)]
    assert starts(history(*jobs)) == {1: 0, 2: 3620, 3: 20}
    honest = [*jobs[:2], replace(jobs[2], time_s=3600)]
    assert starts(history(*honest)) == {1: 0, 2: 1000, 3: 1100}


def test_who_ran_at_the_beginning_runs_on_and_who_waited_waits_on():
    ran = job(1, -500, 1000)
    waited = job(2, -400, 100, waited_s=900)
    assert starts(history(ran, waited)) == {1: -500, 2: 500}


def test_a_held_job_waits_and_its_held_time_is_no_wait():
    held = job(1, 100, 50, waited_s=900, holds=[[100.01, 1000.0]])
    assert starts(history(held)) == {1: 1000} and waits(history(held))[1] == pytest.approx(0, abs=0.1)


def test_who_gave_up_leaves_when_they_did():
    play = play_history(history(job(1, 0, 5000), job(2, 10, ended_at=700.0)))
    (number,) = (number for number, stint in play.stints.items() if stint.job.id == 2)
    assert play.happened.gave_up == {number: 700} and wait_s(play, number) == 690


def test_a_change_of_quota_holds_from_then_on():
    none = QuotaLine("nlp", "train", {"gpu_milli_limit": 0})
    raised = ChangeLine(5000, "quota", ["nlp", "train"], {"gpu_milli_limit": None})
    assert starts(history(job(1, 100, 10), quotas=(none,), changes=(raised,))) == {1: 5000}


def test_a_maintenance_is_minded_only_once_it_is_known():
    """It is planned at 500 for 1000: who came before it was known runs on, and a long job after it waits."""
    planned = MaintenanceLine(500, 1000, 2000, 2000, ["n1"], False)
    jobs = job(1, 400, 700, gpus=1, time_s=700), job(2, 600, 700, gpus=1, time_s=700)
    assert starts(history(*jobs, maintenances=(planned,))) == {1: 400, 2: 2000}


def test_a_machine_takes_nothing_while_it_is_away():
    moves = (
        ChangeLine(50, "machine", ["n1"], {"state": "NOT_READY"}),
        ChangeLine(80, "machine", ["n1"], {"state": "READY"}),
    )
    assert starts(history(job(1, 60, 10), changes=moves)) == {1: 80}
    broken = (
        ChangeLine(50, "card", ["n1", 0], {"healthy": False}),
        ChangeLine(90, "card", ["n1", 0], {"healthy": True}),
    )
    assert starts(history(job(1, 60, 10), changes=broken)) == {1: 90}


def test_a_machine_that_failed_fails_again_and_takes_what_runs_there_by_then():
    lost = job(1, 0, 500, gpus=2, retry={"times": 1, "when": ["node_lost"]})
    later = job(2, 10, 1000, gpus=2, waited_s=2000)  # in truth it waited, and ran after the failure
    attempts = [replace(lost.attempts[0], freed_at=300.0, reason="node_lost", lost=["n1"])]
    attempts.append(Attempt(300.0, 305.0, 305.0, None, 805.0, "completed", "train", lost.attempts[0].seats))
    play = play_history(history(replace(lost, attempts=attempts, ended_at=805.0), later))
    runs = sorted((play.stints[run.job].job.id, run.began_at, run.ended_at, run.outcome) for run in play.happened.runs)
    assert runs == [(1, 0, 300, "failed"), (1, 305, 805, "completed"), (2, 10, 300, "failed")]


def test_who_was_stopped_for_others_needs_not_be_stopped_again():
    """It ran 100 s, was stopped, and took 1000 s from the beginning: played without the other, it does so at once."""
    stopped = job(1, 0, 100, preemptible=True)
    attempts = [replace(stopped.attempts[0], reason="preempted")]
    attempts.append(Attempt(100.0, 400.0, 400.0, None, 1400.0, "completed", "train", stopped.attempts[0].seats))
    play = play_history(history(replace(stopped, attempts=attempts, ended_at=1400.0)))
    assert [(run.began_at, run.ended_at) for run in play.happened.runs] == [(0, 1000)]


def test_a_try_after_an_error_comes_as_long_after_it_as_it_did():
    first = job(1, 0, 100)
    attempts = [replace(first.attempts[0], reason="exit_nonzero")]
    attempts.append(Attempt(160.0, 160.0, 160.0, None, 200.0, "completed", "train", first.attempts[0].seats))
    play = play_history(history(job(2, -10, 1000), replace(first, attempts=attempts, ended_at=200.0)))
    began = sorted(run.began_at for run in play.happened.runs if play.stints[run.job].job.id == 1)
    assert began == [990, 1090 + 60 + 5]


def test_reasons_are_counted_by_their_time():
    play = play_history(history(job(1, 0, 1000), job(2, 100, 10), job(3, 0, 10, team="vision", holds=[[0.0, 4000.0]])))
    assert sum(play.waited_for["nlp"].values()) == 900 and not play.waited_for["vision"]


def test_the_truth_is_measured_as_a_play_is():
    of = history(
        job(1, 0, 3600, gpus=2), job(2, 100, 1800, waited_s=60), job(3, -50, 100, gpus=1), job(4, 10, ended_at=40.0)
    )
    truth = measure(recall_runs(Replay(of))).of[ALL]
    assert (truth.jobs, truth.started, truth.mean_wait_s, truth.gpu_hours) == (3, 2, 30, 2 + 2 + 50 / 3600)


def test_fairness_is_one_where_all_are_alike():
    assert jain_index([3, 3, 3]) == 1 and jain_index([1, 0, 0, 0]) == 0.25 and jain_index([]) == 1


def test_six_days_of_the_platform_are_played_as_they_were():
    """An export that the slow test made: waits of the platform's own loops on the tests' runtime."""
    of = read_history(SIX_DAYS)
    truth, played = measure(recall_runs(Replay(of))), measure(play_history(of))
    assert truth.of[ALL].jobs >= 200 and truth.of[ALL].mean_wait_s > 600 and truth.of[ALL].stops
    for team, was in truth.of.items():
        assert played.of[team].mean_wait_s == pytest.approx(was.mean_wait_s, rel=0.05)
        assert played.of[team].p95_wait_s == pytest.approx(was.p95_wait_s, rel=0.1)


def test_a_play_is_the_same_each_time():
    jobs = [job(n, 100 * n, 400 + n, gpus=1 + n % 4) for n in range(1, 30)]
    of = history(*jobs, machines=(machine("n1"), machine("n2")))
    assert play_history(of).happened.runs == play_history(of).happened.runs
