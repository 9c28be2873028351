"""Every refusal is problem+json, names the place and the remedy, and none is a 5xx."""

import errno
import re
from pathlib import Path

import pytest
from django.db import OperationalError, connection
from psycopg.errors import DiskFull, LockNotAvailable

from accounts.models import ApiToken, User
from portal.api.http.problems import as_platform_error
from portal.wording.errors import FIELD_MESSAGES
from tests import make

pytestmark = pytest.mark.django_db
CORPUS = sorted((Path(__file__).parents[2] / "jobs/corpus").glob("*.yaml"))
KEYS = {
    "type", "title", "status", "detail", "instance", "code", "help", "params", "request_id", "errors", "hints",
}  # fmt: skip


def problem_of(response, status: int, code: str) -> dict:
    assert response["Content-Type"] == "application/problem+json", response.content[:300]
    body = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert set(body) >= KEYS and body["type"] == f"urn:tessera:problem:{code}"
    assert body["help"].endswith(f"/help/reference/errors/#{code}")
    assert body["title"] and body["detail"].endswith((".", "?"))
    return body


def test_a_problem_says_where_and_under_which_request_number(ada):
    response = ada.get("jobs/job-99")
    body = problem_of(response, 404, "not_found")
    assert body["instance"] == "/api/v1/jobs/job-99"
    assert body["request_id"] == response["X-Request-ID"] != ""


def test_a_database_that_is_away_is_told_with_what_to_do(ada, monkeypatch):
    def away(*_):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(connection, "cursor", away)
    body = problem_of(ada.get("jobs"), 503, "database_away")
    assert "database does not respond" in body["detail"] and "Try again" in body["detail"]


def test_a_database_that_is_there_and_busy_is_not_called_away():
    busy = OperationalError("canceling statement due to lock timeout")
    busy.__cause__ = LockNotAvailable()
    assert as_platform_error(busy, {}).code == "unavailable"


def test_a_full_disk_is_told_as_such_by_the_database_and_before_it(ada, cast, settings):
    full = OperationalError("could not extend file")
    full.__cause__ = DiskFull()
    for error in (full, OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EDQUOT, "Quota exceeded")):
        assert as_platform_error(error, {}).code == "platform_disk_full"
    assert as_platform_error(OSError(errno.EIO, "Input/output error"), {}) is None
    key = {"Idempotency_Key": "one"}
    made = ada.post("jobs", {"run": "true", "pool": "dev"}, **key)
    settings.TESSERA_DATA, settings.TESSERA_DISK_RESERVE_MIB = "/", 1 << 40
    body = problem_of(ada.post("jobs", {"run": "true", "pool": "dev"}), 507, "platform_disk_full")
    assert "What runs goes on" in body["detail"]
    problem_of(ada.post("notebooks", {"name": "explore", "gpu": "1/4"}), 507, "platform_disk_full")
    problem_of(ada.post("code", b"packed", type="application/gzip"), 507, "platform_disk_full")
    assert ada.post("jobs", {"run": "true", "pool": "dev"}, **key).json()["id"] == made.json()["id"]


@pytest.mark.parametrize("path", ["", "nothing", "jobs/", "jobs/job-1/secrets", "../admin", "jobs/job-1:explode"])
def test_an_unknown_address_is_a_problem_for_everybody(nobody, path):
    problem_of(nobody.get(path), 404, "not_found")
    problem_of(nobody.post(path), 404, "not_found")


def test_without_a_token_one_is_told_to_sign_in(nobody):
    response = nobody.get("jobs")
    problem_of(response, 401, "not_signed_in")
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("secret", ["tes_wrong", "", "tes_\x00", "ü" * 9])
def test_a_token_that_is_none_is_refused(ada, secret):
    ada.headers = {"Authorization": f"Bearer {secret}"}
    problem_of(ada.get("version"), 401, "bad_token")


def test_an_expired_a_revoked_and_a_suspended_persons_token_are_refused(ada, cast):
    ada.headers = {"Authorization": f"Bearer {make.expired_token(cast.ada)}"}
    problem_of(ada.get("me"), 401, "bad_token")
    secret = make.token(cast.bob)
    ada.headers = {"Authorization": f"Bearer {secret}"}
    assert ada.get("me").status_code == 200
    User.objects.filter(pk=cast.bob.pk).update(suspended_at="2026-01-01T00:00Z")
    problem_of(ada.get("me"), 401, "bad_token")
    User.objects.update(suspended_at=None)
    ApiToken.objects.update(revoked_at="2026-01-01T00:00Z")
    problem_of(ada.get("me"), 401, "bad_token")


def test_a_token_without_the_scope_is_told_which(ada, cast):
    ada.headers = {"Authorization": f"Bearer {make.token(cast.ada, 'jobs:read')}"}
    assert ada.get("jobs").status_code == 200
    assert problem_of(ada.post("jobs", {"run": "true"}), 403, "missing_scope")["params"] == {"scope": "jobs:write"}
    problem_of(ada.get("gpus"), 403, "missing_scope")


def test_a_wrong_method_is_told_the_right_ones(ada):
    response = ada.delete("jobs")
    assert "GET, HEAD, POST" in problem_of(response, 405, "method_not_allowed")["detail"]
    assert "POST" in response["Allow"]
    problem_of(ada.client.options("/api/v1/jobs", headers=ada.headers), 405, "method_not_allowed")


def test_an_answer_in_another_form_is_refused(ada):
    problem_of(ada.get("jobs", Accept="text/html"), 406, "not_acceptable")
    problem_of(ada.get("jobs/job-9/logs", Accept="image/png"), 406, "not_acceptable")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
def test_a_body_of_another_kind_is_refused_with_those_that_are_read(ada, kind):
    for path, known in (("jobs", "application/yaml"), ("me/tokens", "application/json"), ("code", "application/gzip")):
        body = problem_of(ada.post(path, "run: true", type=kind), 415, "unsupported_media_type")
        assert known in body["detail"] and known in body["params"]["known"]


def test_a_body_over_its_limit_is_refused_before_it_is_parsed(ada):
    problem_of(ada.post("jobs", "#" * (256 * 1024 + 1), type="text/yaml"), 413, "too_large")
    problem_of(ada.post("jobs", " " * (1024 * 1024 + 1)), 413, "too_large")
    problem_of(ada.post("me/tokens", " " * (1024 * 1024 + 1)), 413, "too_large")


@pytest.mark.parametrize(
    "body", ["", "[", "[]", "null", '"x"', "{", '{"a": NaN}', "[" * 100_000, "1" * 5000, b"\xff\xfe", '{"name": 1' * 9]
)
def test_a_body_that_is_no_json_object_is_refused(ada, body):
    for path in ("jobs", "me/tokens"):
        response = ada.post(path, body)
        assert response.status_code == 400
        assert problem_of(response, 400, "invalid_input")["errors"][0]["detail"].endswith(".")


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_each_bad_job_file_gets_a_4xx_that_names_field_and_remedy(ada, file):
    response = ada.post("jobs", file.read_bytes(), type="application/yaml")
    assert 400 <= response.status_code < 500
    errors = response.json()["errors"]
    assert errors
    for error in errors:
        assert error["pointer"].startswith("/") or error["pointer"] == ""
        assert error["code"] in FIELD_MESSAGES
        assert not re.search(r"“\?”| \? |%\(", error["detail"]), error["detail"]  # a parameter that is missing


def test_the_corpus_is_there():
    assert len(CORPUS) >= 40


def test_what_could_never_run_is_told_the_nearest_that_could(ada):
    body = problem_of(ada.post("jobs", {"run": "true", "gpu": 9, "pool": "train"}), 422, "impossible")
    assert body["errors"][0]["pointer"] == "/gpu"
    assert body["hints"] == [{"action": "set", "pointer": "/gpu", "value": "1"}]


def test_a_limit_of_counts_is_a_conflict_with_its_numbers(ada, cast):
    make.job(cast.ada, pool="dev")
    make.limit(cast.ada, jobs_waiting=1)
    body = problem_of(ada.post("jobs", {"run": "true"}), 409, "user_limit")
    assert (body["params"]["used"], body["params"]["limit"]) == (1, 1)


def test_a_typo_is_answered_with_what_was_meant_and_a_hint(ada):
    body = problem_of(ada.post("jobs", {"run": "true", "priority": "hihg", "gpus": 1}), 400, "invalid_input")
    assert {error["pointer"] for error in body["errors"]} == {"/priority", "/gpus"}
    assert {"action": "set", "pointer": "/priority", "value": "high"} in body["hints"]


def test_markup_and_escapes_in_a_job_stay_text(ada, cast):
    nasty = "<script>alert(1)</script>"
    job = ada.post("jobs", {"run": "echo \x1b[31m" + nasty, "name": nasty, "env": {"X": nasty}}).json()
    assert (job["name"], job["spec"]["env"]["X"]) == (nasty, nasty)
    response = ada.get(f"jobs/{job['id']}")
    assert response["Content-Type"] == "application/json" and response["X-Content-Type-Options"] == "nosniff"


def test_words_follow_the_language_that_is_asked_for_and_codes_do_not(ada, cast):
    english = ada.get("jobs/job-99").json()
    asked = ada.get("jobs/job-99", **{"Accept-Language": "zh-hans"})
    User.objects.filter(pk=cast.ada.pk).update(language="zh-hans")
    own = ada.get("jobs/job-99")
    assert asked["Content-Language"] == own["Content-Language"] == "zh-hans"
    assert english["code"] == asked.json()["code"] == own.json()["code"]
