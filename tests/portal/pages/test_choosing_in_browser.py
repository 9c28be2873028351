"""The list of jobs in a real browser: its rows are low, and several are chosen and stopped at once."""

import pytest
from playwright.sync_api import expect

from jobs.models import Job
from jobs.states import JobState
from tests import make
from tests.portal.pages.answered_browser import ADDRESS, Portal
from tests.web_process import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

LABELS = {f"label-{n}": "a-value-that-is-long" for n in range(4)}
HEIGHTS = "(rows) => [...new Set(rows.map((row) => row.getBoundingClientRect().height))]"


@pytest.fixture
def page(chromium, client, settings):
    """ada's browser, of whose jobs four wait."""
    settings.TESSERA_PUBLIC_URL = ADDRESS
    client.force_login(elsewhere(make_jobs).ada)
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.route("**/*", Portal(client).answer)
    page.goto(f"{ADDRESS}/jobs/")
    yield page
    context.close()


def make_jobs() -> make.Cast:
    cast = make.cast()
    for name in ("first", "second", "third", "fourth"):
        make.job(cast.ada, name=name, pool="dev", labels=LABELS)
    return cast


def test_several_jobs_are_chosen_and_stopped(page):
    rows, bar = page.locator(".jobs-table tbody tr"), page.locator("#chosen")
    assert rows.evaluate_all(HEIGHTS) == [26]
    expect(bar).to_be_hidden()
    boxes = rows.locator("[name=job]")  # the newest first
    boxes.nth(0).click()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(bar).to_contain_text("3 chosen")
    boxes.nth(1).click()
    bar.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop 2").click()
    expect(page.get_by_text("2 jobs are stopped.")).to_be_visible()
    assert elsewhere(read_stopped) == {"fourth", "second"}


def read_stopped() -> set[str]:
    return set(Job.objects.filter(state=JobState.CANCELLED).values_list("name", flat=True))
