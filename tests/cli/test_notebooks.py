"""`nb` and `open`: notebooks by their names."""

import json

import pytest


def a_notebook(state="stopped", **also):
    return {
        "id": "nb-5",
        "name": "explore",
        "state": state,
        "spec": {"gpu": "1/4"},
        "folder": "notebooks/explore",
        "stops_at": None,
        "opened_at": None,
        **also,
    }


@pytest.fixture
def here(server):
    server.on("GET /notebooks", (200, {"results": [a_notebook()], "next_cursor": None}))
    server.on("POST /notebooks/nb-5:start", (200, a_notebook("queued")))
    server.on("POST /notebooks", (201, a_notebook()))
    return server


def test_they_are_listed_by_name(here, tessera):
    assert tessera("nb", "ls", "-o", "name").stdout == "explore\n"
    assert tessera("nb", "ls").stdout.splitlines()[1].split() == ["nb-5", "explore", "stopped", "1/4", "–", "–"]


@pytest.mark.parametrize("name", ["explore", "nb-5"])
def test_one_is_started_by_name_or_id(here, tessera, name):
    assert tessera("nb", "start", name).stdout == "explore (nb-5) is queued.\n"
    assert not here.of("POST /notebooks")


def test_one_that_is_not_there_is_made(here, tessera):
    assert tessera("nb", "start", "fresh", "-g", "1/4").exit_code == 0
    assert here.of("POST /notebooks")[0][3] == b'{"name": "fresh", "gpu": "1/4", "start": true}'


def test_one_is_told_which_secrets_it_gets(here, tessera):
    secrets = ["--secret", "HUB", "--secret", "KEY:file"]
    said = {"secrets": {"HUB": "variable", "KEY": "file"}}
    assert tessera("nb", "start", "fresh", *secrets).exit_code == 0
    assert json.loads(here.of("POST /notebooks")[0][3]) == {"name": "fresh", "gpu": "0", "start": True, **said}
    here.on("PATCH /notebooks/nb-5", (200, a_notebook()))
    assert tessera("nb", "start", "explore", *secrets).stdout == "explore (nb-5) is queued.\n"
    assert json.loads(here.of("PATCH /notebooks/nb-5")[0][3]) == said


def test_one_is_renamed(here, tessera):
    here.on("PATCH /notebooks/nb-5", (200, a_notebook(name="lab")))
    said = tessera("nb", "rename", "explore", "lab").stdout
    assert said == "explore is lab now (nb-5); its files stay in ~/notebooks/explore.\n"
    assert here.of("PATCH /notebooks/nb-5")[0][3] == b'{"name": "lab"}'
    assert tessera("nb", "rename", "none", "lab").exit_code == 3


def test_waiting_until_it_is_ready_or_has_failed(here, tessera, monkeypatch):
    monkeypatch.setattr("cli.following.WATCH_S", 0)
    here.on("GET /notebooks/nb-5", (200, a_notebook("starting")), (200, a_notebook("running")))
    assert tessera("nb", "start", "explore", "--wait").stdout == "explore (nb-5) is running.\n"
    here.on("GET /notebooks/nb-5", (200, a_notebook("failed")))
    assert tessera("nb", "start", "explore", "--wait").exit_code == 1
    here.on("GET /notebooks/nb-5", (200, a_notebook("queued")))
    assert tessera("nb", "start", "explore", "--wait", "--timeout", "0s").exit_code == 5


PREPARING = {
    "status": 503,
    "code": "notebooks_preparing",
    "detail": "The environment for notebooks is still being prepared.",
    "params": {"step": "installing", "retry_after_s": 60},
}


def preparing(handler):
    body = json.dumps(PREPARING).encode()
    handler.send_response(503)
    handler.send_header("Retry-After", "60")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def test_one_whose_environment_is_being_prepared_is_refused_at_once_and_told_how_to_wait(here, tessera):
    here.on("POST /notebooks/nb-5:start", preparing)
    told = tessera("nb", "start", "explore")
    assert told.exit_code == 6 and "--wait" in told.stderr and PREPARING["detail"] in told.stderr
    assert len(here.of("POST /notebooks/nb-5:start")) == 1


def test_waiting_begins_before_its_environment_is_there(here, tessera, monkeypatch):
    monkeypatch.setattr("cli.following.WATCH_S", 0)
    here.on("POST /notebooks/nb-5:start", preparing, preparing, (200, a_notebook("queued")))
    here.on("GET /notebooks/nb-5", (200, a_notebook("running")))
    told = tessera("nb", "start", "explore", "--wait")
    assert (told.exit_code, told.stdout) == (0, "explore (nb-5) is running.\n")
    line = "explore is waiting for JupyterLab, which the platform still prepares (installing).\n"
    assert told.stderr.count(line) == 1, "said once, however often it is asked"
    keys = {headers["Idempotency-Key"] for _, _, headers, _ in here.of("POST /notebooks/nb-5:start")}
    assert len(keys) == 1
    here.on("POST /notebooks/nb-5:start", preparing)
    assert tessera("nb", "start", "explore", "--wait", "--timeout", "0s").exit_code == 5


@pytest.mark.parametrize(("state", "told"), [("running", "being stopped"), ("stopped", "stopped")])
def test_stopping_says_what_it_comes_to(here, tessera, state, told):
    here.on("POST /notebooks/nb-5:stop", (200, a_notebook(state)))
    assert tessera("nb", "stop", "explore").stdout == f"explore (nb-5) is {told}.\n"


def test_opening_says_the_address(here, tessera):
    assert tessera("open", "explore").stdout == f"{here.url}/n/nb-5/open\n"
    assert tessera("open", "explore", "--in", "vscode").stdout == "vscode://vscode-remote/ssh-remote+explore/\n"
    assert tessera("open", "none").exit_code == 3
