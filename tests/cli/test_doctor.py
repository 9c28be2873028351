"""`doctor`: what it looks at, and what it ends with."""

import json

import pytest

ME = {"username": "ada", "scopes": ["jobs:read"], "platform_role": "none", "token": None, "teams": []}
NLP = {"name": "nlp", "role": "member"}
ROOM = {"pool": "dev", "free": {"value": 750, "text": "¾"}, "cards_total": 2}


@pytest.fixture
def healthy(server):
    server.on("GET /version", (200, {"version": "0.1.0", "api": "1"}))
    server.on("GET /me", (200, {**ME, "teams": [NLP]}))
    server.on("GET /capacity", (200, {"results": [ROOM]}))
    return server


def test_all_well_is_exit_code_0(healthy, tessera):
    result = tessera("doctor")
    assert result.exit_code == 0 and "BAD" not in result.stdout
    assert "dev ¾ of 2 GPUs free." in result.stdout and "You are ada by TESSERA_TOKEN" in result.stdout


def test_a_wrong_token_is_denied_and_says_where_to_make_one(healthy, tessera):
    healthy.on("GET /me", (401, {"status": 401, "code": "not_signed_in", "detail": "Sign in."}))
    result = tessera("doctor")
    assert result.exit_code == 4 and f"{healthy.url}/settings/tokens" in result.stdout


def test_no_token_is_denied(healthy, tessera, monkeypatch):
    monkeypatch.delenv("TESSERA_TOKEN")
    result = tessera("doctor")
    assert result.exit_code == 4 and f"Run: tessera login {healthy.url}" in result.stdout


def test_a_server_that_is_not_there_is_exit_code_6(tessera, monkeypatch):
    monkeypatch.setenv("TESSERA_URL", "http://127.0.0.1:1")
    result = tessera("doctor")
    assert result.exit_code == 6 and "does not answer" in result.stdout


def test_a_person_without_a_team_cannot_run_anything(healthy, tessera):
    healthy.on("GET /me", (200, ME))
    assert tessera("doctor").exit_code == 4
    assert tessera("doctor", "-o", "name").stdout == "teams\n"


def test_another_version_is_a_note(healthy, tessera):
    healthy.on("GET /version", (200, {"version": "9.9.9", "api": "1"}))
    result = tessera("doctor", "-o", "json")
    tones = {one["about"]: one["tone"] for one in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 0 and tones["server"] == "note"


def test_a_config_that_others_may_read_is_bad(healthy, tessera, monkeypatch, tmp_path):
    file = tmp_path / "config/tessera/config.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    file.chmod(0o644)
    assert f"chmod 600 {file}" in tessera("doctor").stdout


def test_of_the_cluster_each_finding_comes_with_its_remedy(healthy, tessera):
    server = {"about": "server", "tone": "ok", "words": "The API server is v1.34.4.", "remedy": ""}
    rights = {"about": "rights", "tone": "bad", "words": "We may not delete pods.", "remedy": "Apply rights.yaml."}
    healthy.on("GET /findings", (200, {"results": [server]}))
    assert tessera("doctor", "--cluster").exit_code == 0
    healthy.on("GET /findings", (200, {"results": [server, rights]}))
    result = tessera("doctor", "--cluster")
    assert result.exit_code == 6 and "BAD   rights    We may not delete pods. Apply rights.yaml." in result.stdout
    healthy.on("GET /findings", (403, {"status": 403, "code": "not_permitted", "detail": "For admins only."}))
    assert tessera("doctor", "--cluster").exit_code == 4
    assert tessera("doctor").exit_code == 0
