"""Tries at secrets: limited for all processes together, by windows that end."""

import pytest

from accounts import guesses
from accounts.guesses import check_guess
from accounts.models import GuessCount
from common.errors import TooManyRequests

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock(monkeypatch):
    """The time, as a list of one number."""
    now = [1_000_000.0]
    monkeypatch.setattr(guesses, "time", lambda: now[0])
    return now


def test_each_secret_of_each_one_is_counted_apart(clock):
    for who in ("ada", "bob"):
        for what in ("sign-ins", "passwords"):
            for _ in range(2):
                check_guess(what, who, limit=2, per_s=60)
    with pytest.raises(TooManyRequests) as full:
        check_guess("sign-ins", "ada", limit=2, per_s=60)
    assert full.value.params["retry_after_s"] == 20


def test_a_window_ends_and_leaves_no_row(clock):
    for _ in range(3):
        for who in ("ada", "bob", "eve"):
            check_guess("sign-ins", who, limit=3, per_s=60)
    clock[0] += 20
    check_guess("sign-ins", "ada", limit=1, per_s=60)
    assert GuessCount.objects.get().used == 1
