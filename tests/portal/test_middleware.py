"""One host, one origin, strict headers, the reader's language, and errors as pages, through the whole stack."""

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client

from tests import make

pytestmark = pytest.mark.django_db

ORIGIN = "http://localhost:8470"
OURS = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
LOOK = "/settings/look/"


@pytest.fixture(autouse=True)
def public_url(settings):
    settings.TESSERA_PUBLIC_URL = ORIGIN


@pytest.fixture
def browser():
    """A browser of ada's, on localhost:8470. CSRF tokens are not asked, so that only the origin decides here."""
    client = Client(SERVER_NAME="localhost", SERVER_PORT="8470")
    client.force_login(make.user("ada", make.team("nlp")))
    return client


@pytest.fixture
def program():
    """Something with neither cookie nor browser headers, as curl."""
    return Client(SERVER_NAME="localhost", SERVER_PORT="8470")


def test_our_own_page_may_change_things(browser):
    assert browser.post(LOOK, {"theme": "dark", "next": "/jobs/"}, headers=OURS).url == "/jobs/"


def test_an_old_browser_on_plain_http_is_judged_by_its_origin_alone(browser):
    assert browser.post(LOOK, {"theme": "dark"}, headers={"Origin": ORIGIN}).status_code == 302


@pytest.mark.parametrize("headers", [
    {},
    {**OURS, "Origin": "null"},
    {**OURS, "Origin": "http://localhost"},
    {**OURS, "Origin": "http://localhost:8471"},
    {**OURS, "Origin": "https://localhost:8470"},
    {**OURS, "Origin": "http://label.localhost:8470"},
    {**OURS, "Origin": "http://localhost:8470.evil.example"},
    {**OURS, "Sec-Fetch-Site": "same-site"},
    {**OURS, "Sec-Fetch-Site": "cross-site"},
    {**OURS, "Sec-Fetch-Site": "none"},
    {**OURS, "Sec-Fetch-Mode": "no-cors"},
])  # fmt: skip
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_a_cookie_changes_nothing_from_elsewhere(browser, method, headers):
    assert getattr(browser, method)(LOOK, headers=headers).status_code == 403


def test_a_program_without_cookie_is_not_asked_for_an_origin(program):
    assert program.post(LOOK, {"theme": "dark"}).status_code == 302


def test_a_foreign_page_cannot_sign_somebody_in(program):
    assert program.post("/sign-in/", headers={"Origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_a_link_from_elsewhere_opens_a_page_and_nothing_else_reads(browser, site):
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert browser.get("/settings/tokens/", headers=link).status_code == 200
    assert browser.get("/settings/tokens/", headers={**link, "Sec-Fetch-Mode": "no-cors"}).status_code == 403
    assert browser.get("/api/v1/me", headers=link).status_code == 403


def test_a_second_session_cookie_is_refused(browser):
    name = settings.SESSION_COOKIE_NAME
    twice = f"{name}={browser.cookies[name].value}; {name}=tossed"
    browser.cookies.clear()
    assert browser.get("/", HTTP_COOKIE=twice).status_code == 400


def test_a_refusal_of_the_api_is_a_problem_in_json(browser):
    answer = browser.delete("/api/v1/tokens", headers={**OURS, "Origin": "null"})
    assert (answer.status_code, answer["Content-Type"]) == (403, "application/problem+json")
    assert answer.json()["code"] == "foreign_origin"


@pytest.mark.parametrize("host", ["127.0.0.1:8470", "[::1]:8470"])
def test_a_visit_by_number_goes_to_localhost(host):
    answer = Client(HTTP_HOST=host).get("/jobs/?state=queued")
    assert answer.url == f"{ORIGIN}/jobs/?state=queued"  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/livez", "/api/v1/me"])
def test_programs_may_use_the_number(path):
    assert Client(HTTP_HOST="127.0.0.1:8470").get(path).status_code in {200, 401}


def test_the_policy_allows_no_inline_script_no_style_no_frame_and_no_other_host(program):
    policy = program.get("/sign-in/")["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'"} <= set(policy)
    assert {"frame-ancestors 'none'", "connect-src 'self' ws://localhost:8470"} <= set(policy)
    assert not [rule for rule in policy if "unsafe" in rule or "*" in rule]


def test_a_page_says_that_it_may_not_be_framed_sniffed_or_kept(browser):
    answer = browser.get("/settings/tokens/")
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cross-Origin-Opener-Policy"] == answer["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "no-" in answer["Cache-Control"]


@pytest.mark.parametrize(
    "offered, kept", [("abc-12345", True), ("short", False), ("a b\tc d e f", False), ("x" * 65, False)]
)
def test_a_request_id_is_kept_only_when_it_is_harmless(program, offered, kept):
    assert (program.get("/livez", headers={"X-Request-ID": offered})["X-Request-ID"] == offered) is kept


@pytest.mark.parametrize("page", ["/sign-in/", "/no-such-page"])
def test_a_page_has_no_inline_style_script_or_handler(program, page):
    html = program.get(page).content.decode()
    assert "<style" not in html and " style=" not in html and " onclick=" not in html
    assert all("src=" in tag.split(">")[0] for tag in html.split("<script")[1:])


def test_the_language_is_the_persons_before_the_browsers(browser):
    browser.post(LOOK, {"language": "zh-hans"}, headers=OURS)
    assert 'lang="zh-hans"' in browser.get("/settings/tokens/", headers={"Accept-Language": "en"}).content.decode()


def test_a_visitor_reads_the_language_of_the_browser(program):
    answer = program.get("/sign-in/", headers={"Accept-Language": "zh-CN,zh;q=0.9"})
    assert answer["Content-Language"] == "zh-hans"
    assert "登录" in answer.content.decode()


def test_a_visitor_keeps_the_chosen_theme_in_a_cookie(program):
    program.post(LOOK, {"theme": "dark"}, headers={"Origin": ORIGIN})
    assert 'data-look="dark"' in program.get("/sign-in/").content.decode()


def test_a_visitor_is_sent_to_sign_in_and_comes_back(program):
    assert program.get("/jobs/?state=queued").url == "/sign-in/?next=%2Fjobs%2F%3Fstate%3Dqueued"


def test_a_refetch_after_sign_out_moves_the_whole_page(program):
    headers = {"HX-Request": "true", "HX-Current-URL": f"{ORIGIN}/jobs/?state=queued"}
    answer = program.get("/jobs/", headers=headers)
    assert (answer.status_code, answer["HX-Redirect"]) == (401, "/sign-in/?next=%2Fjobs%2F%3Fstate%3Dqueued")


def test_a_form_sent_after_the_session_ended_leads_back_to_its_page(program):
    headers = {"Origin": ORIGIN, "Referer": f"{ORIGIN}/jobs/new?from=job-4"}
    assert program.post("/jobs/new", headers=headers).url == "/sign-in/?next=%2Fjobs%2Fnew%3Ffrom%3Djob-4"
    assert program.post("/jobs/new", headers={"Origin": ORIGIN}).url == "/sign-in/?next=%2F"


def test_where_to_go_back_to_never_leaves_the_portal(browser):
    for evil in ("https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"):
        assert browser.post(LOOK, {"theme": "light", "next": evil}, headers=OURS).url == "/"


def test_what_is_not_there_is_answered_in_words_with_the_request_id(browser):
    answer = browser.get("/j/job-999999/", headers={"X-Request-ID": "ticket-12345"})
    assert answer.status_code == 404
    assert "ticket-12345" in answer.content.decode()


@pytest.fixture
def no_database(browser, program, monkeypatch):
    def away(*_):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(connection, "cursor", away)
    browser.raise_request_exception = False


def test_a_page_says_that_the_database_is_away(no_database, browser):
    response = browser.get("/jobs/")
    assert response.status_code == 503
    text = response.content.decode()
    assert "database does not respond" in text and 'href="/jobs/"' in text
    assert 'http-equiv="refresh"' in text and "retries" in text


def test_what_was_sent_is_not_sent_again_by_the_page_itself(no_database, browser):
    text = browser.post("/j/job-1/stop", headers=OURS).content.decode()
    assert "database does not respond" in text and "refresh" not in text and "still in the form" in text


def test_a_visitor_is_told_too(no_database, program):
    program.raise_request_exception = False
    response = program.get("/sign-in/", headers={"Accept-Language": "zh-CN"})
    assert response.status_code == 503 and 'lang="zh-hans"' in response.content.decode()


def test_a_part_of_a_page_stays_and_its_badge_says_as_of_when_it_is(no_database, browser):
    response = browser.get("/jobs/", headers={"HX-Request": "true"})
    assert (response.status_code, response["HX-Trigger"], response["HX-Retarget"]) == (503, "live:away", "#notes")
    assert "<html" not in response.content.decode()


def test_a_fault_of_ours_does_not_take_the_place_of_a_part_either(browser, monkeypatch):
    monkeypatch.setattr("portal.pages.jobs.views.render_page", lambda *_, **__: 1 / 0)
    browser.raise_request_exception = False
    response = browser.get("/jobs/", headers={"HX-Request": "true"})
    assert (response.status_code, response["HX-Retarget"]) == (500, "#notes") and b"<html" not in response.content


def test_a_program_with_a_cookie_gets_a_problem(no_database, browser):
    response = browser.get("/api/v1/jobs")
    assert (response.status_code, response.json()["code"]) == (503, "database_away")
    assert response["Content-Type"] == "application/problem+json"
