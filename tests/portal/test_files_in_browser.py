"""Sending files in a real browser: on after a lost connection, over a name that is taken, with no CSP report."""

import os

import pytest
from playwright.sync_api import expect

from tests import make
from tests.web_process import browsing, elsewhere, running_web

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
DATA = os.urandom(20 * 2**20)  # three pieces


@pytest.fixture
def portal(transactional_db, tmp_path):
    """(address, where the files lie) of a web process on the tests' own database."""
    with running_web(TESSERA_FILES=tmp_path / "files") as web:
        yield web.url, tmp_path / "files"


@pytest.fixture
def page(chromium, portal):
    """ada's browser on her home."""
    session = elsewhere(make.session, elsewhere(make.cast).ada)
    with browsing(chromium, portal[0], session, viewport={"width": 1280, "height": 900}) as page:
        page.goto("/files/")
        yield page


@pytest.fixture
def model(tmp_path):
    file = tmp_path / "model.bin"
    file.write_bytes(DATA)
    return file


def in_home(portal, name):
    return next((portal[1] / "home").glob(f"*/{name}")).read_bytes()


def test_a_file_goes_on_after_the_connection_was_lost(page, portal, model):
    lost = []

    def pieces(route):
        """The second piece arrives and its answer does not; the next is lost on the way."""
        if route.request.method == "PATCH" and len(lost) < 2 and route.request.headers["upload-offset"] != "0":
            lost.append(route.request.headers["upload-offset"])
            if len(lost) == 1:
                route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/api/v1/files/uploads/*", pieces)
    page.locator("#files-input").set_input_files(str(model))
    expect(page.locator(".sending-row.is-done")).to_have_count(1)
    expect(page.locator(".files-table td").first).to_contain_text("model.bin")
    assert lost == [str(8 * 2**20), str(16 * 2**20)] and in_home(portal, "model.bin") == DATA


def test_a_file_goes_on_after_the_page_was_closed(page, portal, model):
    page.route("**/api/v1/files/uploads/*", lambda route: route.abort() if _is_second(route) else route.continue_())
    page.locator("#files-input").set_input_files(str(model))
    expect(page.locator(".sending-words")).to_contain_text("Connection lost")
    page.unroute_all()
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto("/files/")
    page.locator("#files-input").set_input_files(str(model))
    expect(page.locator(".sending-row.is-done")).to_have_count(1)
    assert in_home(portal, "model.bin") == DATA and len(list((portal[1] / "home").glob("*/.*"))) == 0


def _is_second(route):
    return route.request.headers.get("upload-offset") == str(8 * 2**20)


def test_a_name_that_is_taken_is_replaced_only_when_asked(page, portal, tmp_path):
    (tmp_path / "a.txt").write_text("old")
    page.locator("#files-input").set_input_files(str(tmp_path / "a.txt"))
    expect(page.locator(".sending-row.is-done")).to_have_count(1)
    (tmp_path / "a.txt").write_text("new text")
    page.locator("#files-input").set_input_files(str(tmp_path / "a.txt"))
    wrong = page.locator(".sending-row.is-wrong")
    expect(wrong).to_contain_text("taken")
    assert in_home(portal, "a.txt") == b"old"
    wrong.get_by_text("Replace it").click()
    expect(page.locator(".sending-row.is-done")).to_have_count(2)
    assert in_home(portal, "a.txt") == b"new text"


def test_a_row_is_renamed_and_deleted_after_its_name_is_said(page, portal, tmp_path):
    (tmp_path / "<b>a.txt").write_text("x")
    page.locator("#files-input").set_input_files(str(tmp_path / "<b>a.txt"))
    page.locator("#listing [data-opens=rename]").click()
    page.locator("#rename-to").fill("b.txt")
    page.locator("#rename .btn-primary").click()
    expect(page.locator(".files-table td").first).to_contain_text("b.txt")
    page.locator("#listing [data-opens=delete]").click()
    expect(page.locator("#delete h2")).to_contain_text("b.txt")
    page.locator("#delete .btn-danger").click()
    expect(page.locator("#listing")).to_contain_text("This folder is empty")
