"""The terminal as a person meets it: in Chromium, in a real job, on the platform that bin/start started."""

import hashlib
import os
import re
import signal
import time

import pytest
from playwright.sync_api import expect

from tests.terminal_page import run, sees, size_of, state_is

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

SLICE = "env | grep -E '^(TESSERA|CUDA|NVIDIA)' | sort; nproc; ulimit -u; id -u"


@pytest.fixture(scope="module")
def signed_in(stack, chromium):
    context = chromium.new_context(base_url=stack.url, viewport={"width": 1000, "height": 700})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(stack.login_link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{stack.url}/")
    page.close()
    yield context
    context.close()


@pytest.fixture
def job(stack):
    """A quarter of a GPU, whose log begins with what its first process finds around itself."""
    made = stack.api("POST", "/jobs", {"run": f"{SLICE}; echo up; sleep 600", "gpu": "1/4", "pool": "dev", "cpu": 1})
    stack.wait_for(made["id"], "running")
    yield made["id"]
    stack.api("POST", f"/jobs/{made['id']}:stop")
    stack.wait_for(made["id"], "cancelled", "succeeded", "failed")


@pytest.fixture
def page(signed_in, job):
    page = signed_in.new_page()
    page.goto(f"/terminal/{job}/")
    state_is(page, "connected")
    yield page
    page.close()


def test_it_types_follows_the_window_copies_and_pastes(page):
    run(page, "echo $((6 * 7))''is typed")
    sees(page, "42is typed")
    rows, columns = size_of(page, "wide")
    page.set_viewport_size({"width": 700, "height": 500})
    page.wait_for_timeout(300)  # the observer, and the size on its way
    fewer_rows, fewer_columns = size_of(page, "narrow")
    assert fewer_rows < rows and fewer_columns < columns

    page.evaluate("navigator.clipboard.writeText('echo $((6 * 8))is pasted')")
    page.keyboard.press("Control+Shift+V")
    page.keyboard.press("Enter")
    sees(page, "48is pasted")
    page.locator(".xterm-rows > div", has_text=re.compile("^48is pasted")).dblclick(
        position={"x": 10, "y": 5},
        force=True,  # a screen lies over the rows
    )
    page.keyboard.press("Control+Shift+C")
    assert page.evaluate("navigator.clipboard.readText()") == "48is"


def test_inside_are_the_slice_and_the_limits_of_the_job(stack, page, job):
    until = time.monotonic() + 15
    while not (log := stack.text(f"/jobs/{job}/logs")).endswith("up\n") and time.monotonic() < until:
        time.sleep(0.1)
    around = log.removesuffix("up\n")
    assert "TESSERA_GPU_MEMORY_MIB=8127\n" in around and "TESSERA_GPU_COMPUTE_PERCENT=25\n" in around
    folder = "/tmp/around"  # a task has a /tmp of its own
    run(page, f"({SLICE}) > {folder}; clear; md5sum < {folder}")
    sees(page, md5_of(around))


def md5_of(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def test_a_cut_connection_finds_the_same_shell(page):
    run(page, "kept=7; echo re''ady")
    sees(page, "ready")
    page.context.set_offline(True)
    state_is(page, "lost")
    expect(page.locator("#terminal-state")).to_contain_text("The shell is kept for one minute.")
    page.context.set_offline(False)
    state_is(page, "again")
    run(page, "echo it-is-$kept")
    sees(page, "it-is-7")


def test_after_a_crash_of_the_web_process_it_is_a_new_shell_and_says_so(stack, page):
    run(page, "kept=7; echo re''ady")
    sees(page, "ready")
    os.kill(stack.children()["web"], signal.SIGKILL)
    state_is(page, "lost")
    state_is(page, "fresh", timeout=60_000)  # bin/start has started it again
    expect(page.locator("#terminal-state")).to_have_text("Connected to a new shell: the previous one is gone")
    sees(page, "This is a new shell. The previous one is gone.")
    run(page, "echo it-is-${kept:-gone}")
    sees(page, "it-is-gone")


def test_its_end_is_said_and_stands_in_the_history(page, job):
    run(page, "exit 3")
    expect(page.locator("#terminal-state")).to_have_text("The shell has ended with code 3.")
    page.goto(f"/j/{job}/?tab=events")
    history = page.locator(".events")
    expect(history).to_contain_text("Opened a terminal by admin")
    expect(history).to_contain_text(re.compile(r"Closed the terminal after \d+s by admin"))
