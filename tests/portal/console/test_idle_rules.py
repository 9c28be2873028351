"""Idle rules in the console: checked by the service that saves them."""

import pytest

from monitoring.models import IdleRule
from tests import make

pytestmark = pytest.mark.django_db
LIST = "/console/monitoring/idlerule/"


def test_an_admin_sets_a_rule_and_is_told_what_is_wrong(root, auditor):
    asked = {"pool": make.pool("dev").pk, "kind": "batch", "note_min": "30", "act_min": "60", "then": "stop"}
    assert "only after a warning" in root.post(f"{LIST}add/", asked).content.decode()
    assert root.post(f"{LIST}add/", {**asked, "warn_min": "45"}).status_code == 302
    rule = IdleRule.objects.get()
    assert rule.act_min == 60 and auditor.get(f"{LIST}{rule.pk}/change/").status_code == 200
    minutes = {"note_min": "10", "warn_min": "20", "act_min": "30", "then": "stop"}
    assert root.post(f"{LIST}{rule.pk}/change/", minutes).status_code == 302
    assert IdleRule.objects.get().act_min == 30 and IdleRule.objects.get().changed_at > rule.changed_at
    assert root.post(f"{LIST}{rule.pk}/delete/", {"post": "yes"}).status_code == 302 and not IdleRule.objects.exists()
