"""B4: is a team that shares ever worse off than alone? The jobs of B3, 11 teams, 72 nodes of 8 cards (as HiveD asks).

    bin/bench b4 [--jobs N] [--policies tessera,fifo-strict,...] [--csv FILE] [--data DIR]

Each order is played twice, by every team alone on its own nodes and by all on all nodes; the mean delay of each team
must be the golden one of refs/our_sharing_anomaly_philly.csv to the second. Then ours: the nodes of its own are
guaranteed to each team, who lends what it leaves and takes it back; jobs go on from their checkpoints. It is measured
against the order of arrival (`fifo-skip`), alone and pooled. Exits with 1 where a reference differs or a target is
missed. `--jobs N` takes the first N jobs only, and then only the targets are looked at.
Rows: bench,case,seed,policy,metric,value.
"""

import argparse
import csv
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.replays.gang_traces import TraceJob, load_philly
from bench.replays.queue_rules import RULES, ReplayOutcome, replay_rule
from bench.replays.tessera_replay import simulate_tessera
from bench.shared.options import parser_of, some_of
from bench.shared.rows import Row, figures, finish, revision, write_rows
from scheduler.core.model.types import Policy

OURS = "tessera"
BESIDE = "fifo-skip"
"""The order that ours is measured against: as in production, who came first."""
ORDERS = ("fifo-strict", "fifo-skip", "sjf-strict", "srtf")
WORSE, POOLED = 1.05, 1.25
"""Targets: no team's mean delay above this times that alone, and the mean of all above this times that of the pool."""
SECOND = 0.5 + 1e-6

Delays = dict[str, float]
"""{team: mean queueing delay in seconds}, and that of all under ALL."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    shares, jobs = load_philly(options.data)
    jobs = jobs[: options.jobs]
    golden = load_golden(options.data) if options.jobs is None else {}
    rows: list[Row] = []
    missed: list[str] = []
    alone: dict[str, Delays] = {}
    pooled: dict[str, Delays] = {}
    for policy in sorted({BESIDE, *options.policies} - {OURS}):
        began = time.perf_counter()
        alone[policy] = delays(jobs, play_alone(jobs, shares, policy))
        pooled[policy] = delays(jobs, replay_rule(jobs, sum(shares.values()), RULES[policy]))
        for name, found in ((f"{policy}-private", alone[policy]), (f"{policy}-pooled", pooled[policy])):
            rows += _rows(name, found)
            missed += differences(name, found, golden)
        rows += _rows(policy, compare(pooled[policy], alone[policy], pooled[policy]))
        _print_summary(policy, pooled[policy], alone[policy], pooled[policy], time.perf_counter() - began)
    if OURS in options.policies:
        began = time.perf_counter()
        outcome = simulate_tessera(jobs, sum(shares.values()), Policy(), shares)
        ours = delays(jobs, outcome)
        found = compare(ours, alone[BESIDE], pooled[BESIDE]) | {"preemptions": outcome.preemptions}
        found |= figures(list(outcome.queue_s.values()), "queue")
        rows += _rows(OURS, ours | found)
        missed += judge(found)
        _print_summary(OURS, ours, alone[BESIDE], pooled[BESIDE], time.perf_counter() - began)
    write_rows(options.csv, rows)
    return finish(missed)


def play_alone(jobs: Sequence[TraceJob], shares: Mapping[str, int], policy: str) -> ReplayOutcome:
    """Each team on its own nodes. Raises ValueError where a job is larger than these."""
    together = ReplayOutcome()
    for team, nodes in shares.items():
        of_team = [job for job in jobs if job.team == team]
        outcome = replay_rule(of_team, nodes, RULES[policy])
        together.queue_s |= outcome.queue_s
        together.jct_s |= outcome.jct_s
        together.preemptions += outcome.preemptions
    return together


def delays(jobs: Sequence[TraceJob], outcome: ReplayOutcome) -> Delays:
    of_team: dict[str, list[float]] = {}
    for job in jobs:
        for team in (job.team, "ALL"):
            of_team.setdefault(team, []).append(outcome.queue_s[job.row])
    return {team: sum(waited) / len(waited) for team, waited in of_team.items()}


def compare(found: Delays, alone: Delays, pooled: Delays) -> dict[str, float]:
    """Teams worse off by more than 5 % and a second, and how the mean of all compares with that of the pool."""
    worse = sum(found[team] > WORSE * alone[team] + 1.0 for team in found if team != "ALL")
    return {"teams_worse": worse, "ratio_to_pooled": found["ALL"] / max(pooled["ALL"], 1.0)}


def judge(found: dict[str, float]) -> list[str]:
    missed = []
    if found["teams_worse"]:
        missed.append(f"{OURS}: {found['teams_worse']:.0f} teams are worse off than alone, the target is none")
    if found["ratio_to_pooled"] > POOLED:
        missed.append(f"{OURS}: {found['ratio_to_pooled']:.2f} times the delay of the pool, the target is {POOLED}")
    return missed


def differences(name: str, found: Delays, golden: dict[tuple[str, str], float]) -> list[str]:
    return [
        f"{name}: {team} waits {value:,.1f} s, golden is {golden[name, team]:,.0f}"
        for team, value in found.items()
        if (name, team) in golden and abs(value - golden[name, team]) > SECOND
    ]


def load_golden(folder: Path) -> dict[tuple[str, str], float]:
    """{(order-private or order-pooled, team): mean delay in seconds}."""
    with (folder / "refs/our_sharing_anomaly_philly.csv").open() as file:
        rows = list(csv.DictReader(file))
    ends = {name: name.removesuffix("_s").replace("_", "-") for name in rows[0] if name.endswith("_s")}
    return {(said, row["vc"]): float(row[name]) for row in rows for name, said in ends.items()}


def _rows(policy: str, found: Mapping[str, float]) -> list[Row]:
    """A team's mean delay is the metric mean_queue_s of the case philly/TEAM."""
    teams = {name for name in found if name not in COMMON and not name.endswith("_queue_s")}
    return [
        (
            "b4",
            f"philly/{name}" if name in teams else "philly",
            0,
            policy,
            "mean_queue_s" if name in teams or name == "ALL" else name,
            round(value, 3),
        )
        for name, value in found.items()
    ]


COMMON = {"ALL", "teams_worse", "ratio_to_pooled", "preemptions"}


def _print_summary(policy: str, found: Delays, alone: Delays, pooled: Delays, took: float) -> None:
    said = compare(found, alone, pooled)
    print(
        f"{revision()} {policy:12} mean delay {found['ALL']:9,.0f} s, alone {alone['ALL']:9,.0f} s,"
        f" {said['teams_worse']:.0f} teams worse, {said['ratio_to_pooled']:.2f} x pooled, {took:.0f} s",
        flush=True,
    )


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("b4", "jobs/ and refs/")
    parser.add_argument("--jobs", type=int, help="the first so many only")
    parser.add_argument("--policies", type=some_of([*RULES, OURS]), default=[*ORDERS, OURS])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
