"""Requests over a network that fails: what is sent again, what is not, and what people are told."""

import json
import socket

import pytest

from cli.http.credentials import store_token
from tests.cli_server import a_job, drop, ended

PROBLEM = {
    "status": 422, "code": "impossible", "detail": "It can never run.",
    "errors": [{"pointer": "/gpu", "code": "too_large", "detail": "no node has 9 GPUs."},
               {"pointer": "/env/A~1B", "code": "bad", "detail": "it is no name."}],
    "hints": [{"action": "set", "pointer": "/gpu", "value": "1/2"}],
}  # fmt: skip


def keys(server) -> list[str]:
    return [headers["Idempotency-Key"] for _, _, headers, _ in server.of("POST /jobs")]


def test_a_submit_whose_connection_drops_is_sent_again_under_the_same_key(server, tessera):
    server.on("POST /jobs", drop, drop, drop, (201, a_job()))
    result = tessera("run", "-q", "true")
    assert (result.exit_code, result.stdout) == (0, "job-1\n")
    assert len(keys(server)) == 4 and len(set(keys(server))) == 1


def test_a_submit_is_given_up_after_the_third_further_try(server, tessera):
    server.on("POST /jobs", drop)
    result = tessera("run", "true")
    assert (result.exit_code, len(keys(server))) == (6, 4)
    assert "may have been done all the same" in result.stderr


def test_two_submits_have_two_keys(server, tessera):
    server.on("POST /jobs", (201, a_job()))
    tessera("run", "true")
    tessera("run", "true")
    assert len(set(keys(server))) == 2


def test_a_busy_server_is_asked_again(server, tessera):
    server.on("GET /jobs/job-1", (503, {"status": 503, "detail": "Later."}), (200, ended()))
    assert tessera("why", "1").exit_code == 0
    assert len(server.of("GET /jobs/job-1")) == 2


def test_a_platform_that_stays_busy_is_told_of_in_one_line(server, tessera):
    server.on("GET /jobs/job-1", (503, {"status": 503, "code": "database_away", "detail": "It does not answer."}))
    result = tessera("why", "1")
    assert result.exit_code == 6 and result.stderr.count("trying again") == 1
    assert result.stderr.splitlines()[1:] == ["It does not answer."]


def test_who_waits_for_a_job_bears_a_platform_that_is_busy_for_a_while(server, tessera):
    server.on("POST /jobs", (201, a_job()))
    away = (503, {"status": 503, "code": "database_away", "detail": "It does not answer."})
    server.on("GET /jobs/job-1", *6 * [away], (200, ended()))
    result = tessera("run", "--wait", "end", "true")
    assert result.exit_code == 0 and len(server.of("GET /jobs/job-1")) == 7


def test_a_retry_is_not_sent_twice(server, tessera):
    server.on("POST /jobs/job-1:retry", drop, (200, a_job(state="queued")))
    result = tessera("retry", "job-1")
    assert (result.exit_code, len(server.of("POST /jobs/job-1:retry"))) == (6, 1)


def test_a_stop_may_be_sent_twice(server, tessera):
    server.on("POST /jobs/job-1:stop", drop, (200, a_job(state="cancelled")))
    assert tessera("stop", "job-1").stdout == "job-1 is cancelled.\n"


def test_a_server_that_is_not_there_is_said_at_once(tessera, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("TESSERA_TOKEN", "tes_ada")
    result = tessera("--server", f"localhost:{port}", "ps")
    assert result.exit_code == 6
    assert result.stderr.startswith(f"http://localhost:{port} does not answer (") and result.stderr.count("\n") == 1


def test_a_refusal_is_one_line_for_each_field_with_what_would_do(server, tessera):
    server.on("POST /jobs", (422, PROBLEM))
    result = tessera("run", "-g", "9", "true")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "gpu: no node has 9 GPUs. (try: gpu: 1/2)\nenv.A/B: it is no name.\n"


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [(400, "bad_request", 2), (401, "not_signed_in", 4), (403, "not_permitted", 4), (404, "not_found", 3),
     (409, "only_ended_jobs", 2), (409, "user_limit", 4), (422, "impossible", 2), (429, "too_many_requests", 6),
     (500, "internal", 6)],
)  # fmt: skip
def test_every_refusal_has_its_exit_code(server, tessera, status, code, exit_code):
    server.on("GET /jobs/job-1", (status, {"status": status, "code": code, "detail": "The reason."}))
    result = tessera("why", "job-1")
    assert result.exit_code == exit_code
    named = "job-1: " if status == 404 else ""
    assert result.stderr.startswith(f"{named}The reason.\n")


def test_what_is_not_found_is_named(server, tessera):
    assert tessera("logs", "9").stderr == "job-9: No.\n"
    assert tessera("files", "ls", "data/a b").stderr == "data/a b: No.\n"


def test_signing_in_is_no_remedy_for_a_token_of_the_environment(server, tessera, monkeypatch):
    server.on("GET /jobs", (401, {"status": 401, "code": "bad_token", "detail": "It is unknown."}))
    told = tessera("ps")
    assert told.exit_code == 4 and "It stands in TESSERA_TOKEN: set that" in told.stderr
    monkeypatch.delenv("TESSERA_TOKEN")
    store_token(server.url, "tes_old")
    assert tessera("ps").stderr.endswith(
        f"Make a token at {server.url}/settings/tokens and run: tessera login {server.url}\n"
    )


@pytest.mark.parametrize(("version", "older"), [("9.0.0", "this command"), ("0.0.9", "the platform")])
def test_another_version_is_named_where_an_answer_is_not_understood(server, tessera, version, older):
    server.on("GET /version", (200, {"version": version, "api": "1"}))
    server.on("GET /jobs", (200, {"jobs": []}))
    for command, exit_code in (("ps", 6), ("free", 3)):
        told = tessera(command)
        assert told.exit_code == exit_code and f"{older} is the older" in told.stderr
    assert "Authorization" not in server.of("GET /version")[0][2]


def test_an_address_that_is_no_platform_is_said_so(server, tessera):
    server.on("GET /jobs", (404, b"<h1>nginx</h1>"))
    result = tessera("ps")
    assert result.exit_code == 6 and "not as Tessera does" in result.stderr
    server.on("GET /jobs", (200, b"<h1>nginx</h1>"))
    assert "did not answer with JSON" in tessera("ps").stderr


def test_a_redirect_is_not_followed_with_the_token(server, tessera):
    def elsewhere(handler):
        handler.send_response(302)
        handler.send_header("Location", "http://evil.example/")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.on("GET /jobs", elsewhere)
    result = tessera("ps")
    assert result.exit_code == 6 and "evil.example" in result.stderr


def test_what_a_server_writes_cannot_steer_the_terminal(server, tessera):
    evil = "\x1b[2Jx\u202egnp\nroot"
    server.on("GET /jobs", (200, {"results": [a_job(name=evil)], "next_cursor": None}))
    server.on("GET /jobs/job-9", (404, {"status": 404, "detail": f"No {evil}"}))
    shown = tessera("ps", "--last", "0").stdout
    assert "\x1b" not in shown and "\u202e" not in shown and shown.count("\n") == 2
    refused = tessera("why", "job-9").stderr
    assert refused == "job-9: No \ufffd[2Jx\ufffdgnp root\n"


def test_every_page_of_a_list_is_read(server, tessera):
    pages = [(200, {"results": [a_job(n)], "next_cursor": cursor}) for n, cursor in ((3, "c2"), (2, "c1"), (1, None))]
    server.on("GET /jobs", *pages)
    shown = tessera("ps", "--state", "running", "-o", "json")
    assert [job["id"] for job in json.loads(shown.stdout)["results"]] == ["job-3", "job-2", "job-1"]
    assert "cursor=c1" in server.of("GET /jobs")[2][1]


def test_the_token_goes_in_its_header_and_nowhere_else(server, tessera):
    server.on("GET /jobs", (200, {"results": [], "next_cursor": None}))
    tessera("ps")
    for _, path, headers, body in server.asked:
        assert headers["Authorization"] == "Bearer tes_ada" and "tes_ada" not in path and not body
