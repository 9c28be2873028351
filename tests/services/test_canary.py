"""When a canary goes back: soon where it is bad, not by chance where it is not, and never with more than its share."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.jobfile.serving import BackIf, Canary
from services.canaries.judging import (
    DEVIATIONS,
    ENOUGH,
    ENOUGH_USUAL,
    Answered,
    Trial,
    find_breach,
    judge_canary,
    takes_next,
)
from services.canaries.messages import describe_breach
from services.traffic import Traffic, add_up, find_bucket

NOW = datetime(2027, 1, 5, 12, tzinfo=UTC)


def answer(requests: int, errors: int = 0, *seconds: float) -> Traffic:
    """Each of these times for an equal part of the requests."""
    each = requests // max(len(seconds), 1)
    return add_up([Traffic(requests, errors), *(Traffic(times={find_bucket(one): each}) for one in seconds)])


def judge(*answered: Answered, since_s: int = 60, **rule) -> str | None:
    trial = Trial(Canary(for_s=1800, back_if=BackIf(**rule)), NOW - timedelta(seconds=since_s), answered)
    found = judge_canary(trial, NOW)
    return found and found.kind


@pytest.mark.parametrize(
    ("requests", "errors", "going_on", "at_its_end"),
    [
        (ENOUGH - 1, ENOUGH - 1, None, None),  # too few to tell
        (20, 2, None, None),  # two are no rule
        (20, 3, "errors", "errors"),
        (100, 5, None, "errors"),  # may be chance; at its end it is above 2 %
        (100, 7, "errors", "errors"),
        (1000, 20, None, None),
        (1000, 33, None, "errors"),
        (1000, 34, "errors", "errors"),
    ],
)
def test_errors(requests, errors, going_on, at_its_end):
    told = Answered(answer(requests, errors), answer(900))
    assert (judge(told), judge(told, since_s=1800)) == (going_on, at_its_end)


@pytest.mark.parametrize(
    ("canary", "good", "verdict"),
    [
        (answer(100, 0, 0.1), answer(900, 0, 0.1), None),
        (answer(100, 0, 0.2), answer(900, 0, 0.1), "p95"),
        (answer(100, 0, 0.14), answer(900, 0, 0.1), None),
        (answer(20, 0, 0.2), answer(900, 0, 0.1), "p95"),
        (answer(19, 0, 0.2), answer(900, 0, 0.1), None),
        (answer(100, 0, 0.2), answer(ENOUGH_USUAL - 1, 0, 0.1), None),
        (answer(100, 0, *[0.1] * 9, 0.5), answer(900, 0, 0.1), None),  # a tenth, which may be chance
        (answer(1000, 0, *[0.1] * 9, 0.5), answer(900, 0, 0.1), "p95"),
        (answer(100, 0, *[0.1] * 9, 0.5), answer(900, 0, *[0.1] * 9, 0.5), None),
    ],
)
def test_slow_answers(canary, good, verdict):
    assert judge(Answered(canary, good), p95=1.5) == verdict
    assert judge(Answered(canary, good)) is None  # nothing was asked about times


def test_a_bad_last_minute_is_not_hidden_by_a_good_hour():
    hour, minute = Answered(answer(3000, 5), answer(9)), Answered(answer(50, 5), answer(9))
    assert (judge(hour), judge(hour, minute), judge()) == (None, "errors", None)


def test_what_it_went_back_for_is_said():
    found = find_breach(BackIf(0.5), Answered(answer(48, 10), answer(400)), DEVIATIONS)
    assert describe_breach(vars(found)) == "20.8% of its 48 requests failed, more than 0.5%."
    slow = find_breach(BackIf(2, 1.5), Answered(answer(100, 0, 0.4), answer(400, 0, 0.1)), DEVIATIONS)
    assert describe_breach(vars(slow)) == "The p95 of its 100 requests was 427 ms, more than 160 ms."


def test_it_is_told_apart_from_chance():
    """Of 200 canaries that are as good as their limit allows, looked at after each request, few go back; all bad do."""
    draw = random.Random(7)

    def find_end(share: float) -> int:
        errors = 0
        for n in range(1, 400):
            errors += draw.random() < share
            if find_breach(BackIf(2.0), Answered(Traffic(n, errors), Traffic()), DEVIATIONS):
                return n
        return 0

    assert sum(find_end(0.01) > 0 for _ in range(200)) <= 4
    bad = sorted(find_end(0.2) for _ in range(200))
    assert bad[0] >= ENOUGH and bad[100] <= 25 and bad[-1] <= 90


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 50), st.integers(1, 400))
def test_it_never_gets_more_than_its_share(percent, requests):
    passed = 0
    for of in range(requests):
        passed += takes_next(passed, of, percent / 100)
        assert passed <= percent / 100 * (of + 1) + 1e-9
    assert passed > percent / 100 * requests - 1.01
