"""The forms that a listing comes in, looking again, and what the shell completes."""

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from cli import following
from cli.completing import MOST
from cli.main import app
from tests.cli_server import a_job, ended

PAGE = {"results": [a_job(2), a_job(1)], "next_cursor": None}


def test_yaml_is_what_the_api_answered(server, tessera):
    server.on("GET /jobs", (200, PAGE))
    assert YAML(typ="safe").load(tessera("ps", "-s", "running", "-o", "yaml").stdout) == PAGE


def test_yaml_keeps_texts_that_look_like_numbers(server, tessera):
    server.on("GET /jobs/job-1/wait", (200, {"text": "1e3", "no": "no", "number": 1}))
    server.on("GET /jobs/job-1", (200, a_job()))
    text = tessera("why", "1", "-o", "yaml").stdout
    assert YAML(typ="safe").load(text) == {"text": "1e3", "no": "no", "number": 1}


def test_a_watch_shows_what_changed_and_survives_a_cut(server, tessera, monkeypatch):
    looks = iter([None, None, KeyboardInterrupt()])
    monkeypatch.setattr(following.time, "sleep", lambda _s: _raise(next(looks)))
    one, two = ({"results": [a_job(n)], "next_cursor": None} for n in (1, 2))
    server.on("GET /jobs", (200, one), (200, one), (200, two))
    result = tessera("ps", "-s", "running", "-o", "name", "--watch")
    assert result.stdout == "job-1\njob-2\n" and result.exit_code == 130


def _raise(error):
    if error:
        raise error


@pytest.fixture
def completed(monkeypatch, capsys):
    """completed("stop", "job-") is what the shell would offer."""

    def ask(*words):
        monkeypatch.setenv("COMP_WORDS", " ".join(["tessera", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setenv("_TESSERA_COMPLETE", "complete_bash")
        with pytest.raises(SystemExit):
            get_command(app).main(args=[], prog_name="tessera")
        return capsys.readouterr().out.split()

    return ask


def test_ids_are_completed_by_what_the_command_takes(server, completed):
    server.on("GET /jobs", (200, {"results": [a_job(12), a_job(11)], "next_cursor": None}))
    assert completed("stop", "job-1") == ["job-12", "job-11"]
    assert "state=queued%2Crunning" in server.asked[-1][1].replace("starting%2C", "")
    assert f"limit={MOST}" in server.asked[-1][1]
    server.on("GET /jobs", (200, {"results": [ended(3)], "next_cursor": None}))
    assert completed("retry", "") == ["job-3"]
    assert "state=succeeded" in server.asked[-1][1]


def test_what_stands_on_the_line_is_not_offered_again(server, completed):
    server.on("GET /jobs", (200, {"results": [a_job(12), a_job(11)], "next_cursor": None}))
    assert completed("stop", "job-12", "job") == ["job-11"]


def test_nothing_is_offered_and_nothing_said_without_a_server(completed, monkeypatch):
    monkeypatch.setenv("TESSERA_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("TESSERA_TOKEN", "tes_ada")
    assert completed("stop", "") == []
