"""The simulator's placement layer against published curves, with the scheduler's own place()."""

import csv
from dataclasses import replace

import pytest

from bench import b1
from bench.replays.openb import (
    PodArrival,
    allocation_at,
    build_cluster,
    build_history,
    load_trace,
    replay_pods,
)
from bench.replays.published_scores import BEST_FIT, FGD
from bench.shared.rows import DATA
from scheduler.core.model.types import Policy, TaskResources
from scheduler.core.placement import usual_requests
from tests.whole import WHOLE

pytestmark = pytest.mark.begins_first

OPENB = DATA / "openb"
LONGEST = [("default", 95.4)] if WHOLE else []


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
    rows = {row[4]: row[5] for row in b1.run(trace, [], workload, seed, policy, b1.load_published(OPENB))}
    assert rows["golden_difference"] <= b1.EXACT


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "least"), [("gpuspec33", 93.5), ("multigpu20", 95.9), ("drift", 92.5), *LONGEST])
def test_a_pool_as_shipped_fills_more_than_fgd_with_another_list_as_its_past(workload, least):
    trace, past = b1.load_workload(OPENB, workload), load_trace(OPENB, "default").pods
    rows = {row[4]: row[5] for row in b1.run(trace, past, workload, 42, "tessera", b1.load_published(OPENB))}
    assert rows["alloc_pct_at_100"] >= least


TENTH = 10
LEAST_OF_A_TENTH = 84.4
"""84.8 are found; 83.9 without learning, 83.1 where all of the past counts alike, 80.9 where only the past counts."""


def test_on_a_tenth_of_the_cluster_what_is_learnt_as_in_production_fills_the_cards():
    assert fill_a_tenth("gpuspec33") >= LEAST_OF_A_TENTH


def fill_a_tenth(workload: str) -> float:
    """Allocation at 100 % on each tenth machine, offered each tenth pod; the past is a tenth, too."""
    trace, past = b1.load_workload(OPENB, workload), load_trace(OPENB, "default").pods
    pods, _ = trace.orders[42]
    small = replace(trace, nodes=trace.nodes[::TENTH])
    snapshot = build_cluster(small, list(range(len(small.nodes))))
    history, capacity = build_history(snapshot, past[::TENTH]), 1000 * len(snapshot.gpu_node)
    arrivals = []
    for arrival in replay_pods(snapshot, (trace.pods[pod] for pod in pods[::TENTH]), Policy(), history):
        arrivals.append(arrival)
        if arrival.requested_milli > 1.02 * capacity:
            break
    return allocation_at(arrivals, capacity)[100]


def test_the_drift_offers_the_default_list_for_half_of_the_cards_and_then_the_other():
    default, other = load_trace(OPENB, "default"), load_trace(OPENB, "gpuspec33")
    drift = b1.load_workload(OPENB, "drift")
    pods, ranks = drift.orders[42]
    begun = next(at for at, pod in enumerate(pods) if pod >= len(default.pods))
    asked = [pod.gpus * max(pod.need_milli, default=0) for pod in (drift.pods[pod] for pod in pods[:begun])]
    assert sum(asked[:-1]) < 3_106_000 <= sum(asked)
    assert [drift.pods[pod] for pod in pods[begun:]] == [other.pods[pod] for pod in other.orders[42][0]]
    assert pods[:begun] == default.orders[42][0][:begun] and ranks == default.orders[42][1]
    assert drift.specs == default.specs + other.specs


def test_the_bench_learns_by_the_function_of_production(monkeypatch):
    """Whatever breaks the one breaks the other."""
    told = []
    monkeypatch.setattr(usual_requests, "learn_wishes", lambda past, totals: told.append(len(list(past))))
    trace = load_trace(OPENB, "default")
    snapshot = build_cluster(trace, trace.orders[42][1])
    list(replay_pods(snapshot, trace.pods[:150], Policy(), build_history(snapshot, trace.pods[:1000])))
    assert told == [1001, 1101] and snapshot.wishes is None and snapshot.typical.of > 0


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
    low = [("b1", "gpuspec33", 42, "tessera", "alloc_pct_at_100", 93.4)]
    beaten = [("b1", "default", 42, "tessera", "alloc_pct_at_100", 95.0)]
    published = {("default", "FGD", 42): {100: 95.2}}
    assert len(b1.judge(off, "default", "fgd", {})) == len(b1.judge(low, "gpuspec33", "tessera", {})) == 1
    assert b1.judge(beaten, "default", "tessera", published) and not b1.judge(beaten, "default", "tessera", {})
    slow = [("b1", "default", 42, "tessera", "decisions_per_s", 2900.0)]
    assert b1.judge_speed(slow, "default", "tessera", 1) and not b1.judge_speed(slow, "default", "tessera", 16)


def test_the_mean_of_the_lists_is_judged_without_the_drift():
    rows = [
        ("b1", case, 42, policy, "alloc_pct_at_100", value)
        for case, policy, value in (
            ("default", "tessera", 95.0),
            ("cpu250", "tessera", 93.5),
            ("drift", "tessera", 99.0),
            ("default", "fgd", 99.0),
        )
    ]
    assert b1.judge_mean(rows) == ["tessera on the nine lists: 94.25 at 100 %, the target is 94.3"]
    assert b1.judge_mean([(*row[:5], row[5] + 0.1) for row in rows]) == []


def test_a_cluster_of_copies_has_each_node_once_more():
    trace = b1.load_trace(DATA / "openb", "default")
    twice = b1.enlarge(trace, 2)
    snapshot = b1.build_cluster(twice, twice.orders[42][1], trace.typical)
    assert len(snapshot.nodes) == 2 * 1213 and len(snapshot.gpu_node) == 2 * 6212
