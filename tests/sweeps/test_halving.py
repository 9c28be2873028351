"""Successive halving: who is stopped at which rung, and what that saves against a grid at an equal best."""

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from job_templates.examples import load_examples
from jobs.jobfile.search.space import Choices
from jobs.jobfile.search.wish import SearchWish
from reported_numbers.lines import read_lines
from runtimes import report_file
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


EPOCHS = 9
RATES = [f"{10 ** (-3 + 2 * place / 5):.4g}" for place in range(10)]
EXAMPLE = load_examples()["train-digits"].data["run"]
TOOLS = Path(report_file.__file__).parent / "report_tools"


@pytest.fixture(scope="module")
def curves(tmp_path_factory) -> list[list[float]]:
    """The losses that the shipped example for digits reports at each learning rate, epoch by epoch."""
    return [train(rate, tmp_path_factory.mktemp("digits")) for rate in RATES]


def train(rate: str, home: Path) -> list[float]:
    said = {"LR": rate, "EPOCHS": str(EPOCHS), "SAMPLES": "50", "SEED": "1", "TESSERA_JOB": "job-1"}
    tools = {"TESSERA_REPORT": str(home / "report"), "PYTHONPATH": str(TOOLS), "HOME": str(home)}
    subprocess.run(["sh", "-c", EXAMPLE], env={**os.environ, **said, **tools}, check=True, capture_output=True)
    return [loss for _step, loss in read_lines((home / "report").read_bytes()).values["loss"]]


def run_sweep(wish: SearchWish, curves: list[list[float]], at_once: int) -> tuple[int, float]:
    """Replay a sweep whose trials take an epoch at a time on a card each; return (card-epochs, smallest loss)."""
    waiting, running = list(range(len(curves))), dict[int, int]()
    seen: dict[int, list[float]] = {}
    cards = 0
    while waiting or running:
        while waiting and len(running) < at_once:
            running[waiting.pop(0)] = 0
        cards += len(running)
        running = {trial: epoch + 1 for trial, epoch in running.items()}
        seen |= {trial: curves[trial][:epoch] for trial, epoch in running.items()}
        reached = {at: {rung: told[rung - 1] for rung in wish.rungs if rung <= len(told)} for at, told in seen.items()}
        losers = choose_losers(wish, reached, list(running))
        running = {trial: epoch for trial, epoch in running.items() if epoch < EPOCHS and trial not in losers}
    return cards, min(min(losses) for losses in seen.values())


def test_asha_finds_the_best_of_a_grid_for_half_of_its_card_time_on_the_digits(curves):
    for seed in range(20):  # the order in which the trials come
        shuffled = Random(seed).sample(curves, len(curves))
        grid_cards, grid_best = run_sweep(build_wish(rungs=()), shuffled, 4)
        asha_cards, asha_best = run_sweep(build_wish(rungs=(1, 3)), shuffled, 4)
        assert grid_cards == EPOCHS * len(RATES) and asha_best == grid_best
        assert asha_cards <= grid_cards / 2, (seed, asha_cards, grid_cards)
