"""An admin sees on Cluster > Health, and by the doctor, whether the series engine takes what is sent to it."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import User
from monitoring.models import RemoteWrite
from scheduler.health.platform_parts import find_engine_faults, list_platform_parts
from tests import make

pytestmark = pytest.mark.django_db
URL = "http://vm.example.net:8428/api/v1/write?token=do-not-show"


@pytest.fixture
def named(settings):
    settings.TESSERA_REMOTE_WRITE = {"url": URL}


def tone() -> str:
    (part,) = [part for part in list_platform_parts() if part.kind == "engine"]
    return part.tone


def page(admin: User) -> str:
    client = Client()
    client.force_login(admin)
    return client.get("/cluster/health/").content.decode()


def test_without_an_engine_nothing_is_said():
    assert not [part for part in list_platform_parts() if part.kind == "engine"] and not list(find_engine_faults())


@pytest.mark.usefixtures("named")
def test_one_that_takes_all_is_good():
    now = timezone.now()
    assert tone() == "note" and "yet" in next(find_engine_faults()).words
    RemoteWrite.objects.create(pk=1, until=now - timedelta(seconds=40), sent_at=now, sent=100)
    (finding,) = find_engine_faults()
    assert tone() == finding.tone == "ok" and "vm.example.net:8428 has samples until 4" in finding.words
    shown = page(make.admin())
    assert "series engine" in shown and "vm.example.net:8428" in shown and "0 values dropped" in shown
    assert "do-not-show" not in shown and "do-not-show" not in finding.words


@pytest.mark.usefixtures("named")
def test_one_that_is_away_or_refuses_is_noted_with_its_words():
    now, admin = timezone.now(), make.admin()
    row = RemoteWrite.objects.create(pk=1, until=now - timedelta(minutes=10), error="unreachable")
    assert tone() == "note" and "unreachable" in next(find_engine_faults()).words
    shown = page(admin)
    assert "Nothing answers at this address." in shown and re.search(r"\b6\d\d s behind", shown)
    row.until, row.error, row.status, row.words = now, "refused", 400, "out of <bounds>"
    row.dropped, row.dropped_at = 1234, now - timedelta(minutes=5)
    row.save()
    assert tone() == "note" and "400 out of <bounds>" in next(find_engine_faults()).words
    shown = page(admin)
    assert "1234 values dropped · It answered with 400. · out of &lt;bounds&gt;" in shown
    RemoteWrite.objects.update(dropped_at=now - timedelta(hours=2))
    assert tone() == "ok"
