"""Signing in: where the token comes from, where it is kept, and to whom it is sent."""

import json
import stat
from pathlib import Path

import pytest

from cli.failures import Failure
from cli.http.credentials import config_file, normalize_server, read_token

ME = {"username": "ada", "platform_role": "none", "teams": [], "scopes": [], "token": None}


@pytest.fixture
def nobody(server, monkeypatch):
    """The small server, and nobody signed in to it."""
    monkeypatch.delenv("TESSERA_TOKEN")
    server.on("GET /me", (200, ME))
    return server


def test_a_token_is_checked_and_kept_for_its_owner_alone(nobody, tessera):
    result = tessera("login", nobody.url, "--token-stdin", input="tes_secret\n")
    assert result.stdout == f"You are signed in to {nobody.url} as ada.\n"
    file = config_file()
    assert json.loads(file.read_text()) == {"server": nobody.url, "tokens": {nobody.url: "tes_secret"}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]
    assert nobody.asked[0][2]["Authorization"] == "Bearer tes_secret"


def test_a_token_that_the_platform_refuses_is_not_kept(nobody, tessera):
    nobody.on("GET /me", (401, {"status": 401, "code": "bad_token", "detail": "This token is unknown."}))
    result = tessera("login", nobody.url, "--token-stdin", input="tes_wrong\n")
    assert result.exit_code == 4 and result.stderr.startswith("This token is unknown.\nMake one at ")
    assert not config_file().exists() and "tes_wrong" not in result.output


@pytest.mark.parametrize("text", ["", "\n", "tes_a b", "tes_\x1b[2J", "tes_ü"])
def test_what_is_no_token_is_not_sent(nobody, tessera, text):
    assert tessera("login", nobody.url, "--token-stdin", input=text).exit_code == 2
    assert not nobody.asked


def test_without_a_terminal_nothing_is_asked(nobody, tessera):
    result = tessera("login", nobody.url, input="tes_secret\n")
    assert result.exit_code == 2 and "--token-stdin" in result.stderr


def test_the_environment_signs_in_without_a_question(nobody, tessera, monkeypatch):
    monkeypatch.setenv("TESSERA_TOKEN", "tes_ci")
    assert tessera("login", nobody.url).exit_code == 0
    assert read_token(nobody.url) == "tes_ci"


def test_a_token_is_never_sent_to_another_server(nobody, tessera, monkeypatch):
    tessera("login", "http://127.0.0.1:1", "--token-stdin", input="tes_secret\n")
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(json.dumps({"server": "http://one", "tokens": {"http://one": "tes_one"}}))
    result = tessera("--server", nobody.url, "ps")
    assert (result.exit_code, nobody.asked) == (4, [])
    assert result.stderr == f"You are not signed in to {nobody.url}. Run: tessera login {nobody.url}\n"


def test_logout_forgets_it(nobody, tessera):
    tessera("login", nobody.url, "--token-stdin", input="tes_secret\n")
    assert tessera("logout").exit_code == 0
    assert "tes_secret" not in config_file().read_text() and tessera("ps").exit_code == 4
    assert "There was no token" in tessera("logout").stderr


def test_a_damaged_file_is_said_with_its_remedy(nobody, tessera):
    Path(config_file()).parent.mkdir(parents=True)
    config_file().write_text("{")
    result = tessera("ps")
    assert result.exit_code == 2 and "is damaged. Remove it, and run: tessera login" in result.stderr


@pytest.mark.parametrize(
    ("text", "tidy"),
    [("localhost:8470/", "http://localhost:8470"), ("https://GPU.example", "https://gpu.example"),
     ("http://h/api/v1/", "http://h"), ("http://[::1]:8470", "http://[::1]:8470"), ("https://h/tessera", "https://h/tessera")],
)  # fmt: skip
def test_an_address_is_tidied(text, tidy):
    assert normalize_server(text) == tidy


@pytest.mark.parametrize("text", ["", "ftp://h", "http://", "http://ada:pw@h", "http://h:port", "http://[::1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(Failure):
        normalize_server(text)
