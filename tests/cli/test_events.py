"""`events`: in words or as lines of JSON, over breaks, until Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli import following
from events.models import Event
from tests import make
from tests.cli_server import chunks, drop

ROOT = Path(__file__).parents[2]
EVENTS = "GET /events"


def message(number: int, name: str, **data) -> bytes:
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(data)}\n\n".encode()


def an_event(number: int, text: str = "The job is running", reason_text: str = "", **also) -> bytes:
    data = {"id": number, "at": "2026-01-01T10:00:00Z", "type": "job.running", "object": "job-1", "actor": "runtime"}
    return message(number, "job.running", text=text, reason_text=reason_text, **{**data, **also})


READY = message(4, "ready", id=4)


def asked_ids(server) -> list[str | None]:
    return [headers.get("Last-Event-ID") for _, _, headers, _ in server.of(EVENTS)]


def test_each_event_is_a_line_in_words(server, tessera):
    server.on(EVENTS, chunks(READY, an_event(5), an_event(6, "The job failed", "It used more memory.")))
    result = tessera("events", "--since", "4", "--topics", "job")
    first, second = result.stdout.splitlines()
    assert result.exit_code == 0 and first.endswith("  job-1      The job is running  (runtime)")
    assert second.endswith("  job-1      The job failed: It used more memory.  (runtime)")
    assert "topics=job" in server.of(EVENTS)[0][1] and "follow=false" in server.of(EVENTS)[0][1]


def test_json_is_an_event_a_line(server, tessera):
    server.on(EVENTS, chunks(READY, an_event(5, "第一"), b": heartbeat\nid: 9\n\n", an_event(10)))
    lines = tessera("events", "--since", "4", "-o", "json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [5, 10] and json.loads(lines[0])["text"] == "第一"
    server.on(EVENTS, chunks(READY, an_event(5)))
    assert tessera("events", "--since", "4", "-o", "name").stdout == "job-1\n"


def test_what_others_wrote_moves_no_terminal(server, tessera):
    server.on(EVENTS, chunks(READY, an_event(5, "\x1b[2J evil\nline")))
    shown = tessera("events", "--since", "4").stdout
    assert "\x1b" not in shown and shown.count("\n") == 1


def test_after_a_break_it_goes_on_behind_the_last_id_and_shows_nothing_twice(server, tessera):
    cut = an_event(7)[:-9]
    server.on(
        EVENTS,
        chunks(READY, an_event(5), cut, whole=False),
        drop,
        (503, {"status": 503, "detail": "Starting."}),
        chunks(message(5, "ready", id=5), b": heartbeat\nid: 6\n\n", whole=False),
        chunks(message(6, "ready", id=6), an_event(7)),
    )
    result = tessera("events", "--since", "4", "-o", "json")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [5, 7], result.stderr
    assert asked_ids(server) == ["4", "5", "5", "5", "6"]


def test_a_place_that_is_too_old_is_said(server, tessera):
    gone = message(90, "reset", id=90, reason="too_old")
    server.on(EVENTS, chunks(gone))
    result = tessera("events", "--since", "4")
    assert (result.exit_code, result.stdout) == (3, "") and "too old): look at everything again." in result.stderr


def test_who_follows_goes_on_after_a_reset(server, tessera, monkeypatch):
    monkeypatch.setattr(following, "GIVE_UP_AFTER_S", 0.05)
    gone = message(90, "reset", id=90, reason="too_old")
    server.on(EVENTS, chunks(gone, an_event(91)), drop)
    result = tessera("events", "-f", "--since", "4", "-o", "json")
    assert [json.loads(line)["type"] for line in result.stdout.splitlines()] == ["reset", "job.running"]
    assert result.exit_code == 6 and asked_ids(server)[1] == "91"


def test_a_platform_that_stays_away_ends_it_and_one_that_never_was_there_at_once(server, tessera, monkeypatch):
    server.on(EVENTS, drop)
    assert tessera("events", "-f").exit_code == 6 and len(server.of(EVENTS)) == 1
    server.on(EVENTS, (403, {"status": 403, "detail": "The token lacks the scope jobs:read."}))
    assert tessera("events", "-f").exit_code == 4


def test_neither_a_place_nor_following_is_a_question(tessera, server):
    assert tessera("events").exit_code == 2 and not server.asked


@pytest.fixture
def following_ada(portal, cast):
    """A real process that follows ada's events."""
    environment = {**os.environ, "TESSERA_URL": portal, "TESSERA_TOKEN": make.token(cast.ada), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "cli", "events", "-f", "--since", "0", "-o", "json"]
    hear_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores them
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, env=environment, text=True, preexec_fn=hear_interrupts)
    yield process
    process.kill()
    process.communicate()


def test_the_real_stream_in_the_words_of_the_history_until_ctrl_c(following_ada, cast):
    job = make.job(cast.ada, pool="dev")
    assert json.loads(following_ada.stdout.readline())["type"] == "user.token_made"
    shown = json.loads(following_ada.stdout.readline())
    assert (shown["object"], shown["text"]) == (job.public_id, "Submitted to pool dev")
    assert shown["id"] == Event.objects.get(verb="submitted").pk
    following_ada.send_signal(signal.SIGINT)
    assert following_ada.wait(20) == 130 and following_ada.stderr.read() == ""


def test_a_reader_that_goes_away_ends_it(following_ada, cast):
    """`tessera events -f | head -1`: a closed pipe is no broken connection."""
    make.job(cast.ada, pool="dev")
    following_ada.stdout.readline()
    following_ada.stdout.close()
    made = threading.Event()
    deadline = time.monotonic() + 20
    while following_ada.poll() is None and time.monotonic() < deadline:
        make.job(cast.ada, pool="dev")
        made.wait(0.5)
    following_ada.stdout = None
    assert following_ada.wait(1) == 1
