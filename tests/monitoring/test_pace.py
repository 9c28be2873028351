"""A machine is sampled more often while somebody watches it, at its usual pace without the cache's server."""

import time

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from monitoring.samples import pace
from monitoring.samples.pace import claim_sample, get_sample_pace, is_watched, mark_watched

pytestmark = pytest.mark.django_db


def test_who_is_watched_is_sampled_more_often_for_a_while(settings, monkeypatch):
    settings.TESSERA_SAMPLE_S, settings.TESSERA_SAMPLE_WATCHED_S = 10, 2
    mark_watched(["n1"])
    assert (get_sample_pace("n1"), get_sample_pace("n2")) == (2, 10)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + pace.REMEMBERED_S + 1)
    assert get_sample_pace("n1") == 10
    settings.TESSERA_SAMPLE_S = 0
    assert get_sample_pace("n1") == pace.NEVER_S


def test_of_too_many_the_latest_are_watched(monkeypatch):
    monkeypatch.setattr(pace, "MOST_WATCHED", 2)
    now = time.time()
    for number in range(3):
        monkeypatch.setattr(time, "time", lambda number=number: now + number)
        mark_watched([f"m{number}"])
    assert [is_watched(f"m{number}") for number in range(3)] == [False, True, True]


def test_one_of_those_who_ask_takes_a_sample(settings):
    settings.TESSERA_SAMPLE_S = 10
    assert [claim_sample("n7") for _ in range(3)] == [True, False, False]
    assert claim_sample("n8")


def test_without_the_cache_nothing_is_watched(settings, monkeypatch):
    settings.TESSERA_SAMPLE_S = 10
    monkeypatch.setattr(pace, "cache_server", lambda: Redis(port=1, retry=Retry(NoBackoff(), 0)))
    mark_watched(["n1"])
    assert (is_watched("n1"), get_sample_pace("n1"), claim_sample("n1")) == (False, 10, False)
