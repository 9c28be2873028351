"""The tasks where the database went away and came back."""

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from scheduler import tasks
from scheduler.lease import acquire
from scheduler.models import Lease


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("used_meanwhile", [False, True])
def test_a_pass_does_not_need_the_connection_that_died_with_the_server(used_meanwhile):
    cut_off()
    if used_meanwhile:
        tasks.reconcile.apply()
        cut_off()
    began = timezone.now()
    tasks.cycle.apply()
    assert Lease.objects.get(name="cycle").last_ok_at >= began


@pytest.mark.django_db
@pytest.mark.parametrize("term_s", [30.0, -1.0])
def test_a_wish_that_comes_too_late_for_a_round_is_a_hint(monkeypatch, term_s):
    """In the moment before the lease is given up, or when its term is over."""
    asked = []
    monkeypatch.setattr("scheduler.lease.hint", asked.append)
    monkeypatch.setattr(tasks, "TERM_S", term_s)
    rounds, looked = [], tasks.take_hint

    def wish_afterwards(name, epoch):
        found = looked(name, epoch)
        acquire(name)
        return found

    monkeypatch.setattr(tasks, "take_hint", wish_afterwards)
    act = rounds.append if term_s > 0 else lambda epoch: rounds.append(acquire("cycle"))
    tasks._lead("cycle", act)
    assert (len(rounds), asked) == (1, ["cycle"])
    monkeypatch.setattr(tasks, "take_hint", looked)
    tasks._lead("cycle", rounds.append)
    assert (len(rounds), asked) == (2, ["cycle"])


def cut_off():
    """As a crash of PostgreSQL does: the connection that this worker keeps is gone, and it was not told."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    with psycopg.connect(dbname=connection.settings_dict["NAME"], autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
