"""Alerts that an Alertmanager brings."""

import pytest
from django.test import Client

from monitoring.models import ForeignAlert
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
PATH = "alerts:alertmanager"


def sent(*alerts: dict, version: str = "4") -> dict:
    """As Alertmanager 0.25 sends it."""
    return {
        "receiver": "tessera", "status": "firing", "alerts": list(alerts), "groupLabels": {}, "commonLabels": {},
        "commonAnnotations": {}, "externalURL": "http://am:9093", "version": version, "groupKey": "{}:{}",
        "truncatedAlerts": 0,
    }  # fmt: skip


def alert(status: str = "firing", **labels: str) -> dict:
    ends = "0001-01-01T00:00:00Z" if status == "firing" else "2026-11-27T11:00:00Z"
    return {
        "status": status, "labels": {"alertname": "RaidDegraded", "severity": "critical", **labels},
        "annotations": {"summary": "a disk failed"}, "startsAt": "2026-11-27T10:00:00.123Z", "endsAt": ends,
        "generatorURL": "http://prom:9090/graph", "fingerprint": "1f2e",
    }  # fmt: skip


def read(person) -> str:
    client = Client()
    client.force_login(person)
    return client.get("/alerts/").content.decode()


def test_what_an_alertmanager_says_is_shown_until_it_ends(cast, ada):
    assert ada.post(PATH, sent(alert(), alert(instance="n2"))).json() == {"taken": 2}
    assert ada.post(PATH, sent(alert())).json() == {"taken": 1}
    assert ForeignAlert.objects.filter(ended_at=None).count() == 2
    for person in (cast.ada, make.admin()):
        page = read(person)
        assert page.count("RaidDegraded") == 2 and "a disk failed" in page and "http://am:9093" in page
    assert "RaidDegraded" not in read(cast.bob)
    ada.post(PATH, sent(alert("resolved"), alert("resolved", instance="n2")))
    assert not ForeignAlert.objects.filter(ended_at=None).exists() and "RaidDegraded" not in read(cast.ada)


def test_its_own_alerts_do_not_come_back(ada, settings):
    assert ada.post(PATH, sent(alert(tessera=settings.TESSERA_PUBLIC_URL))).json() == {"taken": 0}


def test_an_address_of_theirs_is_no_script(cast, ada):
    bad = {**alert(), "generatorURL": "javascript:alert(1)"}
    ada.post(PATH, sent(bad))
    assert "javascript:" not in read(cast.ada)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (sent(alert(), version="3"), "/version"),
        (sent({**alert(), "labels": {"x": "y" * 1001}}), "/alerts/0/labels"),
        (sent({**alert(), "status": "unsure"}), "/alerts/0/status"),
        ({"version": "4"}, "/alerts"),
    ],
)
def test_what_cannot_be_read_is_refused_at_its_field(ada, body, pointer):
    answer = ada.post(PATH, body)
    assert answer.status_code == 400 and pointer in [error["pointer"] for error in answer.json()["errors"]]


def test_a_token_needs_the_scope(cast):
    assert Api(make.token(cast.ada, "alerts:read")).post(PATH, sent()).status_code == 403
