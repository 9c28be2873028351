"""Reasons read as sentences with people's units, whatever the numbers."""

import pytest
from django.utils.translation import override

from jobs.messages import WAIT_REASONS, describe_end, describe_wait
from jobs.states import REASONS


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            {"code": "no_fit_now", "params": {"resource": "gpus", "free": 3, "ask": 2, "best": 1, "best_node": "n1"}},
            "GPUs on one node: it asks for 2; the best node has 1 free, of 3 free in all",
        ),
        (
            {
                "code": "no_fit_now",
                "params": {"resource": "gpus", "free": 0, "ask": 1, "free_mib": 1990, "need_mib": 3815},
            },
            "no card has room for it: the best has 2.1 GB of memory free, and the slice needs 4 GB",
        ),
        (
            {
                "code": "no_fit_now",
                "params": {"resource": "gpus", "free": 0, "ask": 1, "free_mib": 9000, "need_mib": 3815},
            },
            "each card with enough free memory serves as many tasks, or has given as much compute, as it can",
        ),
        (
            {"code": "team_limit", "params": {"resource": "gpu_milli", "used": 500, "limit": 500, "ask": 250}},
            "the team is at its limit of GPUs: ½ of ½ used, and it asks for ¼",
        ),
        ({"code": "ahead_in_queue", "params": {"n": 2}}, "2 jobs ahead of it need the same resources first"),
        ({"code": "ahead_in_queue", "params": {"n": 1}}, "one job ahead of it needs the same resources first"),
        (
            {"code": "borrow_denied", "params": {"teams": ["nlp"], "cards": 8}},
            "what is free beyond your team's guarantee is promised to nlp as whole nodes of 8 cards; "
            "a job with `preemptible: true` may borrow it",
        ),
        ({"code": "held", "params": {"who": "ada"}}, "held by ada"),
        ({"code": "from_the_future", "params": {}}, "the scheduler has not looked at it yet"),
    ],
)
def test_a_wait_reason_is_a_sentence(reason, words):
    with override("en"):
        assert describe_wait(reason) == words


@pytest.mark.parametrize("code", sorted(WAIT_REASONS))
def test_a_reason_without_its_numbers_still_reads(code):
    assert "%(" not in describe_wait({"code": code, "params": {}})


@pytest.mark.parametrize("code", sorted(REASONS))
def test_every_end_has_words(code):
    assert describe_end(code)
