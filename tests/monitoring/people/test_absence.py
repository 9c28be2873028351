"""Who is away: decided from values alone, at the boundary, too."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitoring.people.absence import Held, Person, find_away, is_due

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
DAYS = 30
LONG_AGO = NOW - timedelta(days=100)
LIMIT = NOW - timedelta(days=DAYS)
SECOND = timedelta(seconds=1)
ADA = Person(1, "ada", "", False, LONG_AGO, signed_in_at=LONG_AGO, held=Held(notebooks=2))


def names(*people, days=DAYS):
    return [one.username for one in find_away(people, days, NOW)]


def test_thirty_days_are_away_and_a_second_less_is_not():
    assert names(replace(ADA, signed_in_at=LIMIT)) == ["ada"]
    assert names(replace(ADA, signed_in_at=LIMIT + SECOND)) == []


def test_a_job_counts_as_a_sign_in_does():
    assert names(replace(ADA, ran_at=LIMIT)) == ["ada"]
    assert names(replace(ADA, ran_at=LIMIT + SECOND)) == []
    assert names(replace(ADA, runs=True)) == []


def test_who_was_never_seen_is_away_since_they_joined():
    never = replace(ADA, signed_in_at=None)
    assert names(never) == ["ada"]
    assert never.seen_at is None and never.count_days(NOW) == 100
    assert names(replace(never, joined_at=LIMIT + SECOND)) == []


@pytest.mark.parametrize("held", [Held(notebooks=1), Held(home_bytes=1), Held(gpu_milli=1), Held(memory_mib=1)])
def test_each_thing_held_is_enough_and_nothing_is_not(held):
    assert names(replace(ADA, held=held)) == ["ada"]
    assert names(replace(ADA, held=Held())) == []


def test_the_longest_away_come_first_and_no_days_are_nobody():
    bob = replace(ADA, username="bob", signed_in_at=LIMIT)
    assert names(bob, ADA) == ["ada", "bob"]
    assert names(bob, ADA, days=0) == []


def test_they_are_due_once_and_then_every_thirty_days():
    assert is_due(None, ADA, DAYS, NOW)
    assert is_due(LIMIT, ADA, DAYS, NOW)
    assert not is_due(LIMIT + SECOND, ADA, DAYS, NOW)
    assert not is_due(None, ADA, 0, NOW)


def test_who_is_suspended_is_away_and_not_reminded():
    gone = replace(ADA, suspended=True)
    assert names(gone) == ["ada"]
    assert not is_due(None, gone, DAYS, NOW)
