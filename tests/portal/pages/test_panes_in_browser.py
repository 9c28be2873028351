"""The form and the YAML in a real browser: each follows the other, and neither writes over what is being typed."""

from urllib.parse import urlsplit

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from accounts.models import User
from scheduler.models import Lease
from tests import make
from tests.portal.pages.answered_browser import ADDRESS, Portal
from tests.web_process import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SYNC = "/jobs/new/sync"


class HoldingPortal(Portal):
    """held: syncs that wait for `let_go`, where `holds` is on."""

    def __init__(self, client):
        super().__init__(client)
        self.holds = False
        self.held = []

    def answer(self, route):
        if self.holds and urlsplit(route.request.url).path == SYNC:
            self.held.append(route)
        else:
            super().answer(route)

    def let_go(self):
        self.holds = False
        for route in self.held:
            self.pass_on(route)


@pytest.fixture
def portal(client, settings):
    settings.TESSERA_PUBLIC_URL = ADDRESS
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    client.force_login(make.cast().ada)
    return HoldingPortal(client)


@pytest.fixture
def page(chromium, portal):
    context = chromium.new_context()
    page = context.new_page()
    page.route("**/*", portal.answer)
    page.goto(f"{ADDRESS}/jobs/new")
    expect(page.locator("[data-preview]")).to_have_attribute("data-tone", "done")
    yield page
    context.close()


def field(page, name):
    return page.locator(f"[name={name}]")


def test_the_file_follows_the_form(page):
    field(page, "name").fill("llama")
    expect(field(page, "yaml")).to_have_value("name: llama\nrun: python train.py\ngpu: 1/4\n")


def test_the_form_follows_the_file(page):
    field(page, "yaml").fill("run: |-\n  a\n  b\ngpu: V100:1\npriority: high\nhold: true\n")
    expect(field(page, "gpu_text")).to_have_value("V100:1")
    expect(field(page, "run")).to_have_value("a\nb")
    expect(field(page, "priority")).to_have_value("high")
    expect(field(page, "hold")).to_be_checked()


def test_both_typed_before_an_answer_came_are_both_kept(page, portal):
    portal.holds = True
    field(page, "yaml").fill("run: new\ngpu: 1/2\n")
    field(page, "name").fill("mine")
    page.wait_for_timeout(500)
    portal.let_go()
    expect(field(page, "yaml")).to_have_value("name: mine\nrun: new\ngpu: 1/2\n")
    expect(field(page, "run")).to_have_value("new")


def test_a_late_answer_does_not_write_over_what_is_typed(page, portal):
    portal.holds = True
    field(page, "name").fill("early")
    page.wait_for_timeout(500)
    field(page, "run").fill("later")
    assert len(portal.held) == 1
    portal.let_go()
    expect(field(page, "yaml")).to_have_value("name: early\nrun: later\ngpu: 1/4\n")
    expect(field(page, "run")).to_have_value("later")


def test_an_error_marks_field_and_line_as_text(page):
    field(page, "cpu").fill("<b>many")
    expect(page.locator("#error-cpu")).to_contain_text("“<b>many” is not a valid number of cores.")
    expect(page.locator("[data-lines]")).to_contain_text("Line 3")
    expect(field(page, "cpu")).to_have_attribute("aria-invalid", "true")


def test_the_file_offers_the_keys_and_words_that_fit(page):
    text, offers = field(page, "yaml"), page.locator("#yaml-offers")
    text.fill("run: x\n")
    text.press_sequentially("pri")
    expect(offers.get_by_role("option")).to_have_text(["prioritylow, normal, high, urgent"])
    text.press("ArrowDown")
    expect(text).to_have_attribute("aria-activedescendant", "yaml-offers-0")
    text.press("Enter")
    expect(text).to_have_value("run: x\npriority: ")
    text.press_sequentially("h")
    offers.get_by_role("option", name="high").click()
    expect(field(page, "priority")).to_have_value("high")
    text.press("End")
    text.press("Enter")
    text.press_sequentially("m")
    expect(offers.get_by_role("option").first).to_contain_text("memory")
    text.press("Escape")
    expect(offers).to_be_hidden()


def test_below_a_role_its_own_keys_are_offered_and_none_twice(page):
    text, offers = field(page, "yaml"), page.locator("#yaml-offers")
    text.fill("roles:\n  head:\n    run: x\n    ")
    text.press("Control+Space")
    expect(offers.get_by_role("option", name="count")).to_be_visible()
    expect(offers.get_by_role("option", name="nodes")).to_have_count(0)
    expect(offers.get_by_role("option", name="run")).to_have_count(0)
    text.press("Tab")  # none is chosen, so it goes on as ever
    expect(text).not_to_be_focused()


def test_the_impossible_is_put_right_by_one_click(page):
    field(page, "gpu_text").fill("9")
    page.get_by_role("button", name="Set gpu to 1").click()
    expect(field(page, "yaml")).to_have_value("run: python train.py\ngpu: 1\n")
    expect(page.locator("[data-preview]")).to_have_attribute("data-tone", "done")


def take_the_card_of_train():
    eve = User.objects.get(username="eve")
    make.start(make.job(eve, gpu="1", pool="train", time="1h"))


def test_what_would_help_comes_a_moment_later_and_is_one_click(page):
    elsewhere(take_the_card_of_train)
    field(page, "yaml").fill("run: x\ngpu: 1\npool: train\n")
    expect(page.locator("[data-preview]")).to_have_attribute("data-tone", "wait")
    page.get_by_role("button", name="Pool dev instead of train: now").click()
    expect(field(page, "yaml")).to_have_value("pool: dev\nrun: x\ngpu: 1\n")
    expect(page.locator("[data-preview-words]")).to_have_text("Starts now, likely on n1 (GPU 0)")


def test_a_file_that_cannot_be_read_waits_to_be_mended_or_written_anew(page):
    field(page, "yaml").fill("run: [")
    expect(page.locator("[data-stuck]")).to_be_visible()
    field(page, "name").fill("kept")
    page.get_by_role("button", name="Rewrite it from the form").click()
    expect(field(page, "yaml")).to_have_value("name: kept\nrun: python train.py\ngpu: 1/4\n")
