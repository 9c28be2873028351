"""The simulator's queue against published and golden figures, and our policy on a piece of the same trace."""

import csv
from dataclasses import replace

import pytest

from bench import b2, b3, b4
from bench.replays.gang_traces import MuriJob, TraceJob, draw_predictions, load_muri, load_philly, load_venus
from bench.replays.muri import ORDERS, replay_muri
from bench.replays.queue_rules import RULES, PreemptiveQueueRule, QueueRule, get_stop_cost_s, replay_rule
from bench.replays.tessera_replay import PREEMPT_LONGER_POLICY, simulate_tessera
from bench.shared.rows import DATA
from scheduler.core.model.types import Policy
from tests.whole import WHOLE

pytestmark = pytest.mark.begins_first

HOUR = 3600.0
PLAYED = ("fifo-easy", "qssf-skip")
"""Orders of Venus that are always played, by whose rules most others go."""
PHILLY = ("fifo-strict", "fifo-easy", "gpu-seconds-skip", "qssf-skip", "srtf")


@pytest.fixture(scope="module")
def philly() -> tuple[dict[str, int], list[TraceJob]]:
    return load_philly(DATA)


def job(row: int, submit_s: float, duration_s: float, gpus: int = 8) -> TraceJob:
    return TraceJob(row, submit_s, duration_s, gpus, "team", duration_s)


def starts(rule: QueueRule | PreemptiveQueueRule, *jobs: TraceJob, nodes: int = 1) -> dict[int, float]:
    return {row: waited + jobs[row].submit_s for row, waited in replay_rule(jobs, nodes, rule).queue_s.items()}


@pytest.mark.parametrize("policy", ["srtf", "srsf"])
@pytest.mark.parametrize("trace", ["1", "3"])
def test_the_replays_of_muri_are_the_published_figures_to_the_second(trace, policy):
    jobs = load_muri(DATA, trace)
    found = b2.summary(jobs, b2.run(jobs, policy))
    published = b2.load_published(DATA, trace)
    assert len(found) == 3 and {(policy, metric) for metric in found} <= published.keys()
    assert b2.judge(found, trace, policy, published) == []


@pytest.mark.parametrize(
    ("case", "nodes", "policy"),
    [
        *(
            pytest.param("venus", 83, policy, marks=[pytest.mark.slow, pytest.mark.timeout(600)])
            for policy in RULES
            if policy != "gpu-seconds-skip" and (WHOLE or policy in PLAYED)
        ),
        *(
            pytest.param("philly", 72, policy, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])
            for policy in (PHILLY if WHOLE else ())
        ),
    ],
)
def test_an_order_gives_the_golden_figures_to_the_second(case, nodes, policy):
    jobs, golden = b3.load_trace(DATA, case), b3.load_golden(DATA, case, nodes)
    assert (policy, "mean_queue_s") in golden
    assert b3.judge(b3.summary(jobs, nodes, b3.run(jobs, nodes, policy)), policy, golden, {}) == []


def test_the_traces_are_the_benchmark_s(philly):
    shares, jobs = philly
    assert len(jobs) == 68_503 and sum(shares.values()) == 72 and len(shares) == 11
    assert len(load_venus(DATA)) == 22_133


def test_the_shipped_predictions_follow_the_rule_to_the_last_digit(philly):
    jobs = philly[1][:500]
    durations = {job.row: job.duration_s for job in jobs}
    drawn = draw_predictions([durations.get(row, 1.0) for row in range(max(durations) + 1)])
    assert [drawn[job.row] for job in jobs] == [job.predicted_s for job in jobs]


def test_strict_lets_nobody_pass_skip_lets_everybody_and_easy_those_who_end_in_time():
    jobs = [job(0, 0, 100, 4), job(1, 1, 10, 8), job(2, 2, 98, 4), job(3, 2, 200, 4)]
    assert starts(RULES["fifo-strict"], *jobs) == {0: 0, 1: 100, 2: 110, 3: 110}
    assert starts(RULES["fifo-easy"], *jobs) == {0: 0, 1: 100, 2: 2, 3: 110}
    assert starts(RULES["fifo-skip"], *[jobs[0], jobs[1], replace(jobs[3], row=2)]) == {0: 0, 1: 202, 2: 2}


def test_a_larger_job_takes_idle_nodes_and_one_more_for_the_rest():
    jobs = [job(0, 0, 100, 4), job(1, 1, 10, 12), job(2, 2, 10, 12)]
    assert starts(RULES["fifo-strict"], *jobs, nodes=2) == {0: 0, 1: 1, 2: 11}


def test_who_is_stopped_for_a_shorter_one_pays_for_it():
    outcome = replay_rule([job(0, 0, 100), job(1, 10, 20)], 1, RULES["srtf"])
    assert outcome.jct_s == {1: 20, 0: 150} and outcome.preemptions == 1  # 30 s for a job of 2 to 8 cards


def test_a_job_larger_than_the_cluster_is_refused_before_anything_runs():
    with pytest.raises(ValueError, match="larger than the cluster"):
        replay_rule([job(0, 0, 1, 16)], 1, RULES["srtf"])


def test_each_event_costs_whoever_runs_their_overhead_again_in_the_replay_of_muri():
    jobs = [MuriJob(0, 0.0, 100.0, 8, 10.0), MuriJob(1, 50.0, 1000.0, 8, 10.0)]
    assert replay_muri(jobs, ORDERS["srtf"]) == {0: 110.0, 1: 1060.0 + 0.0}


def test_ours_takes_the_short_ones_first_and_never_leaves_a_card_idle_that_somebody_can_use():
    jobs = [job(0, 0, 100), job(1, 1, 50), job(2, 2, 10)]
    assert simulate_tessera(jobs, 1).jct_s == {0: 100, 2: 108, 1: 159}


def test_ours_keeps_a_place_for_a_wide_job_that_waits_long():
    narrow = [job(1 + n, n * HOUR / 2, HOUR, 4) for n in range(200)]
    wide = job(0, 1.0, HOUR, 8)
    jobs = sorted([wide, *narrow], key=lambda job: (job.submit_s, job.row))
    assert replay_rule(jobs, 1, RULES["gpu-seconds-skip"]).queue_s[0] > 90 * HOUR
    assert simulate_tessera(jobs, 1, Policy(short_first=True)).queue_s[0] < 30 * HOUR


def test_ours_lets_far_shorter_work_stop_a_job_that_goes_on_later():
    jobs = [job(0, 0, 1000), job(1, 100, 50)]
    outcome = simulate_tessera(jobs, 1, PREEMPT_LONGER_POLICY)
    assert outcome.queue_s == {1: 0, 0: 50 + get_stop_cost_s(8)} and outcome.preemptions == 1


def test_the_bench_writes_a_row_for_each_metric_and_says_what_it_compared(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    assert b3.main(["--jobs", "200", "--policies", "fifo-skip,tessera", "--csv", str(path)]) == 0
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert list(rows[0]) == ["bench", "case", "seed", "policy", "metric", "value"]
    assert {(row["bench"], row["case"], row["policy"]) for row in rows} == {
        ("b3", "philly", "fifo-skip"),
        ("b3", "philly", "tessera"),
    }
    assert {"mean_queue_s", "p99_queue_s", "p999_queue_s", "mean_jct_s"} <= {row["metric"] for row in rows}
    assert "nothing is known of this input" in capsys.readouterr().out


def test_a_reference_that_differs_and_a_target_that_is_missed_are_told():
    golden, targets = {("fifo-skip", "mean_queue_s"): 7250.0}, {"mean_queue_s": 2900.0}
    assert b3.judge({"mean_queue_s": 7250.4}, "fifo-skip", golden, targets) == []
    assert len(b3.judge({"mean_queue_s": 7251.0}, "fifo-skip", golden, targets)) == 1
    assert len(b3.judge({"mean_queue_s": 2901.0}, "tessera", golden, targets)) == 1
    published = {("srsf", "mean_jct_s"): 100.0}
    assert len(b2.judge({"mean_jct_s": 101.5}, "3", "tessera", published)) == 1
    assert len(b2.judge({"mean_jct_s": 101.5}, "3", "srsf", published)) == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("policy", b4.ORDERS if WHOLE else ["fifo-skip"])
def test_each_team_alone_and_pooled_waits_the_golden_time(policy, philly):
    shares, jobs = philly
    golden = b4.load_golden(DATA)
    alone = b4.delays(jobs, b4.play_alone(jobs, shares, policy))
    pooled = b4.delays(jobs, replay_rule(jobs, 72, RULES[policy]))
    assert {(f"{policy}-private", team) for team in alone} <= golden.keys() and len(alone) == 12
    assert b4.differences(f"{policy}-private", alone, golden) + b4.differences(f"{policy}-pooled", pooled, golden) == []


def test_a_team_takes_back_its_nodes_and_the_borrower_goes_on_from_its_checkpoint():
    lent = [replace(job(n, 0, 1000), team="eve") for n in range(2)]
    jobs = [*lent, replace(job(2, 100, 50), team="ada")]
    outcome = simulate_tessera(jobs, 2, shares={"ada": 1, "eve": 1})
    assert outcome.preemptions == 1 and outcome.queue_s[2] == 0
    assert sorted(outcome.queue_s.values()) == [0, 0, 50 + get_stop_cost_s(8)]


def test_teams_that_are_worse_off_and_a_mean_far_above_the_pool_are_told():
    found = b4.compare({"ada": 110.0, "eve": 10.0, "ALL": 60.0}, {"ada": 100.0, "eve": 50.0}, {"ALL": 40.0})
    assert found == {"teams_worse": 1, "ratio_to_pooled": 1.5}
    assert len(b4.judge(found)) == 2 and b4.judge({"teams_worse": 0, "ratio_to_pooled": 1.2}) == []
