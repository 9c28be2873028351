"""One message asks a loop to look, however many want that before it does."""

import time

import pytest
from celery import current_app

from events import bus


@pytest.fixture
def sent(monkeypatch):
    found: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, **_: found.append(name.rpartition(".")[2]))
    bus.clear_hint("cycle")
    bus.clear_hint("reconcile")
    return found


def test_all_who_ask_before_it_looks_are_one_message(sent):
    for loop in ("cycle", "cycle", "reconcile", "cycle"):
        bus.request_run(loop)
    assert sent == ["cycle", "reconcile"]


def test_who_asks_after_it_began_to_look_is_heard_anew(sent):
    bus.request_run("cycle")
    bus.clear_hint("cycle")
    bus.request_run("cycle")
    assert sent == ["cycle", "cycle"]


def test_a_message_that_was_lost_holds_up_nobody_for_long(sent, monkeypatch):
    monkeypatch.setattr(bus, "HINT_WAITS_S", 0.01)
    bus.request_run("cycle")
    time.sleep(0.05)
    bus.request_run("cycle")
    assert sent == ["cycle", "cycle"]


def test_without_the_cache_everybody_asks(sent, settings):
    settings.CACHES = {"default": {"BACKEND": "x", "LOCATION": "unix:///nowhere/valkey.sock"}}
    bus.request_run("cycle")
    bus.clear_hint("cycle")
    bus.request_run("cycle")
    assert sent == ["cycle", "cycle"]
