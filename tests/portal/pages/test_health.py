"""Health: one page, for admins, of what the doctor finds and of the platform's parts."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from events.models import Notice
from portal.pages.cluster.health import fold_agents
from scheduler.health.installation_checks import LOOPS
from scheduler.health.platform_parts import PlatformPart
from scheduler.models import Lease
from tests import make

pytestmark = pytest.mark.django_db


def shown(person, status: int = 200) -> str:
    client = Client()
    client.force_login(person)
    answer = client.get("/cluster/health/")
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
    assert "/cluster/health/" not in client.get("/cluster/").content.decode()


def test_the_old_address_of_checks_leads_here():
    client = Client()
    client.force_login(make.admin())
    answer = client.get("/cluster/checks/")
    assert answer.status_code == 301 and answer["Location"] == "/cluster/health/"


def test_valkey_and_mail_are_shown(settings):
    settings.TESSERA_MAIL, settings.TESSERA_MAIL_HOST = True, "mx.example.net"
    made = timezone.now() - timedelta(hours=2)
    make_mail(created_at=made, error="mail_refused", due_at=timezone.now())
    page = shown(make.admin())
    assert "MiB of memory in use" in page and "1 mail failed and is tried again" in page and "mx.example.net" in page
    assert "took no mail lately" in page


def make_mail(**fields) -> Notice:
    return Notice.objects.create(user_id=1, kind="k", object_kind="job", object_id=1, label="l", **fields)


def test_of_many_agents_some_of_each_tone_are_listed_and_the_others_counted():
    now = timezone.now()
    agents = [PlatformPart("agent", f"n{n}", "", "bad" if n % 2 else "ok", now) for n in range(60)]
    web = PlatformPart("process", "web", "", "ok", now)
    shown, more = fold_agents([*agents, web])
    assert web in shown and len(shown) == 41 and more == 20
    assert fold_agents(agents[:30]) == (agents[:30], 0)
