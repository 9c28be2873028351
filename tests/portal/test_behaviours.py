"""The frame's scripts in a real browser, on a real server with the real socket: live parts, logs, dialogs, the CSP."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import make
import pytest
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import connections
from playwright.sync_api import expect

from jobs.states import TaskState
from runtimes.logs import LogStore

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HOSTILE = (
    "\x1b[1;31mred\x1b[0m <b onclick=alert(1)>第二</b>\x1b]0;title\x07\x1b[2J\x1b]8;;javascript:alert(1)\x1b\\link\n"
)


NO_SOCKET = """window.WebSocket = class {
    static OPEN = 1;
    readyState = 3;
    constructor() { setTimeout(() => this.onclose({ code: 1006 })); }
};"""


def elsewhere(act, *args, **named):
    """Do it in another thread: Playwright's event loop runs in this one, where Django would not ring its doorbells."""

    def act_and_close():
        try:
            return act(*args, **named)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act_and_close).result()


@pytest.fixture(scope="module")
def portal(django_db_setup, tmp_path_factory):
    """The address of the web process, on the tests' own database and a free port."""
    data = tmp_path_factory.mktemp("portal")
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://localhost:{listener.getsockname()[1]}"
    environment = os.environ | {
        "PGDATABASE": connections["default"].settings_dict["NAME"],
        "TESSERA_LOGS": str(data),
        "TESSERA_PUBLIC_URL": address,
        "TESSERA_ROLE": "web",
        "TESSERA_SECRET_KEY": settings.SECRET_KEY,
        "TESSERA_LISTEN_FDS": str(listener.fileno()),
    }
    web = subprocess.Popen([sys.executable, "-m", "config.web"], env=environment, pass_fds=[listener.fileno()])
    try:
        wait_for(f"{address}/livez")
        yield address
    finally:
        web.terminate()
        web.wait(10)
        listener.close()


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"{url} did not answer within 60 s"
            time.sleep(0.1)


@pytest.fixture
def store(portal, tmp_path_factory) -> LogStore:
    return LogStore(tmp_path_factory.getbasetemp() / "portal0")


@pytest.fixture
def cast(portal, chromium):
    return elsewhere(make.cast)


@pytest.fixture
def session(cast) -> str:
    """A session of ada's."""
    return elsewhere(make.session, cast.ada)


@pytest.fixture
def job(cast):
    """A waiting job of ada's."""
    return elsewhere(make.job, cast.ada, gpu="1/4", pool="dev")


@pytest.fixture
def page(chromium, portal, session):
    """A page of ada's browser. Whatever the CSP refuses or a script throws fails the test."""
    context = chromium.new_context(base_url=portal)
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": portal}])
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.set_default_timeout(10_000)
    yield page
    context.close()
    assert not wrong


def is_live(page) -> None:
    page.wait_for_selector("#live[data-state=live]")


PAGES = ["/", "/jobs/", "/jobs/new", "/queue/", "/cluster/", "/cluster/gpus/", "/quota/", "/settings/tokens/"]


@pytest.mark.parametrize("path", PAGES)
def test_no_page_needs_what_the_policy_forbids(page, path):
    assert page.goto(path).status == 200
    is_live(page)


def test_a_part_of_the_page_changes_when_its_object_does(page, job):
    page.goto(f"/j/{job.public_id}/")
    is_live(page)
    page.evaluate("document.body.dataset.same = 'yes'")
    elsewhere(make.start, job)
    page.locator("main .chip-work:has-text('Running')").first.wait_for()
    assert page.evaluate("document.body.dataset.same") == "yes"


def test_an_open_dialog_and_the_focus_survive_a_refetch(page, job):
    page.goto(f"/j/{job.public_id}/")
    is_live(page)
    page.locator("[data-opens]:visible").first.click()
    elsewhere(make.start, job)
    page.locator("main .chip-work:has-text('Running')").first.wait_for(state="attached")
    assert page.locator("dialog[open]").count() == 1
    assert page.evaluate("document.activeElement.closest('dialog') !== null")


def test_a_log_appears_with_its_colours_and_nothing_else_of_the_terminal(page, job, store):
    task = str(elsewhere(make.start, job)[0].uuid)
    end = store.append(task, 0, b"before\n")
    page.goto(f"/j/{job.public_id}/?tab=log")
    lines = page.locator(".log-lines")
    expect(lines).to_contain_text("before")
    end = store.append(task, end, HOSTILE.encode()[:9])
    end = store.append(task, end, HOSTILE.encode()[9:])
    store.append(task, end, b"  1%\r 50%\r100%\nlast\n")
    expect(lines).to_contain_text("last")
    shown = lines.locator("> div").all_text_contents()
    assert shown == ["before", "red <b onclick=alert(1)>第二</b>link", "100%", "last"]
    spans = lines.locator("span").evaluate_all("all => all.map(e => [e.className, e.textContent])")
    assert spans == [["c1 b", "red"]]
    assert lines.locator("b, a").count() == 0


def test_a_log_goes_on_after_the_page_was_refetched(page, job, store):
    task = elsewhere(make.start, job)[0]
    end = store.append(str(task.uuid), 0, b"one\n")
    page.goto(f"/j/{job.public_id}/?tab=log")
    expect(page.locator(".log-lines")).to_have_text("one")
    store.append(str(task.uuid), end, b"two\n")
    elsewhere(make.move, task, TaskState.SUCCEEDED, "completed", exit_code=0)
    page.locator("main .chip:has-text('Done')").first.wait_for()
    expect(page.locator(".log-lines > div")).to_have_text(["one", "two"])


def test_scrolling_up_pauses_following(page, job, store):
    task = str(elsewhere(make.start, job)[0].uuid)
    end = store.append(task, 0, b"".join(b"line %d\n" % n for n in range(300)))
    page.goto(f"/j/{job.public_id}/?tab=log")
    lines = page.locator(".log-lines")
    expect(lines).to_contain_text("line 299")
    assert lines.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight") < 2
    lines.evaluate("e => { e.scrollTop = 0 }")
    page.wait_for_selector("[data-log=follow][aria-pressed=false]")
    store.append(task, end, b"more\n")
    expect(lines).to_contain_text("more")
    assert lines.evaluate("e => e.scrollTop") == 0


def test_the_badge_says_that_the_session_is_over(page, cast, session):
    page.goto("/jobs/")
    is_live(page)
    elsewhere(import_module(settings.SESSION_ENGINE).SessionStore(session).flush)
    elsewhere(async_to_sync(get_channel_layer().group_send), f"user-{cast.ada.pk}", {"type": "recheck"})
    page.wait_for_selector("#live[data-state=ended]:has-text('signed out')")


def test_without_a_socket_an_active_page_is_polled_and_an_idle_one_is_left_alone(page):
    page.add_init_script(NO_SOCKET)
    page.clock.install()
    page.goto("/quota/")
    page.evaluate("""() => {
        window.asked = 0;
        document.body.addEventListener('live:refresh', () => window.asked++);
        document.querySelectorAll('[data-active]').forEach((part) => part.removeAttribute('data-active'));
    }""")
    page.clock.run_for(60_000)
    assert page.evaluate("window.asked") == 0
    page.evaluate("document.querySelector('main').dataset.active = 'true'")
    page.clock.run_for(60_000)
    assert 4 <= page.evaluate("window.asked") <= 7
    assert page.locator("#live").get_attribute("data-state") == "polling"
