"""Processes that say that they are there: one that ends as it should is forgotten, one that is killed is missed."""

from datetime import timedelta

import pytest
from django.utils import timezone

from monitoring.models import ProcessNow
from monitoring.presence import Presence, is_missed, present
from tests.runtimes.worlds import wait_for


@pytest.mark.django_db(transaction=True)
def test_a_process_is_there_until_it_ends_as_it_should(no_processes):
    with present("worker", "127.0.0.1:9"):
        process = wait_for(ProcessNow.objects.first)
        assert (process.role, process.metrics, is_missed(process)) == ("worker", "127.0.0.1:9", False)
    assert not ProcessNow.objects.exists()


@pytest.mark.django_db
def test_one_that_says_nothing_is_missed_and_after_a_day_forgotten(no_processes):
    old = {"host": "h", "version": "1", "started_at": timezone.now()}
    late = ProcessNow.objects.create(role="beat", pid=1, **old, seen_at=timezone.now() - timedelta(minutes=2))
    ProcessNow.objects.create(role="beat", pid=2, **old, seen_at=timezone.now() - timedelta(days=2))
    Presence("web", "0.0.0.0:9090").say()
    Presence("web", "0.0.0.0:9090").say()
    assert is_missed(late)
    assert [(row.role, row.metrics.rpartition(":")[2]) for row in ProcessNow.objects.all()] == [
        ("beat", ""),
        ("web", "9090"),
    ]
