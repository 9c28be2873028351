"""Alerts, their rules and silences by REST."""

from datetime import timedelta

import pytest
from django.utils import timezone

from monitoring.models import AlertRule
from tests import make
from tests.api_client import BASE, Api

pytestmark = pytest.mark.django_db
HOT = {
    "name": "warm",
    "subject": "card",
    "metric": "temperature_c",
    "comparison": "above",
    "threshold": 70,
    "audience": ["admin"],
}


@pytest.fixture
def root(cast):
    return Api(make.token(make.admin()))


@pytest.fixture
def alert(cast):
    return make.alert("low_activity", "job-412", value=3.5, owners=[cast.ada.pk], teams=[cast.nlp.pk])


def patch(api: Api, path: str, body: dict):
    return api.client.patch(BASE + path, body, content_type="application/json", headers=api.headers)


def test_alerts_are_listed_for_whom_they_concern(alert, root, ada, bob, eve):
    for caller in (root, ada, bob):
        (shown,) = caller.get("alerts").json()["results"]
        assert (shown["state"], shown["severity"], shown["label"], shown["value"]) == ("firing", "info", "job-412", 3.5)
        assert shown["unit"] == "%" and "below 10 %" in shown["text"]
    assert eve.get("alerts").json()["results"] == [] and eve.get(f"alerts/{alert.pk}").status_code == 404
    assert ada.get("alerts?state=resolved").json()["results"] == []
    assert ada.get("alerts?state=loud").json()["errors"][0]["code"] == "unknown_value"


def test_an_alert_is_acknowledged(alert, ada):
    assert ada.post(f"alerts/{alert.pk}:acknowledge", {}).json()["acknowledged_by"] == "ada"
    type(alert).objects.update(state="RESOLVED")
    assert ada.post(f"alerts/{alert.pk}:acknowledge", {}).json()["code"] == "alert_ended"


def test_a_silence_is_made_and_ended(alert, ada, root):
    until = (timezone.now() + timedelta(hours=1)).isoformat()
    nothing = ada.post("silences", {"until": until, "reason": "x", "label": "*"}).json()
    assert [(error["pointer"], error["code"]) for error in nothing["errors"]] == [("/rule", "silence_everything")]
    assert (
        ada.post("silences", {"until": "2020-01-01T00:00Z", "reason": "x", "label": "n1"}).json()["errors"][0]["code"]
        == "silence_over"
    )
    made = ada.post("silences", {"rule": alert.rule_id, "until": until, "reason": "known"})
    assert made.status_code == 201 and made.json()["for_all"] is False
    assert (
        root.post("silences", {"severity": "info", "until": until, "reason": "quiet night"}).json()["for_all"] is True
    )
    assert len(ada.get("silences").json()["results"]) == 1 and len(root.get("silences").json()["results"]) == 2
    assert ada.delete(f"silences/{made.json()['id']}").status_code == 204
    assert ada.get("silences").json()["results"] == []


def test_an_admin_keeps_rules_and_what_ships_stays(root, ada):
    made = root.post("alert-rules", HOT)
    assert made.status_code == 201, made.json()
    path = f"alert-rules/{made.json()['id']}"
    assert ada.get(path).json()["text"] == "temperature above 70 °C" and ada.post("alert-rules", HOT).status_code == 403
    assert patch(root, path, {"enabled": False, "for_s": 300}).json()["for_s"] == 300
    refused = patch(root, path, {"threshold": -1, "audience": []}).json()["errors"]
    assert {error["code"] for error in refused} == {"rule_matches_everything", "required"}
    assert root.delete(path).status_code == 204 and root.get(path).status_code == 404
    assert len(root.get("alert-rules").json()["results"]) > 10
    shipped = AlertRule.objects.exclude(code="").first()
    assert root.delete(f"alert-rules/{shipped.pk}").json()["code"] == "shipped_rule"


def test_a_rule_is_tried_with_other_values_and_not_saved(root, ada):
    ada.get("alert-rules")
    hot = AlertRule.objects.get(code="gpu_hot")
    tried = root.post(f"alert-rules/{hot.pk}:backtest", {"days": 7, "threshold": 60}).json()
    assert (tried["fired"], tried["subjects"], tried["firings"]) == (0, 0, [])
    assert AlertRule.objects.get(pk=hot.pk).threshold == 87
    assert root.post(f"alert-rules/{hot.pk}:backtest", {"days": 90}).json()["errors"][0]["code"] == "window_not_kept"
