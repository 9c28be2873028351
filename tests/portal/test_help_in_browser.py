"""The documents' site as it is built, served by a real web process: no CSP report, its search, its two themes."""

import re

import pytest
from playwright.sync_api import expect

from dev.docs.build import SITE, build
from tests import make
from tests.web_process import browsing, elsewhere, running_web

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module", autouse=True)
def site():
    assert build() == ""


@pytest.fixture
def page(chromium, transactional_db):
    """ada's browser. A script or a style that the policy refuses fails the test."""
    session = elsewhere(make.session, elsewhere(make.cast).ada)
    with running_web() as web, browsing(chromium, web.url, session, viewport={"width": 1440, "height": 900}) as page:
        page.goto("/help/")
        yield page


def search(page, words: str) -> None:
    box = page.get_by_role("textbox", name="Search")
    box.fill(words)
    box.press("Shift")  # the theme listens to keys


def test_the_search_finds_a_page_and_leads_to_it(page):
    search(page, "wildcard")
    found = page.locator(".md-search-result__link[href*='h=wildcard']").first
    expect(found).to_be_visible()
    found.click()
    page.wait_for_url(re.compile(r"/help/.+/\?h=wildcard"))
    expect(page.locator("article mark").first).to_have_text("wildcard")


def test_the_search_finds_a_word_within_a_chinese_sentence(page):
    search(page, "检查点")
    found = page.locator(".md-search-result__item", has=page.locator("[href*='/zh/guides/person/']"))
    expect(found).to_have_count(1)


def test_the_theme_is_chosen_and_kept(page):
    body = page.locator("body")
    for scheme in ("default", "slate"):
        page.locator("label.md-header__button:not([hidden])[for^=__palette]").click()
        expect(body).to_have_attribute("data-md-color-scheme", scheme)
    page.goto("/help/using/")
    expect(body).to_have_attribute("data-md-color-scheme", "slate")


def test_no_page_asks_for_an_exception(page):
    pages = [file for file in sorted(SITE.rglob("index.html")) if not {"api", "notes"} & {*file.parent.parts[-2:]}]
    for file in [*pages, SITE / "reference/api/jobs/index.html", SITE / "notes/whole-nodes/index.html"]:
        page.goto(f"/help/{file.parent.relative_to(SITE).as_posix()}/".replace("/./", "/"))
        expect(page.locator("article h1")).to_be_visible()
