"""Claims: one sender at a time, a late one changes nothing, pauses grow until nothing is left to do."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from events.models import Notice
from events.outgoing import LEASE, PAUSES_S, claim_rows, record_try


def mail(**fields):
    return Notice.objects.create(
        user_id=1, kind="job_failed", object_kind="job", object_id=1, label="job-1", due_at=Now(), **fields
    )


@pytest.mark.django_db
def test_a_claimed_row_is_nobody_elses_until_its_lease_ends():
    mail()
    assert len(claim_rows(Notice.objects.all(), 10)) == 1 and claim_rows(Notice.objects.all(), 10) == []
    Notice.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert len(claim_rows(Notice.objects.all(), 10)) == 1


@pytest.mark.django_db
def test_a_sender_that_comes_back_late_changes_nothing():
    mail()
    (late,) = claim_rows(Notice.objects.all(), 1)
    Notice.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    (second,) = claim_rows(Notice.objects.all(), 1)
    record_try(late, sent=False, error="timeout", again=False)
    assert Notice.objects.get().due_at is not None
    record_try(second, sent=True)
    assert (Notice.objects.get().due_at, Notice.objects.get().attempts) == (None, 2)


@pytest.mark.django_db
def test_pauses_grow_to_a_day_and_then_it_is_given_up():
    assert 23 * 3600 < sum(PAUSES_S) <= 24 * 3600 and list(PAUSES_S) == sorted(PAUSES_S)
    mail()
    for pause in PAUSES_S:
        (row,) = claim_rows(Notice.objects.all(), 1)
        assert not record_try(row, sent=False, error="timeout")
        left = Notice.objects.get().due_at - timezone.now()
        assert abs(left.total_seconds() - pause) < 5
        Notice.objects.update(due_at=Now())
    (row,) = claim_rows(Notice.objects.all(), 1)
    assert record_try(row, sent=False, error="timeout") and Notice.objects.get().due_at is None


@pytest.mark.django_db(transaction=True)
def test_eight_senders_at_once_share_the_rows_and_none_gets_one_twice():
    for _ in range(40):
        mail()
    got, barrier = [], threading.Barrier(8)

    def sender():
        barrier.wait()
        got.extend(row.pk for _ in range(5) for row in claim_rows(Notice.objects.all(), 2))
        connection.close()

    threads = [threading.Thread(target=sender) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == len(set(got)) == 40


@pytest.mark.django_db
def test_only_what_is_due_is_claimed():
    mail()
    Notice.objects.update(due_at=timezone.now() + timedelta(hours=1))
    assert claim_rows(Notice.objects.all(), 10) == []


@pytest.mark.django_db
def test_a_claim_that_is_younger_than_the_statement_that_meets_it_is_kept():
    """PostgreSQL looks at the newest version of a row, and Now() is when the statement began."""
    mail()
    Notice.objects.update(claimed_until=timezone.now() + LEASE + timedelta(seconds=1))
    assert claim_rows(Notice.objects.all(), 1) == []


@pytest.mark.django_db
def test_what_is_due_tomorrow_since_the_clock_was_set_back_is_sent_now():
    mail()
    tomorrow = timezone.now() + timedelta(days=1)
    Notice.objects.update(due_at=tomorrow, claimed_until=tomorrow)
    assert len(claim_rows(Notice.objects.all(), 1)) == 1
