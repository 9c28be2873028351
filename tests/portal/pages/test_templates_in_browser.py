"""The form of a template in a real browser: the job file follows what is typed, and the errors of a text its lines."""

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from jobs.models import Job
from scheduler.models import Lease
from tests import make
from tests.portal.pages.answered_browser import ADDRESS, Portal
from tests.web_process import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page(chromium, client, settings):
    settings.TESSERA_PUBLIC_URL = ADDRESS
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    client.force_login(make.cast().ada)
    context = chromium.new_context(base_url=ADDRESS)
    page = context.new_page()
    page.route("**/*", Portal(client).answer)
    yield page
    context.close()


def test_the_file_follows_the_form_and_runs(page):
    page.goto("/templates/first-steps/")
    shown = page.locator("#template-preview pre")
    expect(shown).to_contain_text('STEPS: "5"')
    page.get_by_label("steps").fill("7")
    expect(shown).to_contain_text('STEPS: "7"')
    page.get_by_label("steps").fill("many")
    expect(page.locator("#template-preview")).to_contain_text("“many” is not a whole number")
    page.get_by_label("steps").fill("2")
    expect(shown).to_contain_text('STEPS: "2"')
    page.get_by_role("button", name="Run").click()
    page.wait_for_url("**/j/job-*/")
    assert elsewhere(lambda: Job.objects.get().template["values"]["steps"]) == 2


def test_a_text_is_checked_as_it_is_written_and_saved(page):
    page.goto("/templates/new")
    text = page.get_by_role("textbox", name="Template")
    text.fill("template: {name: a, parameters: {lr: {type: number}}}\nrun: train ${{ rate }}\n")
    expect(page.locator("#template-check")).to_contain_text("no parameter “rate”")
    text.fill("template: {name: a, parameters: {lr: {type: number}}}\nrun: train ${{ lr }}\n")
    expect(page.locator("#template-check").get_by_label("lr")).to_be_disabled()
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/templates/tpl-*/")
    expect(page.locator("#template-preview")).to_contain_text("lr is missing. Add it.")
