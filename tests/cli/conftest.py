"""A person's terminal, a small HTTP server that does what a test tells it, and the real portal behind real HTTP."""

import threading
from contextlib import ExitStack
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import following
from cli.http import transport
from cli.main import app
from tests import make
from tests.cli_server import Handler, Script
from tests.web_process import running_web

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def terminal(tmp_path, monkeypatch):
    """80 columns, nobody signed in, and no waiting between tries."""
    for name in ("TESSERA_TOKEN", "TESSERA_URL", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(transport, "PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(following, "POLL_S", (0.01,))


@pytest.fixture
def tessera():
    """Runs the command: `tessera("ps", "--all")`, with exit_code, stdout and stderr."""
    runner = CliRunner()

    def run(*args: str, input: str | None = None):
        result = runner.invoke(app, list(args), input=input, prog_name="tessera")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    return run


@pytest.fixture
def server(monkeypatch):
    """The small server, with ada signed in by the environment."""
    http: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.script = Script(f"http://127.0.0.1:{http.server_port}")
    monkeypatch.setenv("TESSERA_URL", http.script.url)
    monkeypatch.setenv("TESSERA_TOKEN", "tes_ada")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield http.script
    http.shutdown()
    thread.join()
    http.server_close()


# --- the real portal ----------------------------------------------------------------------------------------------


class Portal:
    """A web process for all files here that a worker runs in a row: to start one takes two seconds of a processor.

    It ends before tests of other folders, which would find what it writes.
    """

    def __init__(self) -> None:
        self._running, self._url = ExitStack(), ""

    def start(self) -> str:
        if not self._url:
            web = running_web(host="127.0.0.1", TESSERA_APPS_URL="http://*.localhost:8471")
            self._url = self._running.enter_context(web).url
        return self._url

    def end(self) -> None:
        self._url = ""
        self._running.close()


shared_portal = Portal()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    result = yield
    if nextitem is None or HERE not in nextitem.path.parents:
        shared_portal.end()
    return result


@pytest.fixture(scope="session")
def portal_ends(django_db_setup):
    """Before the database of the last test here is dropped."""
    yield
    shared_portal.end()


@pytest.fixture(scope="module")
def web(portal_ends):
    """The address of the portal's own web process."""
    return shared_portal.start()


@pytest.fixture
def portal(web, transactional_db):
    return web


@pytest.fixture
def cast(portal):
    return make.cast()


@pytest.fixture
def ada(portal, cast, tessera):
    """ada at her terminal, signed in."""
    signed_in = tessera("login", portal, "--token-stdin", input=make.token(cast.ada) + "\n")
    assert signed_in.exit_code == 0, signed_in.stderr
    return tessera
