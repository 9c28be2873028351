"""Successive halving: who is stopped at which rung, and what that saves against a grid at an equal best."""

from math import exp, log10
from random import Random

import pytest

from jobs.jobfile.search.space import Choices
from jobs.jobfile.search.wish import SearchWish
from sweeps.halving import choose_losers


def build_wish(mode: str = "min", rungs: tuple[int, ...] = (3, 9)) -> SearchWish:
    return SearchWish("loss", {"lr": Choices(("1",))}, 9, "asha", mode, rungs)


@pytest.mark.parametrize(
    ("reached", "running", "losers"),
    [
        ({}, [0, 1], []),
        ({0: {}}, [0], []),  # before the first rung
        ({0: {3: 0.5}}, [0], []),  # alone there
        ({0: {3: 0.5}, 1: {3: 0.4}}, [0, 1], [0]),
        ({0: {3: 0.5}, 1: {3: 0.5}}, [0, 1], [1]),  # of equals the earlier goes on
        ({0: {3: 0.5}, 1: {3: 0.4}}, [1], []),  # who has ended counts, and is not stopped
        ({at: {3: at} for at in range(6)}, range(6), [2, 3, 4, 5]),
        ({0: {3: 0.9, 9: 0.8}, 1: {3: 0.1}, 2: {3: 0.2}, 3: {3: 0.3}}, range(4), [2, 3]),  # judged by its highest alone
        ({0: {3: 0.1, 9: 0.8}, 1: {3: 0.2, 9: 0.7}}, [0, 1], [0]),
    ],
)
def test_who_is_not_among_the_best_of_its_rung_is_stopped(reached, running, losers):
    assert choose_losers(build_wish(), reached, list(running)) == losers
    turned = {trial: {rung: -value for rung, value in values.items()} for trial, values in reached.items()}
    assert choose_losers(build_wish("max"), turned, list(running)) == losers


STEPS = 27
RATES = [10 ** (-4 + 3 * place / 26) for place in range(27)]


def read_loss(rate: float, step: int) -> float:
    """A learning curve: the nearer to the best rate, the lower it ends and the sooner it falls."""
    away = abs(log10(rate) + 2.2)
    return 0.1 + 0.3 * away + 2 * exp(-step / (3 + 4 * away))


def run_sweep(wish: SearchWish, rates: list[float], at_once: int) -> tuple[int, float]:
    """Return (card-steps, best loss) of a sweep whose trials take a step at a time on a card each."""
    waiting, running, cards = list(range(len(rates))), dict[int, int](), 0
    losses: dict[int, list[float]] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            running[waiting.pop(0)] = 0
        for trial in running:
            running[trial] += 1
            losses.setdefault(trial, []).append(read_loss(rates[trial], running[trial]))
        cards += len(running)
        reached = {
            at: {rung: seen[rung - 1] for rung in wish.rungs if rung <= len(seen)} for at, seen in losses.items()
        }
        losers = choose_losers(wish, reached, list(running))
        running = {trial: step for trial, step in running.items() if step < STEPS and trial not in losers}
    return cards, min(min(seen) for seen in losses.values())


@pytest.mark.parametrize("seed", range(5))
def test_asha_finds_the_best_of_a_grid_for_half_of_its_card_time(seed):
    rates = Random(seed).sample(RATES, len(RATES))
    grid = run_sweep(build_wish(rungs=()), rates, 4)
    asha = run_sweep(build_wish(rungs=(3, 9)), rates, 4)
    assert grid[0] == STEPS * len(RATES) and asha[1] == grid[1]
    assert asha[0] <= grid[0] / 2, (asha, grid)
