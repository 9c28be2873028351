"""The tasks where the database went away and came back."""

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from scheduler import tasks
from scheduler.models import Lease


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("used_meanwhile", [False, True])
def test_a_pass_does_not_need_the_connection_that_died_with_the_server(used_meanwhile):
    cut_off()
    if used_meanwhile:
        tasks._lead("cycle", lambda epoch: None)
        cut_off()
    began = timezone.now()
    tasks.cycle()
    assert Lease.objects.get(name="cycle").last_ok_at >= began


def cut_off():
    """As a crash of PostgreSQL does: the connection that this worker keeps is gone, and it was not told."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    with psycopg.connect(dbname=connection.settings_dict["NAME"], autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
