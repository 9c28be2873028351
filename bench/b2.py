"""B2: how long gang jobs take on 64 cards, durations known, cards exclusive, each start charged (Muri, SIGCOMM'22).

    bin/bench b2 [--trace 1,3,1_pr,3_pr] [--policies srtf,srsf,tessera] [--csv FILE] [--data DIR]

SRTF and SRSF are reference replays and must equal the published mean, 99th percentile and makespan to the second. Ours
is the code of production: short jobs first, and they stop longer ones, who go on from their checkpoints and pay their
overhead again. Durations are known here: whoever is longer at all may be stopped, and often. Jobs run and wait for
weeks on a cluster with twice the work that it can do: age raises nobody, and no place in time is kept (`KNOWN`).
Exits with 1 where a reference differs or ours is above SRSF. Rows: bench,case,seed,policy,metric,value.
"""

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.replays.gang_traces import MuriJob, TraceJob, load_muri
from bench.replays.muri import NODES, ORDERS, replay_muri
from bench.replays.tessera_replay import SHORT_FIRST_POLICY, simulate_tessera
from bench.shared.options import parser_of, some_of
from bench.shared.rows import Row, finish, revision, write_rows
from scheduler.simulation.working_week import DAY_S

OURS = "tessera"
SECOND = 1.0
KNOWN = replace(SHORT_FIRST_POLICY, ageing_s=365 * DAY_S, reservations=0, stop_longer=1.0, most_stops=1000)
"""What a pool can be set to, too."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    rows: list[Row] = []
    missed: list[str] = []
    for trace in options.trace:
        jobs = load_muri(options.data, trace)
        published = load_published(options.data, trace)
        for policy in options.policies:
            began = time.perf_counter()
            found = summary(jobs, run(jobs, policy))
            took = time.perf_counter() - began
            missed += judge(found, trace, policy, published)
            rows += [("b2", trace, 0, policy, metric, round(value, 3)) for metric, value in found.items()]
            beside = published.get((policy, "mean_jct_s"))
            print(f"{revision()} trace {trace:5} {policy:8} mean {found['mean_jct_s']:12,.0f} s", end=" ")
            print(f"(published {beside:,.0f} s), {took:.1f} s" if beside else f"{took:.1f} s", flush=True)
    write_rows(options.csv, rows)
    return finish(missed)


def run(jobs: Sequence[MuriJob], policy: str) -> dict[int, float]:
    """{row: when it ends}."""
    if policy in ORDERS:
        return replay_muri(jobs, ORDERS[policy])
    known = [
        TraceJob(job.row, job.submit_s, job.work_s + job.overhead_s, job.gpus, "", job.work_s + job.overhead_s)
        for job in jobs
    ]
    jct = simulate_tessera(known, NODES, KNOWN, resume_s={job.row: job.overhead_s for job in jobs}).jct_s
    return {job.row: job.submit_s + jct[job.row] for job in jobs}


def summary(jobs: Sequence[MuriJob], ends: dict[int, float]) -> dict[str, float]:
    """The reference's 99th percentile is the value at that place of the sorted list."""
    times = sorted(ends[job.row] - job.submit_s for job in jobs)
    return {
        "mean_jct_s": sum(times) / len(times),
        "p99_jct_s": times[int(0.99 * len(times))],
        "makespan_s": max(ends.values()),
    }


def judge(found: dict[str, float], trace: str, policy: str, published: dict[tuple[str, str], float]) -> list[str]:
    """References that differ, and our target: the published mean of SRSF."""
    if policy in ORDERS:
        pairs = [(metric, value, published.get((policy, metric))) for metric, value in found.items()]
        return [
            f"{policy} on trace {trace}: {metric} is {value:,.1f} and was published as {said:,.1f}"
            for metric, value, said in pairs
            if said is not None and abs(value - said) > SECOND
        ]
    target, ours = published.get(("srsf", "mean_jct_s")), found["mean_jct_s"]
    if target is None or ours <= target:
        return []
    return [f"{policy} on trace {trace}: a mean of {ours:,.0f} s, the target is {target:,.0f} s"]


def load_published(folder: Path, trace: str) -> dict[tuple[str, str], float]:
    """{(policy, metric): seconds}; empty for a trace of which nothing was published."""
    names = {"avg_jct_s": "mean_jct_s"}
    with (folder / "refs/muri_published.csv").open() as file:
        return {
            (row["scheduler"].lower(), names.get(row["metric"], row["metric"])): float(row["value"])
            for row in csv.DictReader(file)
            if row["trace"] == f"trace{trace}"
        }


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("b2", "jobs/ and refs/")
    parser.add_argument("--trace", type=lambda text: text.split(","), default=["1", "3"])
    parser.add_argument("--policies", type=some_of([*ORDERS, OURS]), default=[*ORDERS, OURS])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
