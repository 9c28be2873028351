"""Alert rules in the console: listed with what fires, switched, tried on days gone by, checked by the service."""

import pytest
from django.utils import timezone

from monitoring.alerts.backtest import Backtest
from monitoring.models import Alert, AlertRule
from portal.pages.alerts import rules

pytestmark = pytest.mark.django_db
LIST = "/console/alert-rules/"
FIELDS = {
    "name": "warm", "subject": "card", "metric": "temperature_c", "comparison": "above", "threshold": "70",
    "for_s": "60", "clear_for_s": "60", "severity": "warning", "audience": ["admin"], "enabled": "on",
}  # fmt: skip


def test_the_rules_that_ship_are_listed_with_what_fires(root, auditor):
    page = root.get(LIST).content.decode()
    assert "GPU too hot" in page and "temperature at 87 °C or more for 5m" in page and "and none fires." in page
    hot, now = AlertRule.objects.get(code="gpu_hot"), timezone.now()
    Alert.objects.create(rule=hot, subject_id=1, label="n1:0", state="FIRING", since=now, judged_at=now)
    page = auditor.get(LIST).content.decode()
    assert "1 alert<" in page and ", 1 fires now." in page and f"{LIST}new" not in page


def test_a_rule_that_ships_is_switched_and_keeps_what_it_looks_at(root):
    root.get(LIST)
    hot = AlertRule.objects.get(code="gpu_hot")
    assert root.post(f"{LIST}{hot.pk}/switch", {"to": "off"}).status_code == 302
    assert not AlertRule.objects.get(pk=hot.pk).enabled
    assert root.post(f"{LIST}{hot.pk}/switch", {"to": "on"}).status_code == 302
    moved = FIELDS | {"name": "", "metric": "power_w", "threshold": "90"}
    assert root.post(f"{LIST}{hot.pk}/", moved).status_code == 302
    changed = AlertRule.objects.get(pk=hot.pk)
    assert (changed.enabled, changed.metric, changed.threshold) == (True, "temperature_c", 90)
    assert root.post(f"{LIST}{hot.pk}/delete").status_code == 409 and AlertRule.objects.filter(pk=hot.pk).exists()


def test_an_admin_adds_changes_and_deletes_a_rule_and_is_told_at_the_field_what_is_wrong(root):
    refused = root.post(f"{LIST}new", FIELDS | {"threshold": "-1"})
    assert refused.status_code == 400 and "no value is beyond" in refused.content.decode()
    assert root.post(f"{LIST}new", FIELDS).status_code == 302
    row = AlertRule.objects.get(name="warm")
    assert root.post(f"{LIST}{row.pk}/", FIELDS | {"threshold": "75"}).status_code == 302
    row.refresh_from_db()
    assert (row.threshold, row.audience) == (75, ["admin"])
    assert root.post(f"{LIST}{row.pk}/delete").status_code == 302
    assert not AlertRule.objects.filter(name="warm").exists()


def test_a_back_test_saves_nothing_and_says_what_is_kept_of_no_value(root):
    tried = root.post(f"{LIST}new", FIELDS | {"preview": "1"})
    assert "Nothing is known of that time" in tried.content.decode()
    unkept = {"subject": "job", "metric": "waiting_s", "preview": "1"}
    assert "Nothing of this value is kept" in root.post(f"{LIST}new", FIELDS | unkept).content.decode()
    assert not AlertRule.objects.filter(name="warm").exists()


def test_a_back_test_is_told_in_words():
    now = timezone.now()
    found = Backtest(now, now, 60, fired=3, people=1, subjects=8, left_out=2, known=0.5)
    assert rules.describe_backtest(found) == [
        "It would have fired 3 times, for 1 person.",
        "Of 8 subjects, known for 50 % of that time. What was not known fires nothing.",
        "2 more were left out.",
    ]


def test_an_auditor_reads_and_changes_nothing(root, auditor):
    root.get(LIST)
    hot = AlertRule.objects.get(code="gpu_hot")
    for path in ("new", f"{hot.pk}/", f"{hot.pk}/switch", f"{hot.pk}/delete"):
        assert auditor.post(f"{LIST}{path}", FIELDS).status_code == 403
    assert AlertRule.objects.get(pk=hot.pk).enabled
