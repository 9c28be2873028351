"""Sending files in a real browser: on after a lost connection, over a name that is taken, with no CSP report."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import make
import pytest
from django.conf import settings
from django.db import connections
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
DATA = os.urandom(20 * 2**20)  # three pieces


def elsewhere(act, *args):
    """In another thread: Playwright's event loop runs in this one."""

    def act_and_close():
        try:
            return act(*args)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act_and_close).result()


@pytest.fixture
def portal(transactional_db, tmp_path):
    """(address, where the files lie) of a web process on the tests' own database."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://localhost:{listener.getsockname()[1]}"
    environment = os.environ | {
        "PGDATABASE": connections["default"].settings_dict["NAME"],
        "TESSERA_FILES": str(tmp_path / "files"),
        "TESSERA_PUBLIC_URL": address,
        "TESSERA_ROLE": "web",
        "TESSERA_SECRET_KEY": settings.SECRET_KEY,
        "TESSERA_LISTEN_FDS": str(listener.fileno()),
    }
    web = subprocess.Popen([sys.executable, "-m", "config.web"], env=environment, pass_fds=[listener.fileno()])
    try:
        _wait_for(f"{address}/livez")
        yield address, tmp_path / "files"
    finally:
        web.terminate()
        web.wait(10)
        listener.close()


def _wait_for(url):
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"{url} did not answer within 60 s"
            time.sleep(0.1)


@pytest.fixture
def page(chromium, portal):
    """ada's browser on her home. Whatever the CSP refuses or a script throws fails the test."""
    cast = elsewhere(make.cast)
    context = chromium.new_context(base_url=portal[0], viewport={"width": 1280, "height": 900})
    session = elsewhere(make.session, cast.ada)
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": portal[0]}])
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto("/files/")
    yield page
    context.close()
    assert wrong == []


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
    expect(page.locator(".sending-row.is-done")).to_have_count(1, timeout=30_000)
    expect(page.locator(".files-table td").first).to_contain_text("model.bin")
    assert lost == [str(8 * 2**20), str(16 * 2**20)] and in_home(portal, "model.bin") == DATA


def test_a_file_goes_on_after_the_page_was_closed(page, portal, model):
    page.route("**/api/v1/files/uploads/*", lambda route: route.abort() if _is_second(route) else route.continue_())
    page.locator("#files-input").set_input_files(str(model))
    expect(page.locator(".sending-words")).to_contain_text("The connection is lost", timeout=15_000)
    page.unroute_all()
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto("/files/")
    page.locator("#files-input").set_input_files(str(model))
    expect(page.locator(".sending-row.is-done")).to_have_count(1, timeout=30_000)
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
    expect(page.locator("#listing")).to_contain_text("Nothing is here yet")
