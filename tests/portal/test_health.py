import pytest
from django.db import DatabaseError, connection
from django.test import Client


@pytest.fixture
def kubelet():
    """Probes a pod by its address, which is in no list of hosts."""
    return Client(HTTP_HOST="10.244.3.7:8470")


def test_a_probe_is_answered_by_whatever_name_it_calls(kubelet, db):
    for path in ("/livez", "/readyz"):
        answer = kubelet.get(path)
        assert (answer.status_code, answer.json()) == (200, {"ok": True})
    assert kubelet.get("/sign-in/").status_code == 400


def test_it_is_alive_but_not_ready_while_the_database_is_away(kubelet, monkeypatch):
    def away(*_):
        raise DatabaseError("the database is being restarted")

    monkeypatch.setattr(connection, "cursor", away)
    assert kubelet.get("/livez").status_code == 200
    answer = kubelet.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ok": False, "database": "does not answer"})
