import socket
from threading import active_count
from time import monotonic

import pytest
from django.db import connections
from django.test import Client

from portal import health

AWAY = {"ok": False, "database": "does not answer"}


@pytest.fixture
def kubelet(monkeypatch):
    """Probes a pod by its address, which is in no list of hosts."""
    monkeypatch.setattr(health, "database_probe", health.DatabaseProbe())
    return Client(HTTP_HOST="10.244.3.7:8470")


@pytest.fixture
def frozen(monkeypatch):
    """A database that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setitem(connections.settings["default"], "HOST", "127.0.0.1")
        monkeypatch.setitem(connections.settings["default"], "PORT", str(silent.getsockname()[1]))
        yield silent


def test_a_probe_is_answered_by_whatever_name_it_calls(kubelet, transactional_db):
    for path in ("/livez", "/readyz"):
        answer = kubelet.get(path)
        assert (answer.status_code, answer.json()) == (200, {"ok": True})
    assert kubelet.get("/sign-in/").status_code == 400


def test_it_is_alive_but_not_ready_while_the_database_is_away(kubelet, monkeypatch):
    monkeypatch.setitem(connections.settings["default"], "HOST", "/nowhere")
    assert kubelet.get("/livez").status_code == 200
    answer = kubelet.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, AWAY)


def test_a_frozen_database_holds_no_probe_and_one_thread(kubelet, frozen, monkeypatch, transactional_db):
    began, threads = monotonic(), active_count()
    assert kubelet.get("/readyz").status_code == 503
    assert monotonic() - began < 5
    monkeypatch.setattr(health, "PROBE_S", 0.01)
    assert [kubelet.get("/readyz").status_code for _ in range(5)] == [503] * 5
    assert active_count() == threads + 1
    frozen.close()  # its end frees who waits
    monkeypatch.undo()
    monkeypatch.setattr(health, "PROBE_AGAIN_S", 0)
    assert kubelet.get("/readyz").status_code == 200
