"""Lives in which each fourth job starts after another: none is placed before that has ended as it asks (P13b)."""

import pytest

from jobs.dependencies import conditions
from tests.loop import acts
from tests.loop.life import run
from tests.loop.mutants import Bug, plant, returning
from tests.loop.world import Broken

SEEDS = 6


@pytest.fixture(autouse=True)
def after(monkeypatch):
    monkeypatch.setattr(acts, "draw_after", acts.draw_one_after)


def test_no_promise_breaks_where_jobs_start_after_others():
    for seed in range(SEEDS):
        run(seed)


def test_a_life_shows_that_any_end_lets_them_go(monkeypatch):
    plant(monkeypatch, Bug("any end lets them go", conditions.is_never, returning("False")))
    with pytest.raises(Broken, match="P13b"):
        for seed in range(SEEDS):
            run(seed)
