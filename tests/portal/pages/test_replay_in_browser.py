"""The replay in a real browser: it plays to the end, and stops where somebody takes the slider."""

import pytest
from playwright.sync_api import expect

from tests.portal.pages.answered_browser import ADDRESS, Portal
from tests.portal.pages.test_replay import make_past
from tests.web_process import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page(chromium, client, settings):
    settings.TESSERA_PUBLIC_URL = ADDRESS
    client.force_login(elsewhere(make_past).ada)
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.route("**/*", Portal(client).answer)
    page.goto(f"{ADDRESS}/cluster/replay/")
    yield page
    context.close()


def test_it_plays_to_the_end_and_stops_where_somebody_presses(page):
    play, slider = page.get_by_role("button", name="Play"), page.get_by_role("slider", name="Moment")
    shown: list[str] = []
    page.on("request", lambda request: shown.append(request.url) if "at=" in request.url else None)
    play.click()
    expect(play).to_have_attribute("aria-pressed", "true")
    expect(play).to_have_attribute("aria-pressed", "false")
    assert slider.input_value() == slider.get_attribute("max") and len(shown) >= 2
    play.click()
    page.get_by_role("link", name="Five minutes earlier").click()
    expect(play).to_have_attribute("aria-pressed", "false")
