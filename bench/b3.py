"""B3: queueing of 68,503 jobs of the Philly trace on 72 nodes of 8 cards, all in one pool.

    bin/bench b3 [--trace philly|venus|FILE] [--nodes N] [--jobs N] [--policies tessera,fifo-skip,...] [--csv FILE]
                 [--data DIR]

First published orders, which prove the simulator: every figure of refs/golden_queueing.csv must come out to the second.
Then our policies, the very code of production. Both know noisy predictions: tessera stops nobody, and tessera-preempt
lets short work stop what is far longer and goes on from a checkpoint.
Exits with 1 where a reference differs or a target is missed. `--jobs N` takes the first N jobs only: nothing is known
of these, so nothing is compared. Rows: bench,case,seed,policy,metric,value.
"""

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.replays.gang_traces import TraceJob, load_philly, load_trace_jobs, load_venus
from bench.replays.queue_rules import NODE_CARDS, RULES, ReplayOutcome, replay_rule
from bench.replays.tessera_replay import PREEMPT_LONGER_POLICY, SHORT_FIRST_POLICY, simulate_tessera
from bench.shared.options import parser_of, some_of
from bench.shared.rows import Row, figures, finish, revision, write_rows

OURS = {"tessera": SHORT_FIRST_POLICY, "tessera-preempt": PREEMPT_LONGER_POLICY}
"""Both know noisy predictions; the first stops nobody."""
NODES = {"philly": 72, "venus": 83}
TARGETS = {
    ("philly", 72, "tessera"): {"mean_queue_s": 2_900.0, "p999_queue_s": 230_000.0},
    ("philly", 72, "tessera-preempt"): {"mean_queue_s": 2_000.0},
    ("venus", 83, "tessera"): {"mean_queue_s": 750.0, "p999_queue_s": 60_000.0},
    ("venus", 83, "tessera-preempt"): {"mean_queue_s": 450.0},
}
"""{(case, nodes, policy): what ours may be at most, all together}."""
SECOND = 0.5 + 1e-6
"""The golden figures are rounded to the second."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    jobs = load_trace(options.data, options.trace)[: options.jobs]
    whole = options.jobs is None
    golden = load_golden(options.data, options.trace, options.nodes) if whole else {}
    targets = {policy: TARGETS.get((options.trace, options.nodes, policy), {}) for policy in OURS if whole}
    rows: list[Row] = []
    missed: list[str] = []
    for policy in options.policies:
        began = time.perf_counter()
        found = summary(jobs, options.nodes, run(jobs, options.nodes, policy))
        found["wall_s"] = time.perf_counter() - began
        missed += judge(found, policy, golden, targets.get(policy, {}))
        rows += [("b3", options.trace, 0, policy, metric, round(value, 3)) for metric, value in found.items()]
        _print_summary(found, policy, golden)
    write_rows(options.csv, rows)
    return finish(missed, compared=bool(golden or any(targets.values())))


def load_trace(folder: Path, trace: str) -> list[TraceJob]:
    """By submit time. trace: philly, venus, or a file with the columns submit_s, duration_s and gpus."""
    if trace == "philly":
        return load_philly(folder)[1]
    return load_venus(folder) if trace == "venus" else load_trace_jobs(Path(trace))


def run(jobs: Sequence[TraceJob], nodes: int, policy: str) -> ReplayOutcome:
    return simulate_tessera(jobs, nodes, OURS[policy]) if policy in OURS else replay_rule(jobs, nodes, RULES[policy])


def summary(jobs: Sequence[TraceJob], nodes: int, outcome: ReplayOutcome) -> dict[str, float]:
    found = figures([outcome.queue_s[job.row] for job in jobs], "queue")
    found["mean_jct_s"] = sum(outcome.jct_s.values()) / len(jobs)
    found["preemptions"] = outcome.preemptions
    found["makespan_s"] = outcome.ended_at - jobs[0].submit_s
    asked = sum(job.duration_s * job.gpus for job in jobs)
    found["use_pct"] = 100 * asked / (found["makespan_s"] * nodes * NODE_CARDS)
    return found


def judge(
    found: dict[str, float], policy: str, golden: dict[tuple[str, str], float], targets: dict[str, float]
) -> list[str]:
    """References that differ from the golden figures, and targets that ours missed."""
    differ = [
        f"{policy}: {metric} is {value:,.1f}, golden is {golden[policy, metric]:,.0f}"
        for metric, value in found.items()
        if (policy, metric) in golden and abs(value - golden[policy, metric]) > SECOND
    ]
    beyond = [
        f"{policy}: {metric} is {found[metric]:,.0f}, the target is {most:,.0f}"
        for metric, most in targets.items()
        if policy in OURS and found[metric] > most
    ]
    return differ + beyond


def load_golden(folder: Path, case: str, nodes: int) -> dict[tuple[str, str], float]:
    """{(policy, metric): value}; empty where nothing is known of the case on so many nodes."""
    path = folder / "refs/golden_queueing.csv"
    if not path.exists():
        return {}
    with path.open() as file:
        of_case = [row for row in csv.DictReader(file) if (row["case"], row["nodes"]) == (case, str(nodes))]
    keys = {"case", "nodes", "policy"}
    return {
        (row["policy"], metric): float(row[metric]) for row in of_case for metric in row.keys() - keys if row[metric]
    }


def _print_summary(found: dict[str, float], policy: str, golden: dict[tuple[str, str], float]) -> None:
    beside = golden.get((policy, "mean_queue_s"))
    print(
        f"{revision()} {policy:16} queue mean {found['mean_queue_s']:9,.0f} p99 {found['p99_queue_s']:9,.0f}"
        f" p99.9 {found['p999_queue_s']:9,.0f} s"
        + (f" (golden mean {beside:,.0f})" if beside is not None else "")
        + f", {found['wall_s']:.0f} s",
        flush=True,
    )


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("b3", "jobs/ and refs/")
    parser.add_argument("--trace", default="philly", help="philly, venus, or a file")
    parser.add_argument("--nodes", type=int, help="of 8 cards each")
    parser.add_argument("--jobs", type=int, help="the first so many only")
    parser.add_argument("--policies", type=some_of([*RULES, *OURS]), help="names with commas between")
    options = parser.parse_args(arguments)
    options.nodes = options.nodes or NODES.get(options.trace, NODES["philly"])
    known = {policy for policy, _ in load_golden(options.data, options.trace, options.nodes)} or RULES
    options.policies = options.policies or [*(rule for rule in RULES if rule in known), *OURS]
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
