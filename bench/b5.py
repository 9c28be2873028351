"""B5: how fast workloads are admitted, with the generators of Kueue's scheduler test, by the scheduler's own cycle.

    bin/bench b5 [--workload baseline,large-scale,tas] [--policies strict,tessera] [--csv FILE] [--data DIR]

`strict` is a count over each cohort (by priority, then age; nobody is passed or stopped): its figures on `baseline`
are the known ideal and prove that the generators are read right. `tessera` is the production cycle on a virtual clock,
queues as teams whose nominal quota is guaranteed, jobs that may be stopped for owners. No API server, no pods: what is
measured is the time to decide, in CPU seconds of one process. Nothing is random: the seed is 0, --seeds is ignored.
Exits with 1 where a figure differs or a target is missed. Rows: bench,case,seed,policy,metric,value.
"""

import argparse
import sys
import time
from statistics import mean

import numpy as np

from bench.replays.kueue import TICKS_PER_S, KueueGenerator, build_cluster, build_jobs, load_generator, schedule_ideally
from bench.shared.options import parser_of, some_of
from bench.shared.rows import Row, finish, revision, write_rows
from scheduler.core.forecast.simulate import Simulation, SimulationRules
from scheduler.core.model.types import Policy

STRICT, OURS = "strict", "tessera"
POLICY = Policy(ageing_s=12 * 3600 * TICKS_PER_S, preempt=False)
DEPTH = 8
"""So many of each queue and class, the oldest, are looked at in a cycle; Kueue looks at the first of each queue."""
IDEAL = {
    "baseline": {
        "virtual_makespan_s": (66.1, 0.05),
        "use_pct": (99.8, 0.05),
        "mean_admission_large_s": (0.20, 0.005),
        "mean_admission_medium_s": (11.2, 0.05),
        "mean_admission_small_s": (45.8, 0.05),
    },
    "large-scale": {
        "virtual_makespan_s": (4.1, 0.05),
        "use_pct": (98.2, 0.05),
        "mean_admission_small_s": (2.76, 0.005),
    },
}
"""What one cohort could do, and how far from it `strict` may be: (figure, difference)."""
MOST_MAKESPAN_S, LEAST_USE_PCT = {"baseline": 70.0}, {"baseline": 95.0}
LEAST_PER_S = 1000.0
"""Admissions in a second of process time, whatever the generator."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    rows: list[Row] = []
    missed: list[str] = []
    for name in options.workload:
        generator = load_generator(options.data / "kueue" / f"{name}.yaml")
        for policy in options.policies:
            found = run(generator, policy)
            rows += [("b5", name, 0, policy, metric, round(value, 4)) for metric, value in found.items()]
            missed += judge(found, name, policy)
            _print(name, policy, found)
    write_rows(options.csv, rows)
    return finish(missed)


def run(generator: KueueGenerator, policy: str) -> dict[str, float]:
    if policy == STRICT:
        _, kinds = build_jobs(generator)
        starts = {job: float(at) for job, at in schedule_ideally(generator).items()}
        return summarize(generator, starts, max(at + kinds[job].runs_ms for job, at in starts.items()))
    return play_ours(generator)


def play_ours(generator: KueueGenerator) -> dict[str, float]:
    """The figures, and how long decisions took. The reading of the workloads is not counted."""
    jobs, kinds = build_jobs(generator)
    durations = {job: float(kind.runs_ms) for job, kind in kinds.items()}
    rules = SimulationRules(depth=DEPTH)
    play = Simulation(build_cluster(generator), POLICY, 0.0, lambda job: durations[job.job], arrivals=jobs, rules=rules)
    starts: dict[int, float] = {}
    cycles: list[float] = []
    stops = split = 0
    began = before = time.process_time()
    for moment in play.run_steps():
        now = time.process_time()
        cycles.append(now - before)
        before = now
        stops += len(moment.plan.evictions)
        for placement in moment.plan.starts:
            starts.setdefault(placement.job, moment.at)
            nodes = [task.node for task in placement.tasks]
            split += generator.racks > 1 and not generator.keeps_racks(kinds[placement.job], nodes)
    took = time.process_time() - began
    found = summarize(generator, starts, play.now)
    found["workloads_per_s"] = len(starts) / took
    found["p99_cycle_ms"] = 1000 * float(np.quantile(cycles, 0.99))
    found |= {"stops": stops, "split_over_racks": split, "not_admitted": len(jobs) - len(starts)}
    return found


def summarize(generator: KueueGenerator, starts: dict[int, float], ended_at: float) -> dict[str, float]:
    """Use: of all quota until the last one ended, what workloads ran to their end."""
    jobs, kinds = build_jobs(generator)
    done = sum(kinds[job].work for job in starts)
    waits: dict[str, list[float]] = {}
    for job in jobs:
        if job.job in starts:
            waits.setdefault(kinds[job.job].name, []).append((starts[job.job] - job.submitted_at) / TICKS_PER_S)
    found = {f"mean_admission_{name}_s": mean(of_kind) for name, of_kind in waits.items()}
    use = 100 * done / (sum(generator.capacity_milli) * ended_at)
    return {"virtual_makespan_s": ended_at / TICKS_PER_S, "use_pct": use, **found}


def judge(found: dict[str, float], name: str, policy: str) -> list[str]:
    """What a reader must know: an ideal that is not reproduced, a target that is missed."""
    if policy == STRICT:
        return [
            f"{policy} on {name}: {metric} {found[metric]:.3f}, known is {ideal}"
            for metric, (ideal, within) in IDEAL.get(name, {}).items()
            if abs(found[metric] - ideal) > within
        ]
    most, least = MOST_MAKESPAN_S.get(name, found["virtual_makespan_s"]), LEAST_USE_PCT.get(name, 0.0)
    wrong = {
        f"virtual_makespan_s {found['virtual_makespan_s']:.1f}, the target is {most}": found["virtual_makespan_s"]
        > most,
        f"use_pct {found['use_pct']:.1f}, the target is {least}": found["use_pct"] < least,
        f"workloads_per_s {found['workloads_per_s']:.0f}, the target is {LEAST_PER_S:.0f}": found["workloads_per_s"]
        < LEAST_PER_S,
        f"{found['not_admitted']:.0f} workloads were never admitted": found["not_admitted"] > 0,
        f"{found['split_over_racks']:.0f} workloads were split over racks": found["split_over_racks"] > 0,
    }
    return [f"{policy} on {name}: {words}" for words, is_wrong in wrong.items() if is_wrong]


def _print(name: str, policy: str, found: dict[str, float]) -> None:
    waits = ", ".join(
        f"{metric.removeprefix('mean_admission_').removesuffix('_s')} {value:.2f}"
        for metric, value in found.items()
        if metric.startswith("mean_admission")
    )
    print(
        f"{revision()} {name:12} {policy:8} {found['virtual_makespan_s']:6.1f} s, use {found['use_pct']:.1f} %", end=""
    )
    print(f", admission s: {waits}", flush=True)
    if policy == OURS:
        print(f"    {found['workloads_per_s']:.0f}/s, a cycle {found['p99_cycle_ms']:.0f} ms (p99), ", end="")
        print(f"{found['stops']:.0f} stops, {found['split_over_racks']:.0f} over racks", flush=True)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("b5", "kueue/")
    parser.add_argument("--workload", type=lambda text: text.split(","), default=["baseline", "large-scale", "tas"])
    parser.add_argument("--policies", type=some_of([STRICT, OURS]), default=[STRICT, OURS])
    parser.add_argument("--seeds", help="nothing is random here")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
