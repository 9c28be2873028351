"""The product's own loops on a model of database and runtime, interrupted, cut off and killed between any two steps.

How it works, and how a seed is played again: docs/notes/simulating-the-loop.md.
"""

import os

import pytest

from tests.loop.life import run
from tests.whole import part_of

STEPS = 5_000
"""Transactions that were committed, and calls to the runtime."""
PARTS = part_of(40, 3)
QUICK = 1
FIRST_SEED = int(os.environ.get("TESSERA_LOOP_SEED", "0"))

pytestmark = pytest.mark.timeout(600)  # a part takes half a minute of a processor, which a busy machine gives it late


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.slow] if part >= QUICK else []) for part in range(PARTS)]
)
def test_no_promise_breaks_in_thousands_of_steps(part):
    seed, steps = FIRST_SEED + 1000 * part, 0
    while steps < STEPS:
        steps += run(seed).steps
        seed += 1


def test_a_seed_plays_the_same_life_again():
    assert run(7).trace == run(7).trace
