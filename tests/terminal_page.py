"""What a person does at the terminal's page, and sees there."""

import re

from playwright.sync_api import Page, expect

SOON_MS = 60_000  # to start a shell, while four platforms share two cores


def state_is(page: Page, state: str, timeout: float = SOON_MS) -> None:
    expect(page.locator("#terminal-state")).to_have_attribute("data-state", state, timeout=timeout)


def run(page: Page, command: str) -> None:
    page.keyboard.type(command + "\n")


def sees(page: Page, words: str | re.Pattern[str]) -> None:
    expect(page.locator(".xterm-rows")).to_contain_text(words, timeout=SOON_MS)


def size_of(page: Page, mark: str) -> tuple[int, int]:
    """(rows, columns) as the shell has them. mark: tells this answer from others on the screen."""
    run(page, f"echo {mark}'' $(stty size) ok")
    sees(page, re.compile(rf"{mark} \d+ \d+ ok"))
    rows, columns = re.search(rf"{mark} (\d+) (\d+) ok", page.locator(".xterm-rows").text_content()).groups()
    return int(rows), int(columns)
