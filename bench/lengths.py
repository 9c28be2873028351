"""How right predicted lengths are on drawn years, and how long jobs wait by them, by what people say, and by truth.

    bin/bench lengths [--seeds 10] [--jobs 20000] [--queue 300] [--csv FILE]

A year: bench/shared/drawn_years.py. Each job is predicted before it is learned from; the first fifth is not counted.
queue: the last so many jobs of a year of five times as many come to 4 machines of 8 cards, of one team, at 90 % of what
these can do, by a pool as shipped and by one with short jobs first. A job is predicted from those of the year before,
and from those of the queue that had ended before it came when people's words are played. Exits with 1 where not half of
the predictions are within 1.5 times, nine tenths within 4 times, or where the mean wait is longer than with what people
said. Rows: bench,case,seed,policy,metric,value.
"""

import sys
import time
from collections.abc import Sequence
from math import inf, log
from random import Random
from statistics import mean

from bench.replays.queue_rules import build_empty_nodes, build_gang
from bench.shared.drawn_years import draw_year
from bench.shared.options import parser_of
from bench.shared.rows import Row, finish, write_rows
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.model.types import NORMAL, Policy, WaitingJob
from scheduler.core.prediction.job_traits import PastJob
from scheduler.core.prediction.length_model import LengthModel, learn_lengths

NODES, CARDS, LOAD = 4, 8, 0.9
NEAR, FAR = 1.5, 4.0
POLICIES = {"shipped": Policy(), "short first": Policy(short_first=True)}


def main(arguments: list[str]) -> int:
    parser = parser_of("lengths", "nothing")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--queue", type=int, default=300)
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    waits: dict[tuple[str, str], list[float]] = {}
    missed: list[str] = []
    for seed in range(1, options.seeds + 1):
        year = draw_year(seed, options.jobs)
        found = measure_predictions(year)
        rows += [("lengths", "year", seed, "predicted", name, round(value, 3)) for name, value in found.items()]
        print(f"seed {seed}: " + ", ".join(f"{name} {value:.3g}" for name, value in found.items()), flush=True)
        if found["within_1.5"] < 0.5 or found["within_4"] < 0.9:
            missed.append(f"seed {seed}: {found}")
        year = draw_year(1000 + seed, 5 * options.queue)
        for name, policy in POLICIES.items():
            for told, wait_s in measure_waits(year, policy, seed).items():
                waits.setdefault((name, told), []).append(wait_s)
                rows.append(("lengths", name, seed, told, "mean_wait_s", round(wait_s, 1)))
            last = {told: round(seconds[-1]) for (which, told), seconds in waits.items() if which == name}
            print(f"  mean wait in s, {name}: {last}", flush=True)
    for name in POLICIES:
        means = {told: mean(seconds) for (which, told), seconds in waits.items() if which == name}
        print(f"mean of all seeds, {name}: " + ", ".join(f"{told} {wait_s:,.0f} s" for told, wait_s in means.items()))
        if means["predicted"] > means["said"]:
            missed.append(f"{name}: {means}")
    write_rows(options.csv, rows)
    return finish(missed)


def measure_predictions(year: Sequence[PastJob]) -> dict[str, float]:
    """Shares of a year's jobs, less the first fifth, whose prediction, and whose own word, is right within a factor."""
    model, tested, began = LengthModel(), [], time.process_time()
    for past in year:
        model.learn(past)
        tested.append(model.tested[-1])
    took_s = time.process_time() - began
    tested, counted = tested[len(year) // 5 :], year[len(year) // 5 :]
    words = [(past.traits.said_s, past.seconds) for past in counted if past.traits.said_s]
    guesses = [(one.expected_s, one.seconds) for one in tested]
    return {
        **{f"within_{most:g}": count_within(guesses, most) for most in (NEAR, FAR)},
        **{f"said_within_{most:g}": count_within(words, most) for most in (NEAR, FAR)},
        "below_latest": mean(one.seconds <= one.latest_s for one in tested),
        "learning_us": 1e6 * took_s / len(year),
    }


def count_within(guesses: Sequence[tuple[float, float]], most: float) -> float:
    return mean(guess < inf and abs(log(guess / max(seconds, 1.0))) <= log(most) for guess, seconds in guesses)


def measure_waits(year: Sequence[PastJob], policy: Policy, seed: int) -> dict[str, float]:
    """{by which lengths the last fifth of a year is ordered: mean wait in seconds}."""
    dice, jobs = Random(seed), year[len(year) * 4 // 5 :]
    work_s = sum(past.seconds * int(past.traits.size) for past in jobs)
    mean_gap_s = work_s / len(jobs) / (NODES * CARDS * LOAD)
    come, at = [], 0.0
    for _ in jobs:
        at += dice.expovariate(1 / mean_gap_s)
        come.append(at)
    started = play(jobs, come, [(past.traits.said_s or inf, inf) for past in jobs], policy)
    ended = sorted((started[number] + past.seconds, number) for number, past in enumerate(jobs))
    model, predicted = learn_lengths(year[: -len(jobs)]), []
    for number, past in enumerate(jobs):
        while ended and ended[0][0] <= come[number]:
            model.learn(jobs[ended.pop(0)[1]])
        found = model.predict(past.traits)
        predicted.append((found.expected_s, found.latest_s))
    by_prediction = play(jobs, come, predicted, policy)
    by_truth = play(jobs, come, [(past.seconds, past.seconds) for past in jobs], policy)
    every = {"said": started, "predicted": by_prediction, "true": by_truth}
    return {told: mean(at - came for at, came in zip(starts, come, strict=True)) for told, starts in every.items()}


def play(
    jobs: Sequence[PastJob], come: Sequence[float], lengths: Sequence[tuple[float, float]], policy: Policy
) -> list[float]:
    """Return when each job starts."""
    asks = [
        WaitingJob(number, 0, 0, 0, NORMAL, at, build_gang(int(past.traits.size)), time_s=time_s, latest_s=latest_s)
        for number, (past, at, (time_s, latest_s)) in enumerate(zip(jobs, come, lengths, strict=True))
    ]
    simulation = Simulation(
        build_empty_nodes(NODES, None), policy, 0.0, lambda job: jobs[job.job].seconds, arrivals=asks
    )
    starts = {start.job: step.at for step in simulation.run_steps() for start in step.plan.starts}
    return [starts[number] for number in range(len(jobs))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
