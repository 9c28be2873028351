"""Worlds of 64 cards in which big gangs starve easily, drawn from laws with a seed (B8).

So many gangs a day come at times drawn uniformly. Small work comes so often that it asks for `load` of the cards.
Lengths are lognormal, in 1 minute to 8 hours. A sweep is many jobs at once, of lengths like its own one.
A liar says a tenth of what the job takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.replays.gang_traces import TraceJob, draw_predictions

NODES, CARDS = 8, 64
HOUR_S, DAY_S = 3600.0, 86_400.0
SHORTEST_S, LONGEST_S = 60.0, 8 * HOUR_S
LIE = 10.0
GANG = 8
"""Cards of a node: a job with more is a gang."""
NINE_IN_TEN = 0.9


@dataclass(frozen=True)
class Work:
    """Jobs of one kind. cards: {number or half a card: weight}. median_s, sigma: of the lognormal lengths."""

    cards: dict[float, float]
    median_s: float
    sigma: float

    def draw_cards(self, dice: np.random.Generator, count: int) -> list[float]:
        weights = np.array([*self.cards.values()])
        return dice.choice([*self.cards], size=count, p=weights / weights.sum()).tolist()

    def draw_lengths(self, dice: np.random.Generator, count: int) -> np.ndarray:
        return (self.median_s * dice.lognormal(0.0, self.sigma, count)).clip(SHORTEST_S, LONGEST_S)

    def mean_card_seconds(self) -> float:
        """The mean of many, as lengths are cut."""
        mean_cards = sum(size * weight for size, weight in self.cards.items()) / sum(self.cards.values())
        return mean_cards * float(self.draw_lengths(np.random.default_rng(0), 100_000).mean())


@dataclass(frozen=True)
class HardWorld:
    """small: work that asks for `load` of all cards. sweep: jobs that come at once. liars: of a hundred small jobs."""

    small: Work
    load: float
    gangs: Work
    gangs_a_day: float
    sweep: tuple[int, int] = (1, 1)
    liars: float = 0.0


WORLDS = {
    "sweeps": HardWorld(Work({1: 1.0}, 1200.0, 1.0), 0.7, Work({16: 2.0, 32: 1.0}, HOUR_S, 0.5), 4.0, sweep=(20, 200)),
    "gangs": HardWorld(Work({1: 0.7, 2: 0.2, 4: 0.1}, 1200.0, 1.0), 0.8, Work({32: 2.0, 64: 1.0}, HOUR_S, 0.5), 2.0),
    "liars": HardWorld(
        Work({1: 0.7, 2: 0.2, 4: 0.1}, 1800.0, 1.0),
        0.6,
        Work({16: 1.0, 24: 1.0, 32: 1.0}, HOUR_S, 0.5),
        8.0,
        liars=0.2,
    ),
    "odd-sizes": HardWorld(
        Work({1: 0.3, 2: 0.1, 3: 0.2, 5: 0.2, 6: 0.1, 7: 0.1}, 1800.0, 1.0),
        0.65,
        Work({11: 1.0, 13: 1.0, 20: 1.0, 27: 1.0}, HOUR_S, 0.5),
        6.0,
    ),
    "half-slices": HardWorld(Work({0.5: 1.0}, 1800.0, 1.0), 0.7, Work({64: 1.0}, HOUR_S / 2, 0.5), 3.0),
}


def draw_world(name: str, seed: int, days: float, *, true_times: bool) -> list[TraceJob]:
    """Draw the jobs of so many days, by submit time, with what is said of their lengths.

    true_times: said is what a job takes, but for liars; else Helios' errors on top, one in ten wrong by 10 to 100
    times. `latest_s` is what is said times the factor that nine in ten of the world's jobs do not exceed: what
    somebody knows who has seen many of them.
    """
    world, dice = WORLDS[name], np.random.Generator(np.random.PCG64([seed, *name.encode()]))
    drawn = [*_draw_small(world, dice, days), *_draw_gangs(world, dice, days)]
    jobs = [
        TraceJob(row, submit_s, length_s, cards, "team", said_s)
        for row, (submit_s, length_s, cards, said_s) in enumerate(sorted(drawn))
    ]
    if not true_times:
        said = draw_predictions([job.predicted_s for job in jobs], seed=seed)
        jobs = [replace(job, predicted_s=said_s) for job, said_s in zip(jobs, said, strict=True)]
    factor = float(np.quantile([job.duration_s / job.predicted_s for job in jobs], NINE_IN_TEN))
    return [replace(job, latest_s=job.predicted_s * factor) for job in jobs]


def tell_true_times(jobs: Sequence[TraceJob]) -> list[TraceJob]:
    return [replace(job, predicted_s=job.duration_s, latest_s=job.duration_s) for job in jobs]


def _draw_small(world: HardWorld, dice: np.random.Generator, days: float) -> list[tuple[float, float, float, float]]:
    """Return (when it comes, length, cards, what is said) of each."""
    mean_sweep = sum(world.sweep) / 2
    every_s = world.small.mean_card_seconds() * mean_sweep / (world.load * CARDS)
    drawn, at = [], dice.exponential(every_s)
    while at < days * DAY_S:
        count = int(dice.integers(world.sweep[0], world.sweep[1] + 1))
        lengths = world.small.draw_lengths(dice, 1 if count > 1 else count)
        if count > 1:
            lengths = (lengths * dice.lognormal(0.0, 0.2, count)).clip(SHORTEST_S, LONGEST_S)
        for cards, length_s in zip(world.small.draw_cards(dice, count), lengths.tolist(), strict=True):
            drawn.append((at, length_s, cards, length_s / LIE if dice.random() < world.liars else length_s))
        at += dice.exponential(every_s)
    return drawn


def _draw_gangs(world: HardWorld, dice: np.random.Generator, days: float) -> list[tuple[float, float, float, float]]:
    times = np.sort(dice.uniform(0.0, days * DAY_S, max(round(world.gangs_a_day * days), 1))).tolist()
    lengths = world.gangs.draw_lengths(dice, len(times)).tolist()
    return list(zip(times, lengths, world.gangs.draw_cards(dice, len(times)), lengths, strict=True))
