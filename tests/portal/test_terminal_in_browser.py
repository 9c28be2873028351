"""The terminal's page in a real browser on a real server: typed, resized, lost and found, under the strict policy."""

import os
import re
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

from jobs.states import TaskState
from tests.terminal_page import run, sees, size_of, state_is

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


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
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


class Web:
    """The web process, which can be killed and started again on the same port."""

    def __init__(self, listener, data):
        self.listener = listener
        self.address = f"http://localhost:{listener.getsockname()[1]}"
        self.environment = os.environ | {
            "PGDATABASE": connections["default"].settings_dict["NAME"],
            "TESSERA_ACCESS": "tests.pty_access.PtyAccess",
            "TESSERA_DATA": str(data),
            "TESSERA_LOGS": str(data),
            "TESSERA_PUBLIC_URL": self.address,
            "TESSERA_ROLE": "web",
            "TESSERA_SSH_PORT": "0",
            "TESSERA_SECRET_KEY": settings.SECRET_KEY,
            "TESSERA_LISTEN_FDS": str(listener.fileno()),
        }

    def start(self):
        command = [sys.executable, "-m", "config.web"]
        self.process = subprocess.Popen(command, env=self.environment, pass_fds=[self.listener.fileno()])
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{self.address}/livez", timeout=5).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "the portal did not answer within 60 s"
                time.sleep(0.1)

    def kill(self):
        self.process.kill()
        self.process.wait(10)


@pytest.fixture(scope="module")
def web(django_db_setup, listener, tmp_path_factory):
    web = Web(listener, tmp_path_factory.mktemp("portal"))
    web.start()
    yield web
    web.kill()


@pytest.fixture
def cast(web, chromium):
    return elsewhere(make.cast)


@pytest.fixture
def task(cast):
    job = elsewhere(make.job, cast.ada, gpu="1/4", pool="dev")
    return elsewhere(make.start, job)[0]


@pytest.fixture
def page(chromium, web, cast, task):
    """A terminal of ada's in a window of 1000 x 700. Whatever the policy refuses or a script throws fails the test."""
    session = elsewhere(make.session, cast.ada)
    context = chromium.new_context(base_url=web.address, viewport={"width": 1000, "height": 700})
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": web.address}])
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.set_default_timeout(15_000)
    page.goto(f"/terminal/{task.job.public_id}/")
    state_is(page, "connected")
    yield page
    context.close()
    assert not wrong


def test_typed_coloured_and_resized(page):
    run(page, r"printf '\033[31mred\033[0m \033[38;2;1;2;3mtrue\033[0m 中文 end\n'")
    sees(page, "red true 中文 end")
    for words, colour in (("red", "rgb(176, 18, 24)"), ("true", "rgb(1, 2, 3)")):
        shown = page.locator(".xterm-rows span", has_text=re.compile(f"^{words}$")).first
        assert shown.evaluate("e => getComputedStyle(e).color") == colour
    rows, columns = size_of(page, "wide")
    page.set_viewport_size({"width": 700, "height": 500})
    page.wait_for_timeout(300)  # the observer, and the size on its way
    fewer_rows, fewer_columns = size_of(page, "narrow")
    assert fewer_rows < rows and fewer_columns < columns


def test_a_program_changes_neither_the_title_nor_the_clipboard(page):
    title = page.title()
    run(page, r"printf '\033]0;stolen\007\033]52;c;c3RvbGVu\007'; echo do''ne")
    sees(page, "done")
    assert page.title() == title


def test_a_lost_network_finds_the_same_shell(page):
    run(page, "kept=7; echo re''ady")
    sees(page, "ready")
    page.context.set_offline(True)
    state_is(page, "lost")
    page.context.set_offline(False)
    state_is(page, "again")
    run(page, "echo it-is-$kept")
    sees(page, "it-is-7")


def test_a_page_that_is_loaded_again_finds_the_same_shell(page):
    run(page, "kept=8; echo re''ady")
    sees(page, "ready")
    page.reload()
    state_is(page, "again")
    run(page, "echo it-is-$kept")
    sees(page, "it-is-8")


def test_after_a_crash_of_the_web_process_it_is_a_new_shell_and_says_so(page, web):
    run(page, "kept=7; echo re''ady")
    sees(page, "ready")
    web.kill()
    state_is(page, "lost")
    web.start()
    state_is(page, "fresh", timeout=30_000)
    sees(page, "This is a new shell. The one before is gone.")
    run(page, "echo it-is-${kept:-gone}")
    sees(page, "it-is-gone")


def test_the_end_is_said_in_words_and_connecting_again_is_offered(page, task):
    run(page, "exit 3")
    expect(page.locator("#terminal-state")).to_have_text("The shell has ended with code 3.")
    elsewhere(make.move, task, TaskState.SUCCEEDED, "completed", exit_code=0)
    page.locator("#terminal-connect").click()
    expect(page.locator("#terminal-state")).to_have_text("Closed: the task is not running.")
