"""Webhooks by REST: made, changed, delivered, delivered once more; a team's for its leads, never for the stranger."""

import pytest

from tests import make
from tests.api_client import BASE, Api
from webhooks.models import Delivery, Webhook

pytestmark = pytest.mark.django_db
HOOK = {"name": "ci", "url": "https://example.com/hook", "topics": ["job.failed"]}


def patch(api: Api, path: str, body: dict):
    return api.client.patch(BASE + path, body, content_type="application/json", headers=api.headers)


def test_a_webhook_is_made_and_its_secret_shown_once(ada):
    made = ada.post("webhooks", HOOK)
    shown = made.json()
    assert made.status_code == 201 and shown["secret"].startswith("whsec_") and shown["team"] is None
    assert (shown["enabled"], shown["topics"], shown["user"]) == (True, ["job.failed"], "ada")
    again = ada.get(f"webhooks/{shown['id']}").json()
    assert "secret" not in again and again == {name: shown[name] for name in again}
    assert ada.get("webhooks").json()["results"] == [again]


def test_it_is_changed_switched_off_and_deleted(ada):
    at = f"webhooks/{ada.post('webhooks', HOOK).json()['id']}"
    assert patch(ada, at, {"topics": [], "name": "all"}).json()["topics"] == []
    assert patch(ada, at, {"enabled": False}).json()["disabled_why"] == "by_hand"
    assert patch(ada, at, {"enabled": True}).json()["enabled"] is True
    assert ada.delete(at).status_code == 204 and ada.get(at).status_code == 404


def test_a_new_secret_replaces_the_old(ada):
    made = ada.post("webhooks", HOOK).json()
    assert ada.post(f"webhooks/{made['id']}:new-secret").json()["secret"] != made["secret"]


def test_only_leads_have_a_teams_webhook(ada, bob, eve):
    made = bob.post("webhooks", {**HOOK, "team": "nlp"})
    assert made.json()["team"] == "nlp" and bob.get("webhooks").json()["results"]
    assert ada.post("webhooks", {**HOOK, "team": "nlp"}).status_code == 403
    assert ada.get("webhooks").json()["results"] == []
    assert eve.post("webhooks", {**HOOK, "team": "nlp"}).status_code == 400
    for caller in (ada, eve):
        assert caller.get(f"webhooks/{made.json()['id']}").status_code == 404
        assert caller.delete(f"webhooks/{made.json()['id']}").status_code == 404
        assert patch(caller, f"webhooks/{made.json()['id']}", {"url": "https://evil.example/"}).status_code == 404


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"url": "http://169.254.169.254/latest"}, "/url", "forbidden_address"),
        ({"url": "http://10.0.0.1/"}, "/url", "forbidden_address"),
        ({"url": "ftp://example.com/"}, "/url", "bad_url"),
        ({"topics": ["job failed"]}, "/topics/0", "bad_topic"),
        ({"name": "a\u202eb"}, "/name", "bad_characters"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(ada, settings, change, pointer, code):
    settings.TESSERA_WEBHOOK_PRIVATE = []
    refused = ada.post("webhooks", {**HOOK, **change})
    assert refused.status_code == 400
    assert [(error["pointer"], error["code"]) for error in refused.json()["errors"]] == [(pointer, code)]
    assert "?" not in refused.json()["detail"] and not Webhook.objects.exists()


def test_nobody_has_more_than_twenty(ada, cast):
    for number in range(20):
        make.webhook(cast.ada, name=f"hook {number}")
    refused = ada.post("webhooks", HOOK)
    assert refused.status_code == 409 and refused.json()["params"] == {"what": "webhooks", "used": 20, "limit": 20}


def test_deliveries_are_listed_and_sent_once_more(ada, eve, cast):
    webhook = make.webhook(cast.ada, None, "job")
    job = make.job(cast.ada, pool="dev")
    (shown,) = ada.get(f"webhooks/{webhook.pk}/deliveries").json()["results"]
    assert (shown["object"], shown["type"], shown["state"]) == (job.public_id, "job.submitted", "waiting")
    again = f"webhooks/{webhook.pk}/deliveries/{shown['id']}:redeliver"
    assert eve.post(again).status_code == 404
    assert ada.post(again).status_code == 201
    assert len({delivery.event_id for delivery in Delivery.objects.all()}) == 1 and Delivery.objects.count() == 2


def test_a_test_is_a_delivery_of_its_own_and_refused_while_it_is_off(ada, eve, cast):
    webhook = make.webhook(cast.ada, None, "job.failed")
    at = f"webhooks/{webhook.pk}"
    tested = ada.post(f"{at}:test")
    assert (tested.status_code, tested.json()["type"], tested.json()["state"]) == (201, "webhook.tested", "waiting")
    assert eve.post(f"{at}:test").status_code == 404
    patch(ada, at, {"enabled": False})
    assert ada.post(f"{at}:test").status_code == 409


def test_tests_and_repeats_are_counted(ada, cast, settings):
    settings.TESSERA_RATES = {**settings.TESSERA_RATES, "sends": (1, 3600)}
    at = f"webhooks/{make.webhook(cast.ada).pk}:test"
    assert [ada.post(at).status_code for _ in range(2)] == [201, 429]


def test_a_list_asks_no_more_for_more_webhooks(ada, cast, django_assert_max_num_queries):
    for number in range(10):
        make.webhook(cast.ada, name=f"hook {number}")
    with django_assert_max_num_queries(8):
        assert ada.get("webhooks").json()["results"][0]["user"] == "ada"


def test_a_delivery_is_found_only_at_its_own_webhook(ada, cast):
    first, second = make.webhook(cast.ada, None, "job.submitted"), make.webhook(cast.ada, None, "job.held")
    make.job(cast.ada, pool="dev")
    delivery = first.deliveries.get()
    assert ada.post(f"webhooks/{second.pk}/deliveries/{delivery.pk}:redeliver").status_code == 404


def test_a_token_needs_the_scope(cast):
    assert Api(make.token(cast.ada, "jobs:write")).post("webhooks", HOOK).status_code == 403
