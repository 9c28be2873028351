"""Deliveries are made with their event, for whom it concerns, and signed so that a receiver can tell."""

import hashlib
import hmac
import json

import pytest
from django.db import transaction

from events.models import Event
from events.record_and_publish import SYSTEM, record
from tests import make
from webhooks.models import Delivery, Webhook
from webhooks.signing import build_request, secret_of

pytestmark = pytest.mark.django_db
URL = "https://example.com/hook"


@pytest.fixture
def cast():
    return make.cast()


def hook(person, team=None, *topics, **fields):
    return Webhook.objects.create(
        user_id=person.pk, team_id=team and team.pk, name="ci", url=URL, topics=topics, **fields
    )


def test_an_event_is_queued_for_its_owner_and_its_team_and_for_nobody_else(cast):
    wanted = {hook(cast.ada).pk, hook(cast.bob, cast.nlp).pk}
    for other in (hook(cast.bob), hook(cast.eve), hook(cast.eve, cast.vision)):
        assert other.pk not in wanted
    make.job(cast.ada, pool="dev")
    assert set(Delivery.objects.values_list("webhook", flat=True)) == wanted


def test_topics_narrow_to_a_kind_or_to_one_type(cast):
    kind, one = hook(cast.ada, None, "task"), hook(cast.ada, None, "job.running")
    make.start(make.job(cast.ada, pool="dev"))
    assert {event.kind for event in Event.objects.filter(pk__in=kind.deliveries.values("event"))} == {"task"}
    assert [delivery.event.type for delivery in one.deliveries.all()] == ["job.running"]


def test_a_disabled_webhook_gets_nothing(cast):
    quiet = hook(cast.ada, disabled_at="2026-01-01T00:00Z")
    make.job(cast.ada, pool="dev")
    assert not quiet.deliveries.exists()


def test_what_is_rolled_back_is_never_delivered(cast):
    mine = hook(cast.ada)
    with pytest.raises(RuntimeError), transaction.atomic():
        make.job(cast.ada, pool="dev")
        raise RuntimeError
    assert not mine.deliveries.exists()


def test_a_persons_own_object_reaches_no_team(cast):
    """A webhook row is its maker's: its history is no business of the team's webhooks."""
    team, own = hook(cast.bob, cast.nlp), hook(cast.ada)
    own.team_id = cast.nlp.pk
    record(own, "changed", actor=SYSTEM)
    assert not team.deliveries.exists()


def test_the_envelope_is_a_cloud_event_and_its_signature_holds(cast):
    mine = hook(cast.ada, None, "job.submitted")
    job = make.job(cast.ada, pool="dev")
    body, headers = build_request(mine.deliveries.get())
    sent = json.loads(body)
    assert (sent["specversion"], sent["type"], sent["subject"]) == ("1.0", "tessera.job.submitted", job.public_id)
    assert sent["id"] == str(mine.deliveries.get().event_id) and sent["data"]["kind"] == "job"
    signed = headers["X-Tessera-Timestamp"].encode() + b"." + body
    expected = hmac.new(secret_of(mine).encode(), signed, hashlib.sha256).hexdigest()
    assert headers["X-Tessera-Signature"] == f"sha256={expected}"


def test_no_secret_stands_in_the_row(cast):
    mine = hook(cast.ada)
    assert secret_of(mine).removeprefix("whsec_") not in str(Webhook.objects.values().get())
    assert secret_of(mine) != secret_of(hook(cast.ada))
