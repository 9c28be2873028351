"""What is usually asked: newer jobs count more, sizes for long, and who wants which model for a short time."""

import random

import pytest

from scheduler.core.model.types import Role
from scheduler.core.placement.usual_requests import (
    BLOCK,
    BLOCKS,
    HISTORY,
    SCALE,
    TYPICAL_EVERY,
    TYPICAL_HALF_LIFE,
    WISHES_EVERY,
    WISHES_HALF_LIFE,
    RequestHistory,
    is_due,
    learn_typical,
    learn_wishes,
    weigh,
)
from tests.worlds import SELLABLE_MIB, build_ask, world

KINDS = ("A100", "T4")
TOTALS = tuple(SELLABLE_MIB[kind] for kind in KINDS)
A100, T4, ANY, HALF = (build_ask(KINDS, text, cores=1) for text in ("A100:1", "T4:1", "1", "1/2"))


def past(*asks):
    """Oldest first, one task of each job."""
    return [(ask, 1, age // BLOCK) for age, ask in enumerate(reversed(asks))]


def mix(share_of_t4: float, jobs: int, seed: int = 7):
    dice = random.Random(seed)
    return [T4 if dice.random() < share_of_t4 else ANY for _ in range(jobs)]


def share_of_t4(wishes) -> float:
    only_t4 = wishes.accepts.tolist().index([False, True])
    return wishes.count[only_t4] / wishes.count.sum()


def counts(typical) -> dict[int, int]:
    return dict(zip(typical.need[0].tolist(), typical.count.tolist(), strict=True))


def test_a_request_counts_half_after_its_half_life_in_whole_blocks():
    old = (HALF, 3, TYPICAL_HALF_LIFE // BLOCK)
    assert counts(learn_typical([(ANY, 1, 0), old], TOTALS)) == {1000: SCALE, 500: 3 * SCALE // 2}


@pytest.mark.parametrize("learn", [learn_typical, learn_wishes])
def test_the_order_of_the_rows_and_how_they_were_added_up_change_nothing(learn):
    rows = past(*mix(0.3, 500), *[HALF] * 70)
    shuffled = random.Random(1).sample(rows, len(rows))
    added = [(ask, rows.count((ask, 1, block)), block) for ask, _, block in dict.fromkeys(rows)]
    one, *others = (learn(given, TOTALS) for given in (rows, shuffled, added))
    for other in others:
        assert sorted(one.count.tolist()) == sorted(other.count.tolist())


def test_typical_sizes_do_not_know_who_wants_which_model():
    typical = learn_typical([(T4, 1, 0), (A100, 2, 0), (ANY, 4, 0)], TOTALS)
    assert counts(typical) == {1000: 7 * SCALE}


def test_wishes_follow_a_change_of_models_at_the_rate_of_their_half_life():
    asks = [*[ANY] * 3000, *[T4] * WISHES_HALF_LIFE]
    assert share_of_t4(learn_wishes(past(*asks), TOTALS)) == pytest.approx(0.5, abs=0.01)
    assert share_of_t4(learn_wishes(past(*asks, *[T4] * WISHES_HALF_LIFE), TOTALS)) == pytest.approx(0.75, abs=0.01)


def test_typical_sizes_hardly_follow_a_burst():
    burst = learn_typical(past(*[ANY] * 3000, *[HALF] * WISHES_HALF_LIFE), TOTALS)
    assert counts(burst)[500] / burst.count.sum() < 0.15


def test_nothing_is_no_error():
    assert learn_wishes([], TOTALS) is None and learn_typical([], TOTALS) is None
    assert learn_wishes([(ANY, 0, 0)], TOTALS) is None


@pytest.mark.parametrize(
    ("seen", "at", "due"),
    [
        (0, -1, True),
        (0, 0, False),
        (1, 0, True),
        (50, 45, True),
        (49, 45, False),
        (8000, 7901, False),
        (8000, 7900, True),
    ],
)
def test_it_is_learnt_anew_after_a_tenth_more_or_enough_jobs(seen, at, due):
    assert is_due(seen, at, WISHES_EVERY) is due


def test_a_history_teaches_now_and_then_and_forgets_what_is_too_old():
    snapshot, history = world("n1: A100x1 T4x1"), RequestHistory(TOTALS)
    assert history.teach(snapshot) and snapshot.typical is snapshot.wishes is None
    for ask in [HALF] * 100 + [ANY] * HISTORY:
        history.add([Role("worker", 1, 1, ask)])
    assert history.teach(snapshot) and counts(snapshot.typical).keys() == {1000}
    before, snapshot.prices = snapshot.wishes, {0: "old"}
    for _ in range(WISHES_EVERY - 1):
        history.add([Role("worker", 2, 4, HALF)])
    assert not history.teach(snapshot) and snapshot.wishes is before and snapshot.prices
    history.add([Role("worker", 2, 4, HALF)])
    assert not history.teach(snapshot) and snapshot.wishes is not before and not snapshot.prices
    for _ in range(TYPICAL_EVERY - WISHES_EVERY):
        history.add([Role("worker", 2, 4, HALF)])
    assert history.teach(snapshot) and counts(snapshot.typical).keys() == {500, 1000}


def test_the_oldest_job_that_is_looked_at_counts_in_the_last_block():
    oldest = weigh([(ANY, 1, BLOCKS - 1)], TYPICAL_HALF_LIFE)
    assert oldest == [(ANY, round(SCALE * 0.5 ** ((HISTORY - BLOCK) / TYPICAL_HALF_LIFE)))]
    assert weigh([(ANY, 1, BLOCKS - 1)], WISHES_HALF_LIFE) == []
