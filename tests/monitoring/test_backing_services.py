"""Valkey is asked, and mail is judged by what was sent."""

import socket
from datetime import timedelta

import pytest
from django.utils import timezone

from events.models import Notice
from monitoring.backing_services import ValkeyState, ask_valkey, load_mail_state
from scheduler.health.platform_parts import find_service_faults, list_platform_parts

NOW = timezone.now()
HOUR = timedelta(hours=1)


@pytest.fixture
def mail_on(db, settings):
    settings.TESSERA_MAIL = True


def make_mail(**fields) -> Notice:
    return Notice.objects.create(user_id=1, kind="k", object_kind="job", object_id=1, label="l", **fields)


def tones() -> dict[str, str]:
    found = {finding.about: finding.tone for finding in find_service_faults()}
    parts = {part.name.lower(): part.tone for part in list_platform_parts() if part.kind == "service"}
    assert found == parts  # the doctor and the page say the same
    return found


def test_valkey_tells_its_version_and_memory():
    state = ask_valkey()
    assert state.answers and state.version[0].isdigit() and state.used_mib > 0 and state.took_ms is not None


@pytest.mark.django_db
def test_one_that_is_away_is_broken(settings, tmp_path):
    assert tones()["valkey"] == "ok"
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"unix://{tmp_path}/none.sock"}}
    assert not ask_valkey().answers and tones()["valkey"] == "bad"


def test_one_that_is_frozen_is_not_waited_for(settings, tmp_path):
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.bind(str(tmp_path / "frozen.sock"))
        frozen.listen()
        settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"unix://{tmp_path}/frozen.sock"}}
        assert not ask_valkey().answers  # a client without a timeout would never return


def test_a_full_one_is_noted_and_one_without_a_limit_never_full():
    states = [ValkeyState(True, used_mib=used, limit_mib=limit) for used, limit in ((91, 100), (90, 100), (91, 0))]
    assert [state.is_nearly_full for state in states] == [True, False, False]


@pytest.mark.django_db
def test_no_mail_server_is_no_fault(settings):
    settings.TESSERA_MAIL = False
    make_mail(created_at=NOW - HOUR, error="mail_refused", due_at=NOW)
    assert not load_mail_state().is_on and tones()["mail"] == "ok"


@pytest.mark.usefixtures("mail_on")
def test_a_server_that_takes_none_is_broken_until_it_takes_one():
    assert tones()["mail"] == "ok" and load_mail_state().accepted_at is None
    make_mail(created_at=NOW - 3 * HOUR, sent_at=NOW - 3 * HOUR)
    assert tones()["mail"] == "ok"
    failed = make_mail(created_at=NOW - HOUR, error="mail_refused", due_at=NOW)
    assert tones()["mail"] == "bad"
    make_mail(created_at=NOW, sent_at=NOW)
    assert tones()["mail"] == "note" and load_mail_state().accepted_at == NOW
    Notice.objects.filter(pk=failed.pk).update(due_at=None)
    state = load_mail_state()
    assert tones()["mail"] == "ok" and state.failed_of == NOW - HOUR and state.waiting == 0
