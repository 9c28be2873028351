"""The simulator's placement layer against published curves, with the scheduler's own place()."""

import csv

import pytest

from bench import b1
from bench.replays.openb import PodArrival, allocation_at, build_cluster, load_trace, replay_pods
from bench.replays.published_scores import BEST_FIT, FGD
from bench.shared.rows import DATA
from scheduler.core.model.types import TaskResources
from tests.whole import WHOLE

pytestmark = pytest.mark.begins_first

OPENB = DATA / "openb"
LONGEST = [("default", 95.5)] if WHOLE else []


@pytest.mark.parametrize(
    ("workload", "seed", "policy"),
    [
        pytest.param("default", 42, "fgd", marks=pytest.mark.slow),
        ("default", 43, "bestfit"),
        pytest.param("default", 45, "bestfit", marks=pytest.mark.slow),
        pytest.param("cpu250", 43, "fgd", marks=pytest.mark.slow),  # the last bits of its sums matter
        pytest.param("gpuspec33", 42, "fgd", marks=pytest.mark.slow),  # of specs equally frequent the cut takes some
        pytest.param("multigpu50", 44, "fgd", marks=pytest.mark.slow),
        pytest.param("gpushare100", 45, "bestfit", marks=pytest.mark.slow),
    ],
)
def test_a_reference_gives_the_published_curve_to_a_hundredth_of_a_point(workload, seed, policy):
    trace = load_trace(OPENB, workload)
    rows = {row[4]: row[5] for row in b1.run(trace, trace, workload, seed, policy, b1.load_published(OPENB))}
    assert rows["golden_difference"] <= b1.EXACT


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "least"), [("gpuspec33", 93.0), ("multigpu20", 95.9), *LONGEST])
def test_our_policy_fills_more_than_fgd_with_another_list_as_history(workload, least):
    trace, history = load_trace(OPENB, workload), load_trace(OPENB, "default")
    rows = {row[4]: row[5] for row in b1.run(trace, history, workload, 42, "tessera", b1.load_published(OPENB))}
    assert rows["alloc_pct_at_100"] >= least


def test_the_default_list_has_35_typical_specs_and_gpuspec33_has_127():
    assert [len(load_trace(OPENB, name).typical.count) for name in ("default", "gpuspec33")] == [35, 127]


def test_the_cluster_is_the_published_one():
    trace = load_trace(OPENB, "default")
    snapshot = build_cluster(trace, trace.orders[42][1], trace.typical)
    assert (len(snapshot.nodes), len(snapshot.gpu_node)) == (1213, 6212)
    assert int(snapshot.node_cpu_total.sum()) == 107_018_000


def test_the_lowest_rank_wins_among_equal_nodes_and_pods_that_fit_nowhere_count_as_arrived():
    trace = load_trace(OPENB, "default")
    pods, ranks = trace.orders[42]
    snapshot = build_cluster(trace, ranks, trace.typical)
    big = TaskResources(0, False, (), (), (), (), 10**9, 0)
    one = trace.pods[next(pod for pod in pods if trace.pods[pod].gpus == 1)]
    arrivals = list(replay_pods(snapshot, [big, one], BEST_FIT))
    assert [arrival.placed for arrival in arrivals] == [False, True]
    assert arrivals[1].allocated_milli == arrivals[1].requested_milli == one.need_milli[0]


def test_a_point_of_the_curve_is_the_mean_over_the_arrivals_that_round_to_it():
    arrivals = [PodArrival(100, 100, True), PodArrival(104, 104, True), PodArrival(200, 104, False)]
    assert allocation_at(arrivals, 1000) == {10: pytest.approx(10.2), 20: pytest.approx(10.4)}


def test_the_references_differ_from_each_other():
    trace = load_trace(OPENB, "default")
    pods, ranks = trace.orders[42]
    ends = []
    for policy in (FGD, BEST_FIT):
        snapshot = build_cluster(trace, ranks, trace.typical)
        list(replay_pods(snapshot, (trace.pods[pod] for pod in pods[:2000]), policy))
        ends.append(snapshot.gpu_free_mib.tolist())
    assert ends[0] != ends[1]


@pytest.mark.slow
def test_the_bench_writes_a_row_for_each_metric_and_says_whether_all_is_well(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    assert b1.main(["--policies", "bestfit", "--seeds", "44", "--csv", str(path)]) == 0
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert list(rows[0]) == ["bench", "case", "seed", "policy", "metric", "value"]
    values = {row["metric"]: float(row["value"]) for row in rows}
    assert {(row["bench"], row["case"], row["seed"], row["policy"]) for row in rows} == {
        ("b1", "default", "44", "bestfit")
    }
    assert 92 < values["alloc_pct_at_100"] < 94 and values["failed_pods"] > 2000
    assert "every reference is exact" in capsys.readouterr().out


def test_a_curve_that_differs_and_a_target_that_is_missed_are_told():
    off = [("b1", "default", 42, "fgd", "golden_difference", 0.03)]
    low = [("b1", "default", 42, "tessera", "alloc_pct_at_100", 95.4)]
    assert len(b1.judge(off, "default", "fgd", {})) == len(b1.judge(low, "default", "tessera", {})) == 1
    slow = [("b1", "default", 42, "tessera", "decisions_per_s", 2900.0)]
    assert b1.judge_speed(slow, "default", "tessera", 1) and not b1.judge_speed(slow, "default", "tessera", 16)


def test_a_cluster_of_copies_has_each_node_once_more():
    trace = b1.load_trace(DATA / "openb", "default")
    twice = b1.enlarge(trace, 2)
    snapshot = b1.build_cluster(twice, twice.orders[42][1], trace.typical)
    assert len(snapshot.nodes) == 2 * 1213 and len(snapshot.gpu_node) == 2 * 6212
