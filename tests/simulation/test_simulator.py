"""The simulator from a file to a report: closed forms, the same seed, and a file that a browser can read."""

import csv
import gzip
import io
import textwrap
from xml.etree import ElementTree

import pytest
from django.core.management import CommandError, call_command

from scheduler.simulation.charts import assign_lanes, downsample
from scheduler.simulation.history import JobRun, UsageSample, card_use_seconds
from scheduler.simulation.report import read_revision
from scheduler.simulation.scenario import simulate_scenario
from scheduler.simulation.scenario_file import SCENARIO_HELP, load_scenario
from scheduler.simulation.trace_csv import load_trace_jobs
from scheduler.simulation.working_week import HOUR_S

SCENARIO = """
name: Two <teams>
checkpoint_cost_s: 120
cluster:
  - {nodes: 2, gpus: 2, model: V100, memory_gb: 32, pool: train}
  - {nodes: 1, gpus: 1, model: T4, memory_gb: 16, pool: dev}
pools: {train: {slices: 1}, dev: {slices: 4, lends_to: train}}
teams: {vision: {weight: 2, guarantee: {train: 2}}}
jobs:
  - {team: vision, user: ada, count: 9, to_h: 20, gpus: 2, hours: 3, pool: train}
  - {team: speech, count: 6, hours: {median: 2, sigma: 1}, to_h: 20, pool: train, preemptible: true}
  - {team: vision, count: 3, from_h: 9, to_h: 10, each_day: 2, memory_gb: 4, hours: 8, pool: dev, priority: urgent}
"""

LENDING = """
cluster: [{nodes: 1, gpus: 1, pool: train}, {nodes: 1, gpus: 1, pool: dev}]
pools: {train: {slices: 1}, dev: {slices: 4, lends_to: train}}
jobs: [{count: 15, from_h: 18, hours: 5, pool: train}]
"""


ONE_TEAM_AWAY = """
until_h: 72
checkpoint_cost_s: 120
cluster: [{nodes: 2, gpus: 8, pool: train}]
pools: {train: {slices: 1, batch_is_preemptible: true}}
teams: {vision: {guarantee: {train: 8}}, speech: {guarantee: {train: 8}, cell: {train: 8}}}
jobs:
  - {team: vision, count: 60, to_h: 72, gpus: 2, hours: {median: 4, sigma: 1}}
  - {team: speech, count: 5, from_h: 48, to_h: 60, gpus: 8, hours: 3}
"""


CELLS = """
cluster: [{nodes: 2, gpus: 2, pool: train}]
pools: {train: {slices: 1}}
teams: {vision: {guarantee: {train: 2}, cell: {train: 2}}, speech: {}}
jobs:
  - {team: vision, from_h: 0, hours: 2}
  - {team: speech, count: 2, from_h: 1, hours: 9}
  - {team: vision, from_h: 3, gpus: 2, hours: 1}
"""


def simulate(tmp_path, text, *arguments, name="world.yaml"):
    """(table, rows of the CSV, report)."""
    path = tmp_path / name
    path.write_text(text)
    out, rows, report = io.StringIO(), tmp_path / "rows.csv", tmp_path / "report.html"
    words = ["tessera_sim", str(path), f"--csv={rows}", f"--html={report}", *arguments]
    call_command(*words, stdout=out, stderr=io.StringIO())
    return out.getvalue(), list(csv.DictReader(rows.read_text().splitlines())), report.read_text()


def metrics(rows):
    return {row["metric"]: float(row["value"]) for row in rows}


def test_a_guarantee_of_a_whole_machine_is_kept_and_one_of_two_cards_is_not_enough(tmp_path):
    _, rows, _ = simulate(tmp_path, CELLS)
    assert metrics(rows)["max_queue_s:vision"] == 0
    _, rows, _ = simulate(tmp_path, CELLS.replace(", cell: {train: 2}", ""))
    assert metrics(rows)["max_queue_s:vision"] == 7 * HOUR_S


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_where_jobs_borrow_that_do_not_say_they_wait_less_and_who_comes_back_waits_no_longer(tmp_path, seed):
    """A team away for most of a week: its half of the cards is used meanwhile, and given back when it comes."""
    asked = f"--seed={seed}"
    kept, lent = (
        metrics(
            simulate(
                tmp_path, ONE_TEAM_AWAY.replace("batch_is_preemptible: true", f"batch_is_preemptible: {said}"), asked
            )[1]
        )
        for said in ("false", "true")
    )
    assert lent["mean_queue_s"] < 0.4 * kept["mean_queue_s"]
    assert lent["cards_in_use_pct"] > 1.1 * kept["cards_in_use_pct"]
    assert lent["mean_queue_s:speech"] <= kept["mean_queue_s:speech"] + 60
    assert kept["stops"] == 0 < lent["stops"]


def test_a_job_of_a_scenario_says_otherwise_than_its_pool(tmp_path):
    said = ONE_TEAM_AWAY.replace("hours: 3}", "hours: 3, preemptible: false}")
    (tmp_path / "world.yaml").write_text(said)
    jobs = load_scenario(tmp_path / "world.yaml", seed=1).jobs
    assert {(job.team, job.preemptible) for job in jobs} == {(0, True), (1, False)}
    (tmp_path / "world.yaml").write_text(said.replace("preemptible: false}", "preemptible: perhaps}"))
    with pytest.raises(ValueError, match=r"jobs\[1\].preemptible is neither true nor false: 'perhaps'"):
        load_scenario(tmp_path / "world.yaml", seed=1)


def test_a_pool_has_a_policy_of_its_own(tmp_path):
    """A job of both cards, before ten of one that come after it and take as long as those that run."""
    text = (
        "cluster: [{nodes: 1, gpus: 2}]\npools: {train: {policy: {reservations: 2}}}\njobs:\n"
        "- {team: small, count: 2, to_h: 1, hours: 3}\n- {team: large, from_h: 1, to_h: 1.1, gpus: 2, hours: 1}\n"
        "- {team: other, count: 10, from_h: 1.2, to_h: 2, hours: 3}\n"
    )
    waits = {}
    for own in (2, 0):
        _, rows, _ = simulate(tmp_path, text.replace("reservations: 2", f"reservations: {own}"))
        waits[own] = metrics(rows)["max_queue_s:large"]
    assert waits[2] < 4 * HOUR_S < waits[0]


def test_hours_may_be_written_as_durations(tmp_path):
    number = "until_h: 48\ncluster: [{nodes: 1, gpus: 1}]\njobs: [{count: 3, to_h: 1.5, hours: 36, estimate_h: 40}]"
    words = number.replace("48", "2d").replace("1.5", "90m").replace("36", "1d12h").replace("40", "40h")
    assert simulate(tmp_path, words) == simulate(tmp_path, number)
    with pytest.raises(CommandError, match=r"jobs\[0\]\.hours is no time, as 36, 36h or 1d12h are: 'soon'"):
        simulate(tmp_path, number.replace("hours: 36", "hours: soon"))


def test_jobs_that_could_never_start_are_named_with_the_reason(tmp_path):
    text = (
        "cluster: [{nodes: 2, gpus: 4}]\nteams: {low: {limit: {train: 2}}}\njobs:\n"
        "- {team: big, count: 3, gpus: 3, tasks: 4, hours: 1}\n- {team: low, gpus: 4, hours: 1}\n"
        "- {team: fine, hours: 1}\n"
    )
    told = [line for line in simulate(tmp_path, text)[0].splitlines() if line.startswith("Can never start")]
    assert len(told) == 2 and "of big and 2 more alike: " in told[0] and "the largest is 2" in told[0]
    assert "of low: " in told[1] and "limit" in told[1] and "fine" not in "".join(told)


def test_an_option_is_not_guessed_and_a_missing_file_is_named(tmp_path):
    for words, told in (
        (["--trace", "x.csv"], "unrecognized arguments: --trace"),
        (["none.csv"], "none.csv cannot be"),
    ):
        with pytest.raises(CommandError, match=told):
            call_command("tessera_sim", *words, "--nodes=1", stdout=io.StringIO(), stderr=io.StringIO())


def test_a_job_starts_with_more_tasks_where_there_is_room(tmp_path):
    text = "cluster: [{nodes: 2, gpus: 2}]\njobs: [{tasks: 1, tasks_max: 8, hours: 1}]"
    _, rows, _ = simulate(tmp_path, text)
    assert metrics(rows)["cards_in_use_pct"] == 100


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CELLS.replace("{train: 2}}, sp", "{train: 8}}, sp"), "no machine has exactly 8 cards of train"),
        ("cluster: [{}]\njobs: [{tasks: 4, tasks_max: 2}]", "tasks_max: is less than tasks"),
    ],
)
def test_what_no_cluster_can_promise_is_refused(tmp_path, text, words):
    with pytest.raises(CommandError, match=words):
        simulate(tmp_path, text)


def test_on_one_card_equal_jobs_wait_0_s_2s_and_so_on(tmp_path):
    text = "submit_s,duration_s\n" + "0,100\n" * 5
    _, rows, _ = simulate(tmp_path, text, "--nodes=1", "--gpus=1", name="five.csv")
    found = metrics(rows)
    assert (found["mean_queue_s"], found["p50_queue_s"], found["max_queue_s"]) == (200, 200, 400)
    assert (found["mean_jct_s"], found["virtual_makespan_s"], found["cards_in_use_pct"]) == (300, 500, 100)
    assert {(row["bench"], row["case"], row["seed"], row["policy"]) for row in rows} == {
        ("sim", "five", "1", "tessera")
    }


def test_a_gang_waits_until_all_of_its_cards_are_free(tmp_path):
    text = "submit_s,duration_s,gpus,tasks,team\n0,100,1,1,ada\n0,50,1,1,ada\n10,10,1,2,bob\n"
    _, rows, _ = simulate(tmp_path, text, "--nodes=2", "--gpus=1", name="gang.csv")
    assert metrics(rows)["max_queue_s:bob"] == 90


def test_the_same_seed_gives_the_same_output_and_another_one_does_not(tmp_path):
    first, again, other = (simulate(tmp_path, SCENARIO, f"--seed={seed}") for seed in (3, 3, 4))
    assert first == again and first[1] != other[1]


def test_the_report_is_well_formed_and_names_its_revision_and_seed(tmp_path):
    table, _, report = simulate(tmp_path, SCENARIO, "--seed=3")
    page = ElementTree.fromstring(report.removeprefix("<!DOCTYPE html>"))
    plots = page.findall(".//{http://www.w3.org/2000/svg}svg")
    assert len(plots) == 5 and "script" not in report and "http" not in report.replace("http://www.w3.org", "")
    assert page.findtext(".//h1") == "Two <teams>"
    assert f"revision {read_revision()}, seed 3" in report and f"revision {read_revision()}, seed 3" in table


def test_each_stay_on_a_card_is_one_bar_of_the_week(tmp_path):
    report = simulate(tmp_path, SCENARIO, "--seed=3")[2]
    path = tmp_path / "world.yaml"
    history = play(path, 3)
    bars = sum(len(run.cards) for run in history.runs)
    assert bars > 20 and report.count("<title>") == bars + 1


def test_no_card_holds_more_than_it_has_and_work_is_conserved(tmp_path):
    path = tmp_path / "world.yaml"
    path.write_text(SCENARIO)
    scenario = load_scenario(path, 5)
    history = play(path, 5)
    for card in range(4):
        assert max(lanes for _, _, lanes in assign_lanes(run for run in history.runs if card in run.cards)) == 1
    worked = {job.job: 0.0 for job in scenario.jobs}
    for run in history.runs:
        worked[run.job] += run.ended_at - run.began_at
    stops = {job: sum(run.outcome == "preempted" and run.job == job for run in history.runs) for job in worked}
    for job, seconds in worked.items():
        assert seconds == pytest.approx(scenario.duration_s[job] + 120 * stops[job])


def test_lent_cards_take_jobs_by_night_that_end_before_the_day_begins(tmp_path):
    path = tmp_path / "world.yaml"
    path.write_text(LENDING)
    history = play(path, 1)
    guests = [(run.began_at / HOUR_S, run.ended_at / HOUR_S) for run in history.runs if run.cards == (1,)]
    assert guests == [(20, 25), (25, 30), (44, 49), (49, 54)]


def play(path, seed):
    return simulate_scenario(load_scenario(path, seed))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "not a mapping"),
        ("cluster: [{nodes: 1, cards: 8}]", "cluster[0]: unknown: cards"),
        ("jobs: []", "no machine"),
        ("cluster: [{}]\njobs: [{pool: moon}]", "there is no pool moon"),
        ("cluster: [{}]\njobs: [{model: H200}]", "there is no card H200"),
        ("cluster: [{}]\njobs: [{hours: soon}]", "jobs[0].hours is no time"),
        ("cluster: [{}]\njobs: [{priority: now}]", "jobs[0].priority is none of"),
        ("cluster: [{}]\njobs: [{tasks: 0}]", "jobs[0].tasks: a job has at least one task"),
        ("cluster: [{}]\nworking_day: {begins: 20, ends: 8}", "a day begins before it ends"),
        ("cluster: [{}]\npolicy: {stop_longer: 4}", "policy.stop_longer is 1 or more, and goes with short_first"),
        ("a: [", "not YAML"),
    ],
)
def test_a_file_that_is_wrong_is_told_where(tmp_path, text, says):
    with pytest.raises(CommandError, match=says.replace("[", r"\[")):
        simulate(tmp_path, text)


def test_more_cards_than_a_machine_has_are_several_tasks_that_start_together(tmp_path):
    text = "submit_s,duration_s,gpus,vc\n0,9,6,ada\n0,9,1,bob\n0,9,2,eve\n"
    found = metrics(simulate(tmp_path, text, "--nodes=2", "--gpus=4", name="wide.csv")[1])
    assert (found["max_queue_s:ada"], found["max_queue_s:bob"], found["max_queue_s:eve"]) == (0, 0, 9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("submit_s\n1\n", "lacks the columns duration_s"),
        ("submit_s,duration_s,gpus\n1,2,many\n", "line 2"),
        ("submit_s,duration_s\n1,2\n-1,2\n", "line 3: a number is negative"),
        ("submit_s,duration_s,priority\n1,2,now\n", "priority is none of"),
    ],
)
def test_a_trace_that_is_wrong_is_told_where(tmp_path, text, says):
    with pytest.raises(CommandError, match=says):
        simulate(tmp_path, text, "--nodes=1", name="trace.csv")


MAINTAINED = """
checkpoint_cost_s: 0
cluster: [{nodes: 2, gpus: 1, pool: train}]
maintenance: [{from_h: 2, to_h: 4, machines: [gpu-0], stops: true}]
jobs:
  - {team: ada, hours: 5, estimate_h: 1, preemptible: true}
  - {team: bob, hours: 5}
  - {team: eve, from_h: 1, to_h: 1, hours: 1}
"""


def test_a_machine_in_maintenance_is_cleared_and_takes_who_ends_before_or_comes_after(tmp_path):
    """ada said an hour, so she is on the machine when it begins, and goes on when it is over."""
    path = tmp_path / "maintained.yaml"
    path.write_text(MAINTAINED)
    history = simulate_scenario(load_scenario(path, 1))
    stays = {}
    for stay in sorted(history.runs, key=lambda stay: stay.began_at):
        stays.setdefault(stay.job, []).append((stay.began_at / HOUR_S, stay.ended_at / HOUR_S, stay.cards))
    assert stays[1] == [(0, 2, (0,)), (4, 7, (0,))]
    assert stays[2] == [(0, 5, (1,))]
    assert all(begin >= 4 for begin, _, _ in stays[3])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{from_h: 4, to_h: 4, pool: train}", "ends after its beginning"),
        ("{from_h: 1, to_h: 4, pool: moon}", "no moon"),
        ("{from_h: 1, to_h: 4, machines: [gpu-9]}", "no gpu-9"),
        ("{from_h: 1, to_h: 4}", "of no machine"),
        ("{from: 1}", "unknown: from"),
    ],
)
def test_a_maintenance_that_cannot_be_is_refused_with_its_place(tmp_path, line, words):
    path = tmp_path / "wrong.yaml"
    path.write_text("cluster: [{nodes: 1, gpus: 1, pool: train}]\nmaintenance: [" + line + "]\n")
    with pytest.raises(ValueError, match=words) as wrong:
        load_scenario(path, 1)
    assert "maintenance[0]" in str(wrong.value)


def test_the_scenario_of_the_help_runs(tmp_path):
    text = textwrap.dedent(SCENARIO_HELP.partition("\n\n")[2])
    _, rows, _ = simulate(tmp_path, "".join(line for line in text.splitlines(True) if "trace:" not in line))
    assert metrics(rows)["jobs"] == 91 and metrics(rows)["finished"] > 80


def test_a_trace_without_machines_is_refused(tmp_path):
    with pytest.raises(CommandError, match="needs --nodes"):
        simulate(tmp_path, "submit_s,duration_s\n0,1\n", name="trace.csv")


def test_a_gzipped_trace_is_read_and_time_is_the_duration_where_nothing_is_said(tmp_path):
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(b"submit_s,duration_s,time_s,memory_mib,note\n0,7,,512,x\n1,8,inf,,\n"))
    first, second = load_trace_jobs(path)
    assert (first.time_s, first.memory_mib, second.time_s, second.memory_mib) == (7, 512, float("inf"), None)


def test_time_on_a_card_is_counted_once_however_many_share_it():
    runs = [
        JobRun(1, (0,), 0, 10, "completed"),
        JobRun(2, (0, 1), 5, 20, "running"),
        JobRun(3, (0,), 30, 99, "running"),
    ]
    assert card_use_seconds(runs, 3, 2, 40).tolist() == [28, 15, 0]


def test_only_runs_that_touch_share_the_height_of_a_card():
    runs = [
        JobRun(1, (0,), 0, 10, ""),
        JobRun(2, (0,), 5, 20, ""),
        JobRun(3, (0,), 10, 15, ""),
        JobRun(4, (0,), 20, 30, ""),
    ]
    assert [(run.job, lane, lanes) for run, lane, lanes in assign_lanes(runs)] == [
        (1, 0, 2),
        (2, 1, 2),
        (3, 0, 2),
        (4, 0, 1),
    ]


def test_a_long_history_is_drawn_as_means_over_equal_spans():
    points = downsample([UsageSample(0, 2, 4), UsageSample(900, 0, 0), UsageSample(1350, 6, 2)], 1800)
    assert len(points) == 900 and points[0] == (0, 2, 4) and points[450] == (900, 0, 0) and points[-1][1:] == (6, 2)
    assert downsample([UsageSample(0, 3, 0), UsageSample(1, 5, 2)], 2 * 900)[0] == (0, 4, 1)
