"""B6: the day and night of the AIStation case study (32 V100, 50 developers), by the scheduler's own cycle.

    bin/bench b6 [--workload backlog,arrivals] [--policies A,B,B-shipped,C,C2,D] [--sensitivities] [--csv FILE]
                 [--html DIR] [--data DIR]

A and B prove the simulator: 160 and 368 jobs a week exactly, hours in use within 2 %, the headline utilisation within a
point of what the case study reports. B puts each developer on the emptiest card, as the case study has it and no pool
of ours; B-shipped is the same with a pool as shipped, as are C, C2 and D, which can be better. Exits with 1 where
something differs or a target is missed. Rows: bench,case,seed,policy,metric,value; nothing is random here, so the seed
is 0. `arrivals`: 80 jobs each working day instead of a queue that never empties. --sensitivities: other jobs,
developers, slices and days.
"""

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.replays.aistation import CASES, WARM_UP, CaseStudy, build_scenario, load_study, replace_developers
from bench.replays.aistation_figures import compute_metrics
from bench.shared.options import parser_of, some_of
from bench.shared.rows import Row, finish, write_rows
from scheduler.simulation.history import SimulationHistory
from scheduler.simulation.report import build_report, read_revision
from scheduler.simulation.scenario import Scenario, simulate_scenario
from scheduler.simulation.summary import summarize
from scheduler.simulation.working_week import HOUR_S

WORKLOADS = ("backlog", "arrivals")
EXACT = {"A": 160, "B": 368}
AT_LEAST = {"C": 413, "C2": 424.6, "D": 425}
MOST_WAIT_S = 30
HOURS_WITHIN = 0.02
POINTS_WITHIN = 1.0
NAMES = {"A": "A before", "B": "B AIStation", "C": "C elastic", "C2": "C2 elastic"}
"""How the rows of `expected.csv` begin, whose hours are compared."""
COLUMNS = (
    ("jobs/week", "jobs_per_week", "{:.1f}"),
    ("in use h/day", "in_use_h_per_day", "{:.2f}"),
    ("headline %", "headline_util_pct", "{:.1f}"),
    ("by time %", "util_time_weighted_pct", "{:.1f}"),
    ("dev p50 s", "dev_p50_wait_s", "{:.0f}"),
    ("dev p95 s", "dev_p95_wait_s", "{:.0f}"),
    ("dev max s", "dev_max_wait_s", "{:.0f}"),
    ("refused", "dev_refused", "{:.0f}"),
    ("stops/week", "preemptions_per_week", "{:.1f}"),
    ("lost min", "lost_min_per_week", "{:.0f}"),
    ("train wait s", "train_mean_wait_s", "{:.0f}"),
)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    study = load_study(options.data / "aistation")
    reported = load_reported(options.data / "aistation")
    rows: list[Row] = []
    missed: list[str] = []
    print(read_revision(), "policy", *(title for title, _, _ in COLUMNS), sep=" | ")
    for name, varied in studies(study, options):
        for case in (case for case in CASES if case.name in options.policies):
            began = time.process_time()
            scenario = build_scenario(varied, case)
            history = simulate_scenario(scenario)
            found = compute_metrics(varied, case, history)
            took = time.process_time() - began
            _print(name, case.name, found, took)
            rows += [("b6", name, 0, case.name, metric, round(value, 4)) for metric, value in found.items()]
            if options.html:
                write_report(options.html / f"b6-{name}-{case.name}.html", scenario, history)
            if name == "backlog":
                missed += judge(case.name, found, reported)
    write_rows(options.csv, rows)
    return finish(missed)


def studies(study: CaseStudy, options: argparse.Namespace) -> Iterator[tuple[str, CaseStudy]]:
    """(case, study) of all that is asked: the workloads, then one thing changed at a time."""
    for workload in options.workload:
        yield workload, replace(study, has_daily_arrivals=workload == "arrivals")
    if options.sensitivities:
        yield from ((f"job_h={hours}", replace(study, job_s=hours * HOUR_S)) for hours in (6, 18, 24))
        yield from ((f"developers={count}", replace_developers(study, count)) for count in (25, 100))
        yield from ((f"slice_gb={size}", replace(study, slice_mib=1024 * size)) for size in (2, 8))
        yield from ((f"day_h={hours}", replace(study, stays_s=hours * HOUR_S)) for hours in (7, 9))


def write_report(path: Path, scenario: Scenario, history: SimulationHistory) -> None:
    """Plots of the whole time, and the first week that is measured, card by card."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(build_report(scenario, history, summarize(scenario, history), read_revision(), WARM_UP + 1))


def judge(policy: str, found: dict[str, float], reported: dict[str, dict[str, float]]) -> list[str]:
    """What a reader must know: where A and B are not what was reported, and targets that were missed."""
    said = []
    jobs = found["jobs_per_week"]
    if policy in EXACT and jobs != EXACT[policy]:
        said.append(f"{policy}: {jobs:.2f} jobs a week, not {EXACT[policy]}")
    if policy in AT_LEAST and jobs < AT_LEAST[policy]:
        said.append(f"{policy}: {jobs:.2f} jobs a week, the target is {AT_LEAST[policy]}")
    if policy in AT_LEAST and found["dev_p95_wait_s"] > MOST_WAIT_S:
        said.append(f"{policy}: developers wait {found['dev_p95_wait_s']:.0f} s (p95), the target is {MOST_WAIT_S} s")
    if policy in AT_LEAST and found["dev_refused"]:
        said.append(f"{policy}: {found['dev_refused']:.0f} developers were refused")
    if policy in EXACT and policy in reported:
        known = reported[policy]
        if abs(found["in_use_h_per_day"] / known["hours"] - 1) > HOURS_WITHIN:
            said.append(f"{policy}: {found['in_use_h_per_day']:.2f} hours in use, reported {known['hours']:.2f}")
        if abs(found["headline_util_pct"] - known["headline"]) > POINTS_WITHIN:
            said.append(f"{policy}: headline {found['headline_util_pct']:.1f} %, reported {known['headline']:.1f} %")
    return said


def load_reported(folder: Path) -> dict[str, dict[str, float]]:
    """{policy: hours in use, and the headline of those that the case study tells}."""
    with (folder / "expected.csv").open() as file:
        rows = list(csv.DictReader(file))
    reported = {}
    for policy, name in NAMES.items():
        for row in (row for row in rows if row["policy"].startswith(name)):
            reported[policy] = {"hours": float(row["gpu_hours_in_use_per_day_per_card"])}
            if row["reported_by_case_study"]:
                reported[policy]["headline"] = float(row["reported_by_case_study"].split("/")[2])
    return reported


def _print(case: str, policy: str, found: dict[str, float], took: float) -> None:
    cells = [form.format(found[metric]) if metric in found else "-" for _, metric, form in COLUMNS]
    print(case, policy, *cells, f"{took:.1f} s", sep=" | ", flush=True)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("b6", "aistation/")
    parser.add_argument("--workload", type=some_of(WORKLOADS), default=[*WORKLOADS], help="backlog, arrivals or both")
    parser.add_argument("--policies", type=some_of(case.name for case in CASES), default=[case.name for case in CASES])
    parser.add_argument("--sensitivities", action="store_true", help="change one thing at a time (minutes)")
    parser.add_argument("--html", type=Path, help="a folder for a report with plots of each policy")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
