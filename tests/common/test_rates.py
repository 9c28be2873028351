"""Counting how often, where all processes see it."""

import socket
import time
from uuid import uuid4

import pytest

from common import cache_server, rates
from common.errors import TooManyRequests


def test_what_one_process_counts_another_one_sees():
    who = uuid4().hex
    assert rates.count_use("tries", who, limit=2, per_s=10**9).used == 1
    cache_server._server.cache_clear()  # as in another process
    rates.check_rate("tries", who, limit=2, per_s=10**9)
    with pytest.raises(TooManyRequests):
        rates.check_rate("tries", who, limit=2, per_s=10**9)
    assert rates.count_use("others", who, limit=2, per_s=10**9).used == 1


def test_many_limits_are_counted_in_one_question(monkeypatch, settings):
    server, sent = cache_server.cache_server(), []
    ask = server.pipeline
    monkeypatch.setattr(server, "pipeline", lambda **how: sent.append(how) or ask(**how))
    who, limits = uuid4().hex, {"calls": (200, 10**9), "submits": (60, 10**9)}
    for used in (1, 2):
        assert {what: one.used for what, one in rates.count_uses(limits, who).items()} == dict.fromkeys(limits, used)
    assert len(sent) == 2


def test_a_server_that_hangs_holds_nobody_up(settings, caplog):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = {"LOCATION": f"redis://127.0.0.1:{silent.getsockname()[1]}"}
        settings.CACHES = {"default": settings.CACHES["default"] | there}
        began = time.monotonic()
        rates.check_rate("tries", "ada", limit=0, per_s=60)
    assert time.monotonic() - began < 2 and "not counted" in caplog.text
