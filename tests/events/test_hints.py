"""One message asks a loop to look, however many want that before it does."""

import time

import pytest
from celery import current_app

from events import record_and_publish


@pytest.fixture
def sent(monkeypatch):
    found: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, **_: found.append(name.rpartition(".")[2]))
    record_and_publish.clear_hint("cycle")
    record_and_publish.clear_hint("reconcile")
    return found


def test_all_who_ask_before_it_looks_are_one_message(sent):
    for loop in ("cycle", "cycle", "reconcile", "cycle"):
        record_and_publish.request_run(loop)
    assert sent == ["cycle", "reconcile"]


def test_who_asks_after_it_began_to_look_is_heard_anew(sent):
    record_and_publish.request_run("cycle")
    record_and_publish.clear_hint("cycle")
    record_and_publish.request_run("cycle")
    assert sent == ["cycle", "cycle"]


def test_a_message_that_was_lost_holds_up_nobody_for_long(sent, monkeypatch):
    monkeypatch.setattr(record_and_publish, "HINT_WAITS_S", 0.01)
    record_and_publish.request_run("cycle")
    time.sleep(0.05)
    record_and_publish.request_run("cycle")
    assert sent == ["cycle", "cycle"]


def test_without_the_cache_everybody_asks(sent, settings):
    settings.CACHES = {"default": {"BACKEND": "x", "LOCATION": "unix:///nowhere/valkey.sock"}}
    record_and_publish.request_run("cycle")
    record_and_publish.clear_hint("cycle")
    record_and_publish.request_run("cycle")
    assert sent == ["cycle", "cycle"]
