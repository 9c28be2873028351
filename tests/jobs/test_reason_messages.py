"""Reasons read as sentences with people's units, whatever the numbers."""

import pytest
from django.utils.translation import override

from jobs.reason_messages import WAIT_REASONS, describe_end, describe_wait
from jobs.states import REASONS


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            {"code": "no_fit_now", "params": {"resource": "gpus", "free": 3, "ask": 2, "best": 1, "best_node": "n1"}},
            "not enough whole GPUs are free on one node: 2 needed, 1 free on the best node, 3 in all",
        ),
        (
            {
                "code": "no_fit_now",
                "params": {"resource": "gpus", "free": 0, "ask": 1, "free_mib": 1990, "need_mib": 3815},
            },
            "no card has enough free memory: the best has 2 GB free, and the slice needs 4 GB",
        ),
        (
            {
                "code": "no_fit_now",
                "params": {"resource": "gpus", "free": 0, "ask": 1, "free_mib": 9000, "need_mib": 3815},
            },
            "every card with enough free memory already has its maximum of tasks or compute",
        ),
        (
            {"code": "team_limit", "params": {"resource": "gpu_milli", "used": 500, "limit": 500, "ask": 250}},
            "the team is at its limit of GPUs: ½ of ½ used, ¼ needed",
        ),
        ({"code": "ahead_in_queue", "params": {"n": 2}}, "2 jobs ahead need the same resources first"),
        ({"code": "ahead_in_queue", "params": {"n": 1}}, "one job ahead needs the same resources first"),
        (
            {"code": "borrow_denied", "params": {"teams": ["nlp"], "cards": 8}},
            "free resources beyond your team's guarantee are promised to nlp as whole nodes of 8 cards; "
            "a job with `preemptible: true` can borrow them",
        ),
        ({"code": "held", "params": {"who": "ada"}}, "held by ada"),
        (
            {"code": "emptying", "params": {"by": 1_800_000_000.0}},
            "machines are being emptied for it; it starts at 2027-01-15 08:00 at the latest, unless machines fail",
        ),
        (
            {"code": "emptying", "params": {"at": 1_800_000_000.0}},
            "machines are being emptied for it; it is expected to start at about 2027-01-15 08:00",
        ),
        (
            {"code": "reserved_for_larger", "params": {"drained": True}},
            "the free machines are being emptied for a job that waited long; when it starts is not known",
        ),
        ({"code": "from_the_future", "params": {}}, "the scheduler has not checked this job yet"),
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
