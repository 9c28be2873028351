"""The console's page of alert rules."""

import pytest

from monitoring.models import AlertRule

pytestmark = pytest.mark.django_db
LIST = "/console/monitoring/alertrule/"
FIELDS = {
    "name": "warm", "subject": "card", "metric": "temperature_c", "comparison": "above", "threshold": "70",
    "for_s": "60", "clear_for_s": "60", "severity": "warning", "audience": ["admin"], "enabled": "on",
}  # fmt: skip


def test_the_rules_that_ship_are_listed_switched_and_tried(root, auditor):
    page = root.get(LIST).content.decode()
    assert "GPU too hot" in page and "temperature at 87 °C or more for 5 min" in page.replace("5m", "5 min")
    hot = AlertRule.objects.get(code="gpu_hot")
    assert root.post(LIST, {"action": "switch_off", "_selected_action": [hot.pk]}).status_code == 302
    assert not AlertRule.objects.get(pk=hot.pk).enabled
    for browser in (root, auditor):
        tried = browser.get(f"{LIST}{hot.pk}/backtest/").content.decode()
        assert "Nothing is known of that time" in tried
        assert "kept for 60 days" in browser.get(f"{LIST}{hot.pk}/backtest/?days=400").content.decode()
        assert browser.get(f"{LIST}{hot.pk}/change/").status_code == 200


def test_an_admin_adds_a_rule_and_is_told_at_the_field_what_is_wrong(root):
    assert "no value is beyond" in root.post(f"{LIST}add/", {**FIELDS, "threshold": "-1"}).content.decode()
    assert root.post(f"{LIST}add/", FIELDS).status_code == 302
    row = AlertRule.objects.get(name="warm")
    change = f"{LIST}{row.pk}/change/"
    assert root.post(change, {**FIELDS, "threshold": "75"}).status_code == 302
    row.refresh_from_db()
    assert (row.threshold, row.audience) == (75, ["admin"])
    assert root.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not AlertRule.objects.filter(name="warm").exists()
