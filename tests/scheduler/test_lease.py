"""One leader at a time, and an old one is refused."""

import threading
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from common.errors import StaleState
from scheduler import lease
from scheduler.lease import acquire, check_epoch, lead, release, renewing, take_hint
from scheduler.models import Lease
from tests.runtimes.worlds import wait_for

pytestmark = pytest.mark.django_db


def test_the_second_waits_while_the_first_leads():
    with lead("cycle") as first, lead("cycle") as second:
        assert first and second is None


def test_a_wish_that_comes_while_another_leads_is_told_to_it_once():
    epoch = acquire("cycle")
    assert acquire("cycle") is None
    assert take_hint("cycle", epoch) and not take_hint("cycle", epoch)


def test_each_term_has_a_higher_epoch_than_any_before():
    epochs = []
    for name in ("cycle", "reconcile", "cycle"):
        with lead(name) as epoch:
            epochs.append(epoch)
    assert epochs == sorted(set(epochs))


def test_a_leader_whose_lease_ran_out_is_refused():
    old = acquire("cycle")
    Lease.objects.update(expires_at="2020-01-01T00:00Z")
    new = acquire("cycle")
    check_epoch("cycle", new)
    with pytest.raises(StaleState):
        check_epoch("cycle", old)


def test_an_old_leader_cannot_end_a_newer_term():
    old = acquire("cycle")
    Lease.objects.update(expires_at="2020-01-01T00:00Z")
    acquire("cycle")
    release("cycle", old)
    assert Lease.objects.get(name="cycle").expires_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_cycle_that_outlasts_its_lease_leads_until_it_is_done(monkeypatch):
    monkeypatch.setattr(lease, "RENEW_S", 0.05)
    epoch, soon = acquire("cycle"), timezone.now() + timedelta(seconds=2)
    Lease.objects.update(expires_at=soon)
    with renewing("cycle", epoch):
        wait_for(lambda: Lease.objects.get(name="cycle").expires_at > soon)
        assert acquire("cycle") is None
    with transaction.atomic():
        check_epoch("cycle", epoch)


@pytest.mark.django_db(transaction=True)
def test_a_term_that_is_over_is_not_kept(monkeypatch):
    monkeypatch.setattr(lease, "RENEW_S", 0.01)
    epoch = acquire("cycle")
    release("cycle", epoch)
    with renewing("cycle", epoch):
        wait_for(lambda: not any(thread.name == "keep-cycle" for thread in threading.enumerate()))
    assert Lease.objects.get(name="cycle").expires_at is None


def test_a_lease_from_before_the_clock_was_set_back_holds_nobody_up():
    """Its leader was killed; it would end in a day."""
    old = acquire("cycle")
    Lease.objects.update(expires_at=timezone.now() + timedelta(days=1), wanted=True)
    assert acquire("cycle") > old
