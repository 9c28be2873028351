"""A simulation that finds no planted bug proves nothing. Each of these is found, and without any of them nothing is."""

import pytest

from tests.loop.bugs import BUGS
from tests.loop.life import run
from tests.loop.mutants import Bug, plant
from tests.loop.world import Broken

pytestmark = pytest.mark.begins_first

LIVES = 400
"""So many lives a bug may stay hidden; most are found in the first."""


def lives_until_found(bug: Bug) -> int | None:
    for seed in range(bug.seed, bug.seed + LIVES):
        with pytest.MonkeyPatch.context() as patch:
            plant(patch, bug)
            try:
                run(seed, often=bug.often)
            except Broken:
                return seed - bug.seed + 1
    return None


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug):
    assert lives_until_found(bug) is not None, f"{LIVES} lives did not show that {bug.name}"


def test_there_are_enough_bugs_and_the_worst_is_found_in_a_moment():
    assert len(BUGS) >= 20
    assert lives_until_found(next(bug for bug in BUGS if bug.name == "containers get random names"))
