"""Kueue's generators: the known ideal, racks, and what the bench says."""

import csv
from pathlib import Path

import pytest

from bench import b5
from bench.replays.kueue import KueueWorkload, build_cluster, build_jobs, load_generator, schedule_ideally
from bench.shared.rows import DATA

SMALL = """
topology:
  levels:
    - {name: rack, count: 2}
    - {name: node, count: 3, capacity: {cpu: 8}}
cohorts:
  - className: cohort
    count: 2
    queuesSets:
      - className: cq
        count: 3
        nominalQuota: "4"
        borrowingLimit: "8"
        workloadsSets:
          - count: 12
            creationIntervalMs: 100
            workloads:
              - {className: small, runtimeMs: 200, priority: 50, request: 500m, podCount: 2, tasConstraint: required}
          - count: 6
            creationIntervalMs: 300
            workloads: [{className: large, runtimeMs: 400, priority: 100, request: 1, podCount: 4}]
"""


@pytest.fixture
def small(tmp_path) -> Path:
    (tmp_path / "kueue").mkdir()
    (tmp_path / "kueue" / "small.yaml").write_text(SMALL)
    return tmp_path


def test_a_count_over_the_baseline_gives_the_known_ideal():
    generator = load_generator(DATA / "kueue" / "baseline.yaml")
    assert b5.judge(b5.run(generator, b5.STRICT), "baseline", b5.STRICT) == []


def test_the_generators_make_as_many_workloads_as_those_of_the_source():
    generators = {name: load_generator(DATA / "kueue" / f"{name}.yaml") for name in ("baseline", "large-scale", "tas")}
    counts = {name: len(build_jobs(generator)[0]) for name, generator in generators.items()}
    assert counts == {"baseline": 15_000, "large-scale": 50_000, "tas": 15_000}
    assert generators["tas"].capacity_milli == generators["baseline"].capacity_milli == [120_000] * 5
    assert len(generators["large-scale"].queues) == 1000


def test_a_generator_is_read_with_its_quota_its_machines_and_its_order(small):
    generator = load_generator(small / "kueue" / "small.yaml")
    cluster, (jobs, kinds) = build_cluster(generator), build_jobs(generator)
    assert cluster.node_cpu_total.tolist() == [8000] * 6
    assert cluster.team_chain == ((0, 6), (1, 6), (2, 6), (3, 7), (4, 7), (5, 7), (6,), (7,))
    assert cluster.limit[:, 0, 1].tolist() == [12_000] * 8 and cluster.guarantee[:, 0, 1].tolist()[5:] == [
        4000,
        12_000,
        12_000,
    ]
    assert [(kinds[job.job].name, job.priority) for job in jobs[:2]] == [("small", 0), ("large", 1)]
    assert {job.submitted_at for job in jobs if kinds[job.job].name == "large"} == {0, 300, 600, 900, 1200, 1500}


def test_in_a_count_nobody_passes_a_class_above(small):
    generator = load_generator(small / "kueue" / "small.yaml")
    _, kinds = build_jobs(generator)
    starts = schedule_ideally(generator)
    assert len(starts) == len(kinds) == 2 * 3 * (12 + 6)
    assert [starts[job] for job in sorted(starts) if starts[job] == 0 and kinds[job].name == "large"] == [0] * 6


def test_racks_are_kept_by_all_pods_or_slice_by_slice(small):
    generator = load_generator(small / "kueue" / "small.yaml")
    whole, sliced, any_rack = (KueueWorkload("w", 1, 1, 1, 0, 4, 1, within) for within in (4, 2, 0))
    assert generator.keeps_racks(whole, [0, 1, 2, 2]) and not generator.keeps_racks(whole, [0, 1, 2, 3])
    assert generator.keeps_racks(sliced, [0, 1, 3, 4]) and not generator.keeps_racks(sliced, [0, 3, 4, 5])
    assert generator.keeps_racks(any_rack, [0, 3, 4, 5])


def test_the_bench_admits_all_and_writes_its_rows(small, capsys):
    path = small / "rows.csv"
    assert b5.main(["--workload", "small", "--data", str(small), "--csv", str(path), "--seeds", "42"]) in (0, 1)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    ours = {row["metric"]: float(row["value"]) for row in rows if row["policy"] == "tessera"}
    ideal = {row["metric"]: float(row["value"]) for row in rows if row["policy"] == "strict"}
    assert ours["not_admitted"] == ours["split_over_racks"] == 0 and ours["workloads_per_s"] > 0
    assert ours["virtual_makespan_s"] <= 1.1 * ideal["virtual_makespan_s"] and ours["use_pct"] > 85
    assert {(row["bench"], row["case"], row["seed"]) for row in rows} == {("b5", "small", "0")}


GOOD = {
    "virtual_makespan_s": 67.0,
    "use_pct": 98.0,
    "workloads_per_s": 2000.0,
    "not_admitted": 0,
    "split_over_racks": 0,
}


@pytest.mark.parametrize(
    "change",
    [
        {"virtual_makespan_s": 71.0},
        {"use_pct": 94.0},
        {"workloads_per_s": 900.0},
        {"not_admitted": 1},
        {"split_over_racks": 1},
    ],
)
def test_a_target_that_is_missed_is_told(change):
    assert b5.judge(GOOD, "baseline", "tessera") == []
    assert len(b5.judge(GOOD | change, "baseline", "tessera")) == 1
