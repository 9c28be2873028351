"""The checks of the doctor on a page, for admins."""

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.health.installation_checks import LOOPS
from scheduler.models import Lease
from tests import make

pytestmark = pytest.mark.django_db


def shown(person, status: int = 200) -> str:
    client = Client()
    client.force_login(person)
    answer = client.get("/cluster/checks/")
    assert answer.status_code == status
    return answer.content.decode()


def test_an_admin_reads_what_is_broken_first_with_its_remedy(no_processes):
    for name in LOOPS:
        Lease.objects.create(name=name, last_ok_at=timezone.now())
    admin = make.admin()
    assert "Everything is in order." in shown(admin)
    Lease.objects.filter(name="cycle").delete()
    page = shown(admin)
    assert "1 problem found." in page and "Look at the logs of beat and the workers" in page
    assert page.index("The loop of the scheduler has never succeeded.") < page.index("PostgreSQL")


def test_nobody_else_reads_them_or_is_shown_the_way():
    person = make.cast().ada
    shown(person, 403)
    client = Client()
    client.force_login(person)
    assert "/cluster/checks/" not in client.get("/cluster/").content.decode()
