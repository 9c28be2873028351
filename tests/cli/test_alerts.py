"""`tessera alerts` against the real portal."""

import json

from tests import make


def test_alerts_are_listed_acknowledged_and_silenced(portal, cast, tessera):
    tessera("login", portal, "--token-stdin", input=make.token(cast.ada) + "\n")
    assert "Nothing fires." in tessera("alerts", "ls").stderr + tessera("alerts", "ls").stdout
    alert = make.alert("low_activity", "job-412", value=3.5, owners=[cast.ada.pk], teams=[cast.nlp.pk])
    name = f"alert-{alert.pk}"
    listed = tessera("alerts", "ls")
    assert name in listed.stdout and "3.5 %" in listed.stdout and "job-412" in listed.stdout
    assert "acknowledged by ada" in tessera("alerts", "ack", name).stdout
    silenced = tessera("alerts", "silence", str(alert.pk), "--why", "a known bug", "--for", "4h", "-o", "json")
    assert json.loads(silenced.stdout)["reason"] == "a known bug"
    assert tessera("alerts", "ack", "job-1").exit_code == 3 and tessera("alerts", "ack", "99").exit_code == 3


def test_an_alert_is_named_by_its_rule_or_by_what_it_is_about(portal, cast, tessera):
    tessera("login", portal, "--token-stdin", input=make.token(cast.ada) + "\n")
    first, second = (
        make.alert("low_activity", label, owners=[cast.ada.pk], teams=[cast.nlp.pk]) for label in ("job-7", "job-8")
    )
    refused = tessera("alerts", "ack", "low_activity")
    assert refused.exit_code == 2 and f"alert-{first.pk}, " in refused.stderr and ", job-8" in refused.stderr
    assert json.loads(tessera("alerts", "ack", "job-8", "-o", "json").stdout)["id"] == second.pk
    first.delete()
    silenced = tessera("alerts", "silence", str(second.rule), "--why", "a known bug", "-o", "json")
    assert json.loads(silenced.stdout)["label"] == "job-8", silenced.stderr
