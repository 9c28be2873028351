"""The terminal's page in a real browser on a real server: typed, resized, lost and found, under the strict policy."""

import re

import pytest
from playwright.sync_api import expect

from jobs.states import TaskState
from tests import make
from tests.terminal_page import run, sees, size_of, state_is
from tests.web_process import browsing, elsewhere, running_web

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def web(django_db_setup, tmp_path_factory):
    data = tmp_path_factory.mktemp("portal")
    with running_web(TESSERA_ACCESS="tests.pty_access.PtyAccess", TESSERA_DATA=data, TESSERA_LOGS=data) as web:
        yield web


@pytest.fixture
def cast(web, chromium):
    return elsewhere(make.cast)


@pytest.fixture
def task(cast):
    job = elsewhere(make.job, cast.ada, gpu="1/4", pool="dev")
    return elsewhere(make.start, job)[0]


@pytest.fixture
def page(chromium, web, cast, task):
    """A terminal of ada's in a window of 1000 x 700."""
    session = elsewhere(make.session, cast.ada)
    with browsing(chromium, web.url, session, viewport={"width": 1000, "height": 700}) as page:
        page.goto(f"/terminal/{task.job.public_id}/")
        state_is(page, "connected")
        yield page


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
    state_is(page, "fresh")
    sees(page, "This is a new shell. The previous one is gone.")
    run(page, "echo it-is-${kept:-gone}")
    sees(page, "it-is-gone")


def test_the_end_is_said_in_words_and_connecting_again_is_offered(page, task):
    run(page, "exit 3")
    expect(page.locator("#terminal-state")).to_have_text("The shell has ended with code 3.")
    elsewhere(make.move, task, TaskState.SUCCEEDED, "completed", exit_code=0)
    page.locator("#terminal-connect").click()
    expect(page.locator("#terminal-state")).to_have_text("Closed: the task is not running.")
