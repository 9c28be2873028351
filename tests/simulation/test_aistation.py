"""The day and night of the case study: its own figures exactly, and the arithmetic behind them."""

import csv
from dataclasses import replace

import pytest

from bench import b6
from bench.replays.aistation import (
    CASES,
    build_cluster,
    build_jobs,
    build_scenario,
    lend_at_night,
    lend_in_evenings,
    load_study,
    replace_developers,
)
from bench.replays.aistation_figures import compute_metrics
from bench.shared.rows import DATA
from scheduler.simulation.scenario import simulate_scenario
from scheduler.simulation.working_week import DAY_S, HOUR_S
from tests.whole import WHOLE

pytestmark = pytest.mark.begins_first

FOLDER = DATA / "aistation"
CASE = {case.name: case for case in CASES}


def count(study, policy):
    return compute_metrics(study, CASE[policy], simulate_scenario(build_scenario(study, CASE[policy])))


SLOW_MACHINE = pytest.mark.timeout(600)
GOOD = {"jobs_per_week": 430.0, "dev_p95_wait_s": 0.0, "dev_refused": 0.0}


@SLOW_MACHINE
@pytest.mark.slow
@pytest.mark.parametrize(("policy", "jobs"), [("A", 160), ("B", 368)])
def test_what_the_case_study_reports_comes_out_exactly(policy, jobs):
    found = count(load_study(FOLDER), policy)
    assert found["jobs_per_week"] == jobs
    assert b6.judge(policy, found, b6.load_reported(FOLDER)) == []


@pytest.mark.slow
@SLOW_MACHINE
@pytest.mark.parametrize("policy", ["C", "C2", "D"] if WHOLE else ["C", "D"])
def test_better_ways_to_share_reach_their_targets_and_every_developer_is_served(policy):
    assert b6.judge(policy, count(load_study(FOLDER), policy), {}) == []


@pytest.mark.slow
@SLOW_MACHINE
def test_jobs_of_18_hours_fit_no_night_but_the_weekend():
    study = replace(load_study(FOLDER), job_s=18 * HOUR_S)
    assert count(study, "A")["jobs_per_week"] == 32


def test_developers_that_are_given_open_as_those_that_are_computed():
    study = load_study(FOLDER)
    assert replace_developers(study, 50) == study


def test_a_night_ends_with_the_next_working_day():
    days = [(window.begins_at - 20 * HOUR_S, window.ends_at - 8 * HOUR_S) for window in lend_at_night((0,))[1:6]]
    assert days == [
        (0, DAY_S),
        (DAY_S, 2 * DAY_S),
        (2 * DAY_S, 3 * DAY_S),
        (3 * DAY_S, 4 * DAY_S),
        (4 * DAY_S, 7 * DAY_S),
    ]
    assert [w.last_start - w.begins_at for w in lend_in_evenings((0,))] == [60] * 20


def test_the_developers_need_seven_cards_and_a_job_beside_two_of_them_leaves_their_compute():
    study = load_study(FOLDER)
    assert study.dev_cards == 7 and study.slices == 8
    (ask,) = {job.gang[0].ask for job in build_jobs(study, CASE["D"], build_cluster(study, CASE["D"]), first=1)}
    assert (ask.need_mib, ask.need_percent, ask.whole) == ((20480,), (76,), False)


@pytest.mark.slow
@SLOW_MACHINE
def test_the_bench_writes_its_rows_twice_alike(tmp_path, capsys):
    texts = []
    for name in ("one.csv", "two.csv"):
        arguments = ["--policies", "A", "--workload", "backlog", "--csv", str(tmp_path / name)]
        assert b6.main(arguments) == 0
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    rows = list(csv.DictReader(texts[0].splitlines()))
    assert {(row["bench"], row["case"], row["seed"], row["policy"]) for row in rows} == {("b6", "backlog", "0", "A")}
    assert "160.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("policy", "change"),
    [
        ("C", {"jobs_per_week": 412.0}),
        ("C2", {"dev_p95_wait_s": 31.0}),
        ("D", {"dev_refused": 1.0}),
        ("A", {"jobs_per_week": 161.0, "in_use_h_per_day": 14.43, "headline_util_pct": 30.0}),
        ("B", {"jobs_per_week": 368.0, "in_use_h_per_day": 21.0, "headline_util_pct": 80.0}),
        ("B", {"jobs_per_week": 368.0, "in_use_h_per_day": 22.6, "headline_util_pct": 78.0}),
    ],
)
def test_a_figure_that_differs_or_misses_its_target_is_told(policy, change):
    assert len(b6.judge(policy, GOOD | change, b6.load_reported(FOLDER))) == 1
