"""How well starts are foretold: of the ranges p10 to p90 that people were told, how many held the true start?

    bin/bench forecast [--case synthetic,untimed,philly] [--seeds N] [--jobs N] [--nodes N] [--every S] [--futures N]
                       [--csv FILE] [--data DIR]

A trace is played by the production cycle; every so often its forecast is asked for the first in line, which knows no
more than production does. Each job's first range is measured, and how often what it is told moves later.
`synthetic`: a week of users who say too much or too little, by day more than at night; another one for each seed.
`untimed`: the same, and every third says nothing. `philly`: the first jobs of B3 with their noisy predictions, on fewer
nodes, so that they wait. Exits with 1 where less than 75 % or more than 90 % of the true starts lie in their range, for
all and for those that waited longer than ten minutes; where fewer than 80 % of these were told one; or where what is
told moves later more than twice for more than 5 %.
Rows: bench,case,seed,policy,metric,value; policy `raw` is what the futures alone would have told.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan

import numpy as np

from bench.replays.forecast_replay import ForecastReplay, ReplaySettings, replay_forecasts
from bench.replays.gang_traces import TraceJob, load_philly
from bench.replays.queue_rules import NODE_CARDS, build_empty_nodes, build_gang
from bench.shared.options import parser_of, some_of
from bench.shared.rows import Row, finish, revision, write_rows
from scheduler.core.model.types import NORMAL, Policy, StartRange, WaitingJob

OURS = "tessera"
CASES = {"synthetic": (6, 700, 300.0), "untimed": (6, 700, 300.0), "philly": (40, 4000, 300.0)}
"""{case: (nodes of 8 cards, jobs, seconds between looks)}."""
LEAST, MOST = 75.0, 90.0
SLACK_S = 5.0
LONG_WAIT_S, LEAST_TOLD = 600.0, 80.0
"""Of the jobs that wait longer, at least so many percent are told a range."""
MOST_MOVES, LEAST_STEADY = 2, 95.0
"""How often what a job is told may move later, and for how many percent of the jobs that holds."""
HORIZONS = (
    (0.0, 600.0, "under 10 min"),
    (600.0, 3600.0, "to 1 h"),
    (3600.0, 14_400.0, "to 4 h"),
    (14_400.0, inf, "beyond"),
)
"""By the wait that was told (p50)."""
LOAD = 0.8
"""Of the cards' time that the jobs of `synthetic` take."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    rows: list[Row] = []
    missed: list[str] = []
    for case, seed in ((name, seed) for name in options.case for seed in range(options.seeds[name])):
        nodes, count, every_s = CASES[case]
        nodes, count = options.nodes or nodes, options.jobs or count
        jobs = load_philly(options.data)[1][:count] if case == "philly" else draw_jobs(count, nodes, seed)
        if case == "untimed":
            jobs = [replace(job, predicted_s=inf) if job.row % 3 == 0 else job for job in jobs]
        began = time.process_time()
        found = play(jobs, nodes, ReplaySettings(Policy(), options.every or every_s, options.futures))
        took = time.process_time() - began
        print(f"{revision()} {case}, seed {seed}: {len(found.told)} starts were foretold, {took:.0f} s", flush=True)
        for policy in (OURS, "raw"):
            figures = measure(found, policy)
            rows += [("forecast", case, seed, policy, metric, round(value, 3)) for metric, value in figures.items()]
            _print(policy, figures)
            if policy == OURS:
                missed += [f"{case}, seed {seed}: {miss}" for miss in list_misses(figures)]
    write_rows(options.csv, rows)
    return finish(missed)


def play(jobs: Sequence[TraceJob], nodes: int, how: ReplaySettings) -> ForecastReplay:
    """Nobody's cards are guaranteed to the teams of the trace, who share them."""
    teams = {team: number for number, team in enumerate(dict.fromkeys(job.team for job in jobs))}
    asks = [_ask(job, teams[job.team]) for job in jobs]
    run_s = {job.row: job.duration_s for job in jobs}
    return replay_forecasts(
        build_empty_nodes(nodes, dict.fromkeys(teams, 0)), asks, run_s, how, until=jobs[-1].submit_s
    )


def draw_jobs(count: int, nodes: int, seed: int) -> list[TraceJob]:
    """Four teams; jobs of an hour in the middle, by day three times as many as by night, as many as fill the cards to
    LOAD. What they say is a factor of what they take, half of them within 0.6 and 1.6.
    """
    dice = np.random.default_rng(seed)
    gpus = dice.choice([1, 2, 4, 8, 16], count, p=[0.5, 0.15, 0.15, 0.15, 0.05])
    took = np.maximum(dice.lognormal(np.log(3600), 1.3, count), 60.0)
    said = np.maximum(took * dice.lognormal(0.0, 0.7, count), 60.0)
    span_s = float(gpus @ took) / (LOAD * NODE_CARDS * nodes)
    return [
        TraceJob(row, at, float(took[row]), int(gpus[row]), f"team {dice.integers(4)}", float(said[row]))
        for row, at in enumerate(sorted(_moments(dice, count, span_s)))
    ]


def _ask(job: TraceJob, team: int) -> WaitingJob:
    gang = build_gang(job.gpus)
    return WaitingJob(job.row, team, team, 0, NORMAL, job.submit_s, gang, time_s=job.predicted_s)


def _moments(dice: np.random.Generator, count: int, span_s: float) -> list[float]:
    """Three times as many from 8 to 20 o'clock."""
    found: list[float] = []
    while len(found) < count:
        at = float(dice.uniform(0, span_s))
        if 8 <= at / 3600 % 24 < 20 or dice.random() < 1 / 3:
            found.append(at)
    return found


def measure(replay: ForecastReplay, policy: str) -> dict[str, float]:
    """Seconds and percent. The pinball loss is of a tenth, the half and nine tenths, and its unit is a second."""
    found = replay.told
    ranges = [one.calibrated if policy == OURS else one.raw for one in found]
    waits = np.array([one.started_at - one.made_at for one in found])
    told = np.array([_waits(span, one.made_at) for span, one in zip(ranges, found, strict=True)]).reshape(-1, 3)
    early, late = waits < told[:, 0] - SLACK_S, waits > told[:, 2] + SLACK_S
    inside = ~(early | late)
    figures = {
        "starts": float(len(found)),
        "coverage_pct": 100 * float(inside.mean()),
        "early_pct": 100 * float(early.mean()),
        "late_pct": 100 * float(late.mean()),
        "median_width_s": float(np.median(told[:, 2] - told[:, 0])),
        "pinball_s": float(_pinball(waits, told)),
        "steady_pct": 100 * float(np.mean([one.moved_later <= MOST_MOVES for one in found])),
    }
    if len(long := np.array([one.started_at - one.submitted_at > LONG_WAIT_S for one in found])) and long.any():
        untold = sum(wait_s > LONG_WAIT_S for wait_s in replay.untold_s)
        figures["long_told_pct"] = 100 * float(long.sum() / (long.sum() + untold))
        figures["long_coverage_pct"] = 100 * float(inside[long].mean())
    for low, high, name in HORIZONS:
        here = (told[:, 1] >= low) & (told[:, 1] < high)
        if here.any():
            figures[f"coverage_pct {name}"] = 100 * float(inside[here].mean())
            figures[f"starts {name}"] = float(here.sum())
    return figures


def list_misses(figures: dict[str, float]) -> list[str]:
    """Say which goals the figures miss."""
    told, held = figures.get("long_told_pct", nan), figures.get("long_coverage_pct", nan)
    missed = []
    if not LEAST <= figures["coverage_pct"] <= MOST:
        missed.append(f"{figures['coverage_pct']:.1f} % of the starts lay in their range")
    if figures["steady_pct"] < LEAST_STEADY:
        missed.append(f"for {figures['steady_pct']:.1f} % what was told moved later {MOST_MOVES} times at most")
    if told < LEAST_TOLD:
        missed.append(f"{told:.1f} % of the long waits were told a range")
    if held < LEAST or held > MOST:
        missed.append(f"{held:.1f} % of the long waits ended in their range")
    return missed


def _waits(span: StartRange, made_at: float) -> tuple[float, float, float]:
    return span.p10 - made_at, span.p50 - made_at, span.p90 - made_at


def _pinball(waits: np.ndarray, told: np.ndarray) -> float:
    beyond = waits[:, None] - told
    shares = np.array([0.1, 0.5, 0.9])
    return np.maximum(shares * beyond, (shares - 1) * beyond).mean()


def _print(policy: str, figures: dict[str, float]) -> None:
    by_horizon = [
        f"{name} {figures[f'coverage_pct {name}']:.0f} % of {figures[f'starts {name}']:.0f}"
        for *_, name in HORIZONS
        if f"starts {name}" in figures
    ]
    print(
        f"  {policy:8} {figures['coverage_pct']:.1f} % in range, {figures['early_pct']:.1f} % earlier,"
        f" {figures['late_pct']:.1f} % later; width {figures['median_width_s'] / 60:.0f} min,"
        f" pinball {figures['pinball_s'] / 60:.1f} min, steady {figures['steady_pct']:.1f} %, of long waits"
        f" {figures.get('long_told_pct', nan):.1f} % told and {figures.get('long_coverage_pct', nan):.1f} % of these in"
        f" range; by the wait that was told: {', '.join(by_horizon)}",
        flush=True,
    )


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("forecast", "jobs/ and refs/")
    parser.add_argument("--case", type=some_of(CASES), default=list(CASES), help="synthetic, untimed, philly")
    parser.add_argument("--seeds", type=int, default=2, help="of synthetic")
    parser.add_argument("--jobs", type=int, help="the first so many only")
    parser.add_argument("--nodes", type=int, help="of 8 cards each")
    parser.add_argument("--every", type=float, help="seconds between two looks at those who wait")
    parser.add_argument("--futures", type=int, default=10)
    options = parser.parse_args(arguments)
    options.seeds = {"synthetic": options.seeds, "untimed": options.seeds, "philly": 1}
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
