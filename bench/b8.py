"""B8: big gangs beside small work on 64 cards, 8 machines of 8, in five hard worlds drawn with ten seeds.

    bin/bench b8 [--worlds sweeps,gangs,...] [--seeds N] [--days N] [--times true,helios] [--csv FILE]

Ours is a pool as shipped, the very code of production. Its rivals place as it does and know as much: FIFO, EASY
backfilling, and greedy, which starts in order of arrival whatever fits. EASY with true times is the yardstick. Of the
laws of drawing: bench/replays/hard_worlds.py; of what is asked: docs/simulation.md.
Exits with 1 where a target is missed. Rows: bench,case,seed,policy,metric,value.
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from bench.replays.gang_traces import TraceJob
from bench.replays.hard_worlds import DAY_S, GANG, HOUR_S, NODES, WORLDS, draw_world, tell_true_times
from bench.replays.queue_rules import KNOWN_RULES, replay_rule
from bench.replays.tessera_replay import simulate_tessera
from bench.shared.options import some_of
from bench.shared.rows import Row, finish, revision, write_rows
from scheduler.core.model.types import Policy

OURS, YARDSTICK = "tessera", "easy-true"
POLICIES = (*KNOWN_RULES, YARDSTICK, OURS)
TIMES = ("true", "helios")
MOST_WAIT_S = 12 * HOUR_S
MOST_OF_EASY, MOST_OF_BEST, MOST_OF_BEST_ONCE = 1.2, 1.1, 1.25
"""A gang's wait by the longest under EASY with true times; the mean JCT by the best rival's, and in any one seed."""

Figures = dict[str, float]
Key = tuple[str, str, int]
"""(world, times, seed)"""


@dataclass(frozen=True)
class Run:
    """One world to play, drawn with a seed."""

    world: str
    times: str
    seed: int
    days: float

    @property
    def key(self) -> Key:
        return self.world, self.times, self.seed


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    runs = [Run(*which, options.days) for which in product(options.worlds, options.times, range(options.seeds))]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip((run.key for run in runs), pool.map(play, runs), strict=True))
    for world, times in product(options.worlds, options.times):
        _print_summary(world, times, [found[key] for key in found if key[:2] == (world, times)])
    rows: list[Row] = [
        ("b8", f"{world}/{times}", seed, policy, metric, round(value, 3))
        for (world, times, seed), of_policies in found.items()
        for policy, figures in of_policies.items()
        for metric, value in figures.items()
    ]
    write_rows(options.csv, rows)
    return finish(judge(found))


def play(run: Run) -> dict[str, Figures]:
    """{policy: its figures}"""
    jobs = draw_world(run.world, run.seed, run.days, true_times=run.times == "true")
    placing = Policy()
    waits = {name: replay_rule(jobs, NODES, rule, placing).queue_s for name, rule in KNOWN_RULES.items()}
    waits[YARDSTICK] = replay_rule(tell_true_times(jobs), NODES, KNOWN_RULES["easy"], placing).queue_s
    waits[OURS] = simulate_tessera(jobs, NODES, Policy()).queue_s
    return {policy: measure(jobs, waits[policy]) for policy in POLICIES}


def measure(jobs: Sequence[TraceJob], waited: dict[int, float]) -> Figures:
    return {
        "mean_jct_s": sum(waited[job.row] + job.duration_s for job in jobs) / len(jobs),
        "longest_gang_s": max((waited[job.row] for job in jobs if job.gpus > GANG), default=0.0),
        "over_a_day": sum(wait > DAY_S for wait in waited.values()),
    }


def judge(found: dict[Key, dict[str, Figures]]) -> list[str]:
    """What ours missed."""
    missed: list[str] = []
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for (world, times, seed), figures in found.items():
        case, ours, bound = f"{world} with {times} times", figures[OURS], find_bound(figures)
        if ours["longest_gang_s"] > bound:
            words = f"a gang waits {ours['longest_gang_s'] / HOUR_S:.1f} h, the target is {bound / HOUR_S:.1f} h"
            missed.append(f"{case}, seed {seed}: {words}")
        ratios[case].append(ours["mean_jct_s"] / figures[find_best(figures)]["mean_jct_s"])
        if ratios[case][-1] > MOST_OF_BEST_ONCE:
            words = f"a mean JCT of {ratios[case][-1]:.2f} times {find_best(figures)}'s, the target is"
            missed.append(f"{case}, seed {seed}: {words} {MOST_OF_BEST_ONCE}")
    for case, of_seeds in ratios.items():
        if (mean := sum(of_seeds) / len(of_seeds)) > MOST_OF_BEST:
            missed.append(f"{case}: a mean JCT of {mean:.2f} times the best rival's, the target is {MOST_OF_BEST}")
    return missed


def find_bound(figures: dict[str, Figures]) -> float:
    """Return how long a gang may wait."""
    return max(MOST_WAIT_S, MOST_OF_EASY * figures[YARDSTICK]["longest_gang_s"])


def find_best(figures: dict[str, Figures]) -> str:
    """Return the best rival of those who let no gang wait longer than it may, else EASY with true times."""
    fair = [name for name in KNOWN_RULES if figures[name]["longest_gang_s"] <= find_bound(figures)]
    return min(fair, key=lambda name: figures[name]["mean_jct_s"], default=YARDSTICK)


def _print_summary(world: str, times: str, of_seeds: list[dict[str, Figures]]) -> None:
    best = [figures[OURS]["mean_jct_s"] / figures[find_best(figures)]["mean_jct_s"] for figures in of_seeds]
    print(f"{revision()} {world}, {times} times: ours by the best {_mean(best):.2f}, at most {max(best):.2f}")
    for policy in POLICIES:
        mean = _mean(figures[policy]["mean_jct_s"] for figures in of_seeds)
        longest = max(figures[policy]["longest_gang_s"] for figures in of_seeds) / HOUR_S
        late = sum(figures[policy]["over_a_day"] for figures in of_seeds)
        print(f"  {policy:10} mean JCT {mean:8,.0f} s, a gang's longest wait {longest:6.1f} h, over a day {late:.0f}")
    sys.stdout.flush()


def _mean(values: Iterable[float]) -> float:
    kept = list(values)
    return sum(kept) / len(kept)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/bench b8")
    parser.add_argument("--worlds", type=some_of(WORLDS), default=[*WORLDS])
    parser.add_argument("--times", type=some_of(TIMES), default=[*TIMES])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--days", type=float, default=2.0)
    parser.add_argument("--csv", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
