"""Idle rules in the console: listed in words, tried before they are saved, checked by the service that saves them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from events.models import Event
from monitoring.idle.preview import Preview
from monitoring.models import IdleRule
from portal.pages.idle import rules
from tests import make

pytestmark = pytest.mark.django_db
LIST = "/console/idle-rules/"
STOPS = {"kind": "batch", "note_min": "30", "warn_min": "45", "act_min": "60", "then": "stop"}


def test_defaults_are_listed_until_somebody_sets_a_rule(root, auditor):
    page = root.get(LIST).content.decode()
    assert "The rules that ship hold in all pools." in page and "notice after 30 min, warning after 45 min" in page
    assert f"{LIST}new?kind=interactive" in page and f"{LIST}new" not in auditor.get(LIST).content.decode()
    rule = IdleRule.objects.create(pool=make.pool("dev"), note_min=12)
    page = root.get(LIST).content.decode()
    assert "1 rule is set." in page and "notice after 12 min" in page and f"{LIST}{rule.pk}/" in page


def test_an_admin_sets_changes_and_deletes_a_rule_and_is_told_what_is_wrong(root):
    asked = STOPS | {"pool": make.pool("dev").pk}
    refused = root.post(f"{LIST}new", asked | {"warn_min": ""})
    assert refused.status_code == 400 and "only after a warning" in refused.content.decode()
    assert root.post(f"{LIST}new", asked).status_code == 302
    rule = IdleRule.objects.get()
    twice = root.post(f"{LIST}new", asked | {"act_min": "90"})
    assert "There is such a rule already" in twice.content.decode() and IdleRule.objects.get().act_min == 60
    moved = {"pool": make.pool("train").pk, "note_min": "10", "warn_min": "20", "act_min": "30", "then": "stop"}
    assert root.post(f"{LIST}{rule.pk}/", moved).status_code == 302
    changed = IdleRule.objects.get()
    assert (changed.pool, changed.kind, changed.act_min) == (rule.pool, "batch", 30)
    assert changed.changed_at > rule.changed_at
    assert root.post(f"{LIST}{rule.pk}/delete").status_code == 302 and not IdleRule.objects.exists()
    assert [one.verb for one in Event.objects.filter(kind="idle_rule").order_by("id")] == [
        "made", "changed", "deleted",
    ]  # fmt: skip
    assert root.get(LIST).content.decode().count("dev:batch") == 3


def test_a_preview_says_what_a_rule_would_have_done_and_saves_nothing(root):
    page = root.post(f"{LIST}new", STOPS | {"preview": "1"}).content.decode()
    assert "With this rule 0 jobs would have been noted." in page and not IdleRule.objects.exists()
    assert 'value="45"' in page
    refused = root.post(f"{LIST}new", STOPS | {"preview": "1", "warn_min": ""})
    assert refused.status_code == 400 and "only after a warning" in refused.content.decode()


def test_a_preview_is_told_in_words():
    found = Preview(12, 5, 2, 4.5, 1, 1, timezone.now() - timedelta(days=1), complete=False)
    assert " ".join(rules.describe_preview(found)) == (
        "12 jobs that held cards were looked at. It would have acted on 2 of them, of 1 person. "
        "Returned: 4.5 GPU hours. 1 worked again within 15 minutes. Only the newest jobs were looked at."
    )


def test_an_auditor_reads_and_changes_nothing(auditor):
    rule = IdleRule.objects.create(kind="batch")
    for path in (f"{LIST}new", f"{LIST}{rule.pk}/", f"{LIST}{rule.pk}/delete"):
        assert auditor.post(path, STOPS).status_code == 403
    assert IdleRule.objects.get().note_min == 30
