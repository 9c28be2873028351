"""The webhooks page: made with a secret that is shown once, tried, paused, changed, deleted; a team's for its leads."""

import re

import pytest
from django.db.models.functions import Now

from tests import make
from webhooks.models import Delivery, Webhook

pytestmark = pytest.mark.django_db
AT = "/settings/webhooks/"
HOOK = {"name": "ci", "url": "https://example.com/hook", "topics": ["job.failed"]}


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def sign_in(client, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL

    def as_(person):
        client.force_login(person)
        return client

    return as_


@pytest.fixture
def ada(cast, sign_in):
    return sign_in(cast.ada)


@pytest.fixture
def hook(cast):
    return make.webhook(cast.ada, None, "job.submitted")


def text_of(response) -> str:
    return response.content.decode()


def test_a_webhook_is_made_and_its_secret_shown_once(ada):
    assert "No webhooks yet" in text_of(ada.get(AT))
    made = ada.post(AT, HOOK)
    assert made.status_code == 200 and "no-store" in made["Cache-Control"]
    (secret,) = set(re.findall(r"whsec_[0-9a-f]{64}", text_of(made)))
    row = Webhook.objects.get()
    assert (row.name, row.url, row.topics, row.team_id) == ("ci", HOOK["url"], ["job.failed"], None)
    for path in (AT, f"{AT}{row.pk}/"):
        assert secret not in text_of(ada.get(path)) and "ci" in text_of(ada.get(path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"url": "http://169.254.169.254/latest"}, "field-url"),
        ({"url": "not an address"}, "field-url"),
        ({"topics": ["job.exploded"]}, "field-topics"),
        ({"name": ""}, "field-name"),
    ],
)
def test_what_is_refused_is_said_at_its_field(ada, settings, change, words):
    settings.TESSERA_WEBHOOK_PRIVATE = []
    refused = ada.post(AT, {**HOOK, **change})
    at_field = text_of(refused).partition(f'id="{words}"')[2].partition('<div class="field')[2]
    assert refused.status_code == 400 and at_field.startswith("-error") and not Webhook.objects.exists()


def test_an_empty_form_is_refused_too(ada):
    assert ada.post(AT, {}).status_code == 400


def test_a_test_shows_up_and_is_not_sent_by_one_that_is_paused(ada, hook):
    assert ada.post(f"{AT}{hook.pk}/test").status_code == 302
    shown = text_of(ada.get(f"{AT}{hook.pk}/"))
    assert "The webhook “ci” was tested" in shown and "Waiting" in shown and "every 2s" in shown
    ada.post(f"{AT}{hook.pk}/switch")
    assert "Paused" in text_of(ada.get(AT))
    ada.post(f"{AT}{hook.pk}/test")
    assert Delivery.objects.count() == 1
    assert "This webhook is disabled. Enable it first." in text_of(ada.get(AT))
    ada.post(f"{AT}{hook.pk}/switch", {"enabled": "on"})
    hook.refresh_from_db()
    assert hook.disabled_at is None


def test_a_failing_receiver_is_told_with_its_answer_and_the_next_try(ada, cast, hook):
    job = make.job(cast.ada, pool="dev")
    delivery = Delivery.objects.get()
    Delivery.objects.update(status=500, error="refused", attempts=2, tried_at=Now(), took_ms=31)
    Webhook.objects.update(rests_until="2999-01-01T00:00Z")
    shown = text_of(ada.get(f"{AT}{hook.pk}/"))
    assert "It answered with 500." in shown and job.public_id in shown and "2 tries" in shown and "Failing" in shown
    assert 'datetime="2999-01-01' in shown and "every 2s" not in shown
    Delivery.objects.update(due_at=None)
    assert "Given up" in text_of(ada.get(f"{AT}{hook.pk}/"))
    assert ada.post(f"{AT}{hook.pk}/again/{delivery.pk}").status_code == 302
    assert Delivery.objects.filter(event=delivery.event, due_at__isnull=False).count() == 1
    hook.refresh_from_db()
    assert hook.rests_until is None


def test_one_that_the_platform_switched_off_says_why(ada, hook):
    Webhook.objects.update(disabled_at=Now(), disabled_why="failing")
    shown = text_of(ada.get(f"{AT}{hook.pk}/"))
    assert "Its address gave no good answer for a day." in shown and "Send a test" not in shown


def test_it_is_changed_and_keeps_topics_that_the_form_does_not_offer(ada, cast):
    hook = make.webhook(cast.ada, None, "job.held")
    assert 'value="job.held"' in text_of(ada.get(f"{AT}{hook.pk}/"))
    changed = {"name": "other", "url": HOOK["url"], "topics": ["job.held", "job.failed"]}
    assert ada.post(f"{AT}{hook.pk}/", changed).status_code == 302
    hook.refresh_from_db()
    assert (hook.name, hook.topics) == ("other", ["job.failed", "job.held"])
    assert ada.post(f"{AT}{hook.pk}/", {**changed, "url": "ftp://example.com"}).status_code == 400


def test_a_new_secret_and_the_end(ada, hook):
    shown = ada.post(f"{AT}{hook.pk}/secret")
    assert "whsec_" in text_of(shown) and "whsec_" not in text_of(ada.get(f"{AT}{hook.pk}/"))
    assert ada.post(f"{AT}{hook.pk}/delete").status_code == 302 and not Webhook.objects.exists()


def test_the_state_is_refetched_alone(ada, hook):
    part = ada.get(f"{AT}{hook.pk}/", headers={"HX-Request": "true", "HX-Target": "webhook"})
    assert text_of(part).count("<html") == 0 and 'id="webhook"' in text_of(part)


def test_a_hostile_name_and_address_are_only_text(ada):
    ada.post(AT, {**HOOK, "name": "<img src=x>", "url": "https://example.com/?<script>"})
    for path in (AT, f"{AT}{Webhook.objects.get().pk}/"):
        assert "<img src=x" not in text_of(ada.get(path)) and "<script>" not in text_of(ada.get(path))


def test_a_teams_webhook_is_for_its_leads(cast, sign_in):
    bob = sign_in(cast.bob)
    assert bob.post(AT, {**HOOK, "team": cast.nlp.pk}).status_code == 200
    row = Webhook.objects.get()
    assert row.team_id == cast.nlp.pk and "team nlp:" in text_of(bob.get(AT))
    for person in (cast.ada, cast.eve):
        theirs = sign_in(person)
        assert 'name="team"' not in text_of(theirs.get(AT)) and f"webhook-{row.pk}" not in text_of(theirs.get(AT))
        for what in ("", "test", "switch", "secret", "delete"):
            assert theirs.post(f"{AT}{row.pk}/{what}").status_code == 404
    assert Webhook.objects.get().disabled_at is None


def test_the_list_asks_no_more_for_more_webhooks(ada, cast, django_assert_max_num_queries):
    for number in range(10):
        make.webhook(cast.ada, name=f"hook {number}")
    with django_assert_max_num_queries(13):
        ada.get(AT)


def test_tests_are_counted(ada, hook, monkeypatch):
    monkeypatch.setattr("common.rates.time", lambda: 2_000_000.0)
    assert {ada.post(f"{AT}{hook.pk}/test").status_code for _ in range(60)} == {302}
    assert ada.post(f"{AT}{hook.pk}/test").status_code == 429
