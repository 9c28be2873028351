"""B1: how full pods with whole and shared GPUs make the openb cluster (FGD, ATC'23), by the scheduler's own place().

    bin/bench b1 [--workload default,...|all] [--seeds 42-46] [--policies tessera,fgd,...] [--csv FILE] [--data DIR]
                 [--copies 16]

The references prove the simulator: each point of their curves must equal the published one to 0.01. Then `tessera`, a
pool as shipped: it learns what is usually asked as production does (`scheduler.core.placement.usual_requests`), from
the default list as its past and from the pods that arrive. `drift` offers the default list until its requests equal
half of the capacity, then gpuspec33; `all` are the nine lists and this.
With --copies the cluster is so many times as large, 19,408 nodes for 16: then only the speed is judged.
Exits with 1 where a reference differs or a target is missed. Rows: bench,case,seed,policy,metric,value; decisions_per_s
is by the processor's time, of one core, without the building of the cluster.
"""

import argparse
import csv
import gzip
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean

from bench.replays.openb import (
    OpenbTrace,
    allocation_at,
    build_cluster,
    build_history,
    join_traces,
    load_trace,
    replay_pods,
)
from bench.replays.published_scores import BEST_FIT, FGD
from bench.shared.options import parser_of, some_of
from scheduler.core.model.types import Policy, TaskResources

REFERENCES = {"fgd": (FGD, "FGD"), "bestfit": (BEST_FIT, "BestFit")}
OURS = "tessera"
DRIFT = "drift"
DRIFT_AT = 0.5
"""Requests of the first list, of the capacity."""
TARGETS = {"gpuspec33": 93.5, DRIFT: 92.5}
BELOW_FGD = 0.1
MEAN_TARGET = 94.3
"""Of the nine lists."""
SPEEDS = {1: 3000, 16: 1500}
"""{copies: decisions per second at least, on the default list}."""
EXACT = 0.01 + 1e-6
POINTS = (90, 95, 100, 105, 110, 120, 130)

Row = tuple[str, str, int, str, str, float]


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    folder = options.data / "openb"
    published = load_published(folder) if options.copies == 1 else {}
    rows, missed = [], []
    past = load_trace(folder, "default").pods
    for workload in _workloads(options.workload, folder):
        trace = enlarge(load_workload(folder, workload), options.copies)
        for policy in options.policies:
            runs = (run(trace, past, workload, seed, policy, published) for seed in options.seeds)
            of_policy = [row for of_seed in runs for row in of_seed]
            missed += judge(of_policy, workload, policy, published) if options.copies == 1 else []
            missed += judge_speed(of_policy, workload, policy, options.copies)
            rows += of_policy
            _print_summary(of_policy, workload, policy, published)
    missed += judge_mean(rows) if options.workload == "all" and options.copies == 1 else []
    if options.csv:
        with options.csv.open("w", newline="") as file:
            csv.writer(file).writerows([("bench", "case", "seed", "policy", "metric", "value"), *rows])
    print(*missed or ["every reference is exact and no target was missed"], sep="\n")
    return 1 if missed else 0


def enlarge(trace: OpenbTrace, copies: int) -> OpenbTrace:
    """The same pods on so many clusters like it in one."""
    nodes = len(trace.nodes)
    ranks = {
        seed: (pods, [rank + copy * nodes for copy in range(copies) for rank in of_seed])
        for seed, (pods, of_seed) in trace.orders.items()
    }
    return replace(trace, nodes=trace.nodes * copies, orders=ranks)


def load_workload(folder: Path, workload: str) -> OpenbTrace:
    """Load a list, or the drift from one to another. Raises FileNotFoundError."""
    if workload != DRIFT:
        return load_trace(folder, workload)
    return join_traces(load_trace(folder, "default"), load_trace(folder, "gpuspec33"), DRIFT_AT)


def run(
    trace: OpenbTrace, past: list[TaskResources], workload: str, seed: int, policy: str, published: dict
) -> Iterator[Row]:
    """One run's rows. metric `golden_difference`: the largest distance to the published curve, of references only.

    past: pods that came before these, oldest first, from which ours learns. References know the list itself.
    """
    pods, ranks = trace.orders[seed]
    snapshot = build_cluster(trace, ranks, None if policy == OURS else trace.typical)
    rule, history = (Policy(), build_history(snapshot, past)) if policy == OURS else (REFERENCES[policy][0], None)
    began = time.process_time()
    arrivals = list(replay_pods(snapshot, (trace.pods[pod] for pod in pods), rule, history))
    took = time.process_time() - began
    curve = allocation_at(arrivals, 1000 * len(snapshot.gpu_node))
    found = {f"alloc_pct_at_{x}": curve[x] for x in POINTS if x in curve}
    found |= {"failed_pods": sum(not arrival.placed for arrival in arrivals), "decisions_per_s": len(arrivals) / took}
    points = published.get((workload, REFERENCES.get(policy, ("", ""))[1], seed))
    if points:
        found["golden_difference"] = max(abs(round(curve[x], 2) - value) for x, value in points.items())
    yield from (("b1", workload, seed, policy, metric, round(value, 4)) for metric, value in found.items())


def judge(rows: list[Row], workload: str, policy: str, published: dict) -> list[str]:
    """What a reader must know of these runs: references that differ, targets that were missed."""
    if policy in REFERENCES:
        return [
            f"{policy} on {workload}, seed {seed}: {value} points from the published curve"
            for _, _, seed, _, metric, value in rows
            if metric == "golden_difference" and value > EXACT
        ]
    ours = _mean(rows, "alloc_pct_at_100")
    fgd = [points[100] for (case, name, _), points in published.items() if (case, name) == (workload, "FGD")]
    target = TARGETS.get(workload, mean(fgd) - BELOW_FGD if fgd else 0.0)
    return [f"{policy} on {workload}: {ours:.2f} at 100 %, the target is {target:.2f}"] if ours < target else []


def judge_mean(rows: list[Row]) -> list[str]:
    """Judge the mean of the nine lists, each the mean of its orders."""
    ours = [row for row in rows if row[3] == OURS and row[1] != DRIFT]
    if not ours:
        return []
    found = mean(
        _mean([row for row in ours if row[1] == case], "alloc_pct_at_100") for case in {row[1] for row in ours}
    )
    print(f"{OURS} on the nine lists: {found:.2f} at 100 %")
    return (
        [f"{OURS} on the nine lists: {found:.2f} at 100 %, the target is {MEAN_TARGET}"] if found < MEAN_TARGET else []
    )


def judge_speed(rows: list[Row], workload: str, policy: str, copies: int) -> list[str]:
    speed, target = _mean(rows, "decisions_per_s"), SPEEDS.get(copies, 0)
    if policy != OURS or workload != "default" or speed >= target:
        return []
    return [f"{policy} on {workload}: {speed:.0f} decisions/s, the target is {target}"]


def load_published(folder: Path) -> dict[tuple[str, str, int], dict[int, float]]:
    """{(workload, policy, seed): {arrived %: allocation %}}; empty where the folder has none."""
    path = folder / "published_dev.csv.gz"
    if not path.exists():
        return {}
    with gzip.open(path, "rt") as file:
        return {
            (row["workload"], row["policy"], int(row["seed"])): {
                int(name[3:]): float(value) for name, value in row.items() if name.startswith("at_") and value
            }
            for row in csv.DictReader(file)
            if row["metric"] == "alloc_pct"
        }


def _print_summary(rows: list[Row], workload: str, policy: str, published: dict) -> None:
    name = REFERENCES[policy][1] if policy in REFERENCES else "FGD"
    curves = (published.get((workload, name, seed)) for seed in sorted({row[2] for row in rows}))
    known = [points[100] for points in curves if points]
    beside = f"{name} published {mean(known):.2f}" if known else "nothing published"
    known_points = [row[5] for row in rows if row[4] == "alloc_pct_at_100"]
    found = f"{mean(known_points):6.2f} at 100 % ({beside}), " if known_points else ""
    speed = _mean(rows, "decisions_per_s")
    print(f"{_revision()} {workload:12} {policy:16} {found}{speed:.0f} decisions/s", flush=True)


def _mean(rows: list[Row], metric: str) -> float:
    return mean(row[5] for row in rows if row[4] == metric)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("b1", "openb/")
    parser.add_argument("--workload", default="default", help="names with commas between, or all")
    parser.add_argument("--seeds", type=_numbers, default=_numbers("42-46"), help="42-46 or 42,44")
    parser.add_argument("--policies", type=some_of([OURS, *REFERENCES]), default=[OURS, *REFERENCES])
    parser.add_argument("--copies", type=int, default=1, help="so many times the cluster: 16 for the speed at 19,408")
    return parser.parse_args(arguments)


def _workloads(text: str, folder: Path) -> list[str]:
    if text != "all":
        return text.split(",")
    lists = sorted(path.name.removeprefix("pods_").removesuffix(".csv.gz") for path in folder.glob("pods_*.csv.gz"))
    return [*lists, DRIFT]


def _numbers(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if last else [int(number) for number in text.split(",")]


def _revision() -> str:
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
