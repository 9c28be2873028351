"""How the agent enrols and reports: over real HTTP, to a small server that answers as the test says."""

import base64
import json
import re
import signal
import stat
import tomllib
from pathlib import Path

import pytest

from agent.client import Platform
from agent.daemon.loop import LONGEST_S, compute_backoff
from agent.daemon.report import VERSION
from tests.cli_server import drop
from tests.kubelet_logs import LogFolder
from tests.runtimes import worlds

ROOT = Path(__file__).resolve().parents[2]
REPORT = "POST /agents/g1:report"
ENROL = "POST /agents:enrol"
LOGS = "POST /agents/g1:logs"
GOOD = (200, {"held_back": [], "next_in_s": 5})
REVOKED = (401, {"code": "bad_agent_key", "detail": "This agent key is unknown or was revoked."})
USED = (403, {"code": "enrolment_used", "detail": "This enrolment token of g1 was used by another key."})


def once(machine, script, token: str = "ten_word"):
    return machine.run("--server", script.url, "--once", TESSERA_AGENT_TOKEN=token)


def bodies(script, what: str) -> list[dict]:
    return [json.loads(body) for *_, body in script.of(what)]


def test_the_version_is_the_platforms():
    for path in ("pyproject.toml", "agent/pyproject.toml"):
        assert tomllib.loads((ROOT / path).read_text())["project"]["version"] == VERSION


def test_an_agent_makes_its_key_enrols_and_reports(machine, script):
    assert once(machine, script).returncode == 0
    (asked,) = bodies(script, ENROL)
    assert asked["token"] == "ten_word" and re.fullmatch(r"tag_[A-Za-z0-9_-]{43}", asked["key"])
    ((_, _, headers, body),) = script.of(REPORT)
    assert headers["Authorization"] == f"Bearer {asked['key']}" and len(json.loads(body)["gpus"]) == 8
    assert stat.S_IMODE((machine.state / "identity.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(machine.state.stat().st_mode) == 0o700


def test_where_it_only_brings_logs_it_is_let_in_and_reports_nothing(machine, script):
    done = machine.run("--server", script.url, "--once", "--no-cards", TESSERA_AGENT_TOKEN="ten_word")
    assert done.returncode == 0, done.stderr
    assert len(script.of(ENROL)) == 1 and script.of(REPORT) == []


def test_a_process_brings_logs_beside_its_reports(machine, script, tmp_path):
    task = "a" * 32
    LogFolder(tmp_path / "pods", task).write("one")
    pace = {"most_bytes": 1 << 24, "pause_s": 0.05, "ask_every_s": 0.05}
    known = {"task": task, "state": "open", "size": 0}
    script.on(LOGS, (200, {"logs": [known], **pace}))
    machine.start("--server", script.url, "--pods", str(tmp_path / "pods"), TESSERA_AGENT_TOKEN="ten_word")
    worlds.wait_for(lambda: any(said["logs"][0]["content"] for said in bodies(script, LOGS)))
    said = next(said["logs"][0] for said in bodies(script, LOGS) if said["logs"][0]["content"])
    assert (said["task"], said["offset"], base64.b64decode(said["content"])) == (task, 0, b"one\n")
    worlds.wait_for(lambda: script.of(REPORT))  # the logs may come first
    assert len(script.of(REPORT)) == 1


def test_it_is_enrolled_once_and_needs_no_token_then(machine, script):
    once(machine, script)
    assert once(machine, script, token="").returncode == 0 and len(script.of(ENROL)) == 1


def test_an_answer_that_was_lost_is_asked_for_again_with_the_same_key(machine, script):
    script.on(ENROL, drop, (200, {"node": "g1"}))
    assert once(machine, script).returncode == 6
    assert once(machine, script).returncode == 0
    first, second = bodies(script, ENROL)
    assert first == second


def test_without_a_token_it_says_what_to_do(machine, script):
    done = once(machine, script, token="")
    assert done.returncode == 4 and "tessera agent add" in done.stderr and script.asked == []


def test_a_refusal_is_told_in_the_platforms_words(machine, script):
    script.on(ENROL, USED)
    done = once(machine, script)
    assert done.returncode == 4 and USED[1]["detail"] in done.stderr and "Traceback" not in done.stderr


def test_a_revoked_agent_enrols_again_with_another_key_where_it_has_a_new_token(machine, script):
    once(machine, script)
    script.on(REPORT, REVOKED, GOOD)
    assert once(machine, script, token="ten_new").returncode == 0
    first, second = bodies(script, ENROL)
    assert second["token"] == "ten_new" and second["key"] != first["key"]
    script.on(REPORT, REVOKED)
    assert once(machine, script, token="").returncode == 4


def test_another_platform_gets_another_key(machine, script):
    once(machine, script)
    other = script.url.replace("127.0.0.1", "localhost")
    machine.run("--server", other, "--once", TESSERA_AGENT_TOKEN="ten_other")
    first, second = bodies(script, ENROL)
    assert first["key"] != second["key"]


@pytest.mark.parametrize(
    "answer", [(503, {"detail": "later"}), (429, {"detail": "slowly"}), (200, b"<html>"), (200, b"[]"), drop]
)
def test_a_platform_that_does_not_answer_now_is_away(machine, script, answer):
    script.on(REPORT, answer)
    done = once(machine, script)
    assert done.returncode == 6 and "Traceback" not in done.stderr


def test_the_pauses_grow_and_end():
    assert [compute_backoff(n) for n in (1, 2, 3, 4)] == [2, 4, 8, 16]
    assert compute_backoff(9) == LONGEST_S == compute_backoff(10_000)


@pytest.mark.parametrize("server", ["tessera.example.net", "ftp://portal", "https://", ""])
def test_an_address_that_is_none_is_refused_at_once(server):
    with pytest.raises(ValueError, match="is no address"):
        Platform(server)


@pytest.mark.timeout(60)
def test_a_critical_error_is_reported_at_once_and_an_error_of_a_program_not(machine, script):
    script.on(REPORT, (200, {"held_back": [], "next_in_s": 600}))
    agent = machine.start("--server", script.url, TESSERA_AGENT_TOKEN="ten_word")
    wait_for(script, 1)
    machine.cards("xid 2 31", "xid 5 79")
    wait_for(script, 2)
    said = bodies(script, REPORT)[1]
    assert [(gpu["index"], "XID 79" in gpu["fault"]) for gpu in said["gpus"] if gpu["fault"]] == [(5, True)]
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(10) == 0 and "GPU 5: " in agent.stderr.read()
    machine.cards()
    assert [gpu["index"] for gpu in machine.show()["gpus"] if gpu["fault"]] == [5]  # also after a new start


@pytest.mark.timeout(60)
def test_it_goes_on_when_the_platform_comes_back_and_ends_when_it_is_told(machine, script):
    script.on(REPORT, (503, {"detail": "later"}), GOOD)
    agent = machine.start("--server", script.url, TESSERA_AGENT_TOKEN="ten_word")
    wait_for(script, 2)
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(10) == 0 and "next try in about" in agent.stderr.read()


@pytest.mark.timeout(60)
def test_without_a_driver_it_reports_too(bare, script):
    agent = bare.start("--server", script.url, TESSERA_AGENT_TOKEN="ten_word")
    wait_for(script, 1)
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(10) == 0 and bodies(script, REPORT)[0]["gpus"] == []


def wait_for(script, reports: int) -> None:
    """The test's own time limit ends this."""
    while len(script.of(REPORT)) < reports:
        script.came.wait(1)
        script.came.clear()
