"""A notebook as a person meets it: from the printed link to a cell's output, in Chromium, on the real platform."""

import time

import pytest

from bench.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.begins_first]
LAB_MS = 90_000


@pytest.fixture(scope="module")
def stack(stack_with_notebooks):
    return stack_with_notebooks


@pytest.fixture
def clicks():
    """Every press of a mouse button, as the browser itself tells it on whatever page it is."""
    return []


@pytest.fixture
def page(chromium, clicks):
    context = chromium.new_context()
    context.expose_binding("tellClick", lambda source: clicks.append(source["page"].url))
    context.add_init_script('addEventListener("pointerdown", (event) => event.isTrusted && tellClick(), true)')
    yield context.new_page()
    context.close()


def test_three_clicks_from_the_link_to_a_printed_cell_and_a_restart_keeps_the_file(stack: Stack, page, clicks):
    page.goto(stack.login_link)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="½ GPU").click()  # the starting page goes on by itself
    cell = page.locator(".jp-Notebook .jp-CodeCell .cm-content")
    cell.click(timeout=LAB_MS)
    page.keyboard.type("print(6 * 7)")
    page.get_by_text("| Idle").first.wait_for(timeout=LAB_MS)  # without a kernel JupyterLab runs a cell as nothing
    page.keyboard.press("Shift+Enter")
    page.locator(".jp-OutputArea-output").get_by_text("42", exact=True).wait_for(timeout=LAB_MS)
    assert page.evaluate("location.hostname").endswith(".localhost"), "not on an origin of its own"
    assert 0 < len(clicks) <= 3, clicks
    page.keyboard.press("Control+s")
    page.locator(".jp-DirListing-item", has_text="Untitled.ipynb").wait_for()
    page.locator(".jp-mod-dirty").first.wait_for(state="detached")  # what is not saved yet does not come back

    [notebook] = stack.api("GET", "/notebooks")["results"]
    stack.api("POST", f"/notebooks/{notebook['id']}:stop")
    wait_for_state(stack, notebook["id"], "stopped")
    page.goto(f"{stack.url}/n/{notebook['id']}/open")
    page.get_by_role("button", name="Start").click()
    page.locator(".jp-Notebook .jp-OutputArea-output").get_by_text("42", exact=True).wait_for(timeout=LAB_MS)


def wait_for_state(stack: Stack, notebook: str, state: str) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if (found := stack.api("GET", f"/notebooks/{notebook}")["state"]).lower() == state:
            return
        time.sleep(0.1)
    raise AssertionError(f"{notebook} is {found} and not {state}")
