"""How long a person waits: submit to RUNNING by REST, and submit to the first log line in a real browser.

bin/bench latency [--runs 20] [--notebook]. Prints p50 and p95 in milliseconds; exits 1 where a goal is missed.
With --notebook instead: 10 warm starts of a notebook, from the click on its size at home until a cell has printed.
"""

import argparse
import os
import re
import shutil
import statistics
import sys
import time

from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from bench.stack import Stack, running_stack

GOALS_MS = {"submit_to_running": 700, "submit_to_first_line": 700, "click_to_printed": 7000}
NOTEBOOK_RUNS, WITHIN_MS = 10, 300_000
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench latency", description=__doc__)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--notebook", action="store_true")
    asked = parser.parse_args()
    if asked.notebook:
        return measure_notebooks(asked.runs or NOTEBOOK_RUNS)
    runs = asked.runs or 20
    with running_stack(notebooks=False) as stack, sync_playwright() as playwright:
        figures = {"submit_to_running": [until_running(stack, n) for n in range(runs)]}
        browser = launch(playwright)
        page = signed_in(browser, stack)
        figures["submit_to_first_line"] = [until_first_line(page, stack, n) for n in range(runs)]
        browser.close()
    return report(figures)


def measure_notebooks(runs: int) -> int:
    """One start that is not counted (the browser's and the machine's caches), then `runs` that are."""
    with running_stack() as stack, sync_playwright() as playwright:
        stack.wait_for_environment()
        browser = launch(playwright)
        context = signed_in(browser, stack).context
        took = [until_printed(context, stack, n) for n in range(runs + 1)][1:]
        browser.close()
    return report({name: [one[name] for one in took] for name in took[0]})


def until_printed(context: BrowserContext, stack: Stack, number: int) -> dict[str, float]:
    """Milliseconds from the click on a size at home until a cell has printed, and their parts. Stops it again."""
    page = context.new_page()
    page.goto(f"{stack.url}/")
    size = page.get_by_role("button", name="¼ GPU")
    size.click(trial=True)
    at = [time.monotonic()]
    size.click()
    page.wait_for_url(re.compile(r"//[a-z2-7]{20}\."), wait_until="commit", timeout=WITHIN_MS)
    at.append(time.monotonic())
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").last.click(timeout=WITHIN_MS)
    at.append(time.monotonic())
    page.keyboard.press("Control+a")  # JupyterLab saves by itself, so that the cell may hold what was typed last time
    page.keyboard.type(f"print({number} + 1000)")
    page.get_by_text("| Idle").first.wait_for(timeout=WITHIN_MS)  # without a kernel JupyterLab runs a cell as nothing
    page.keyboard.press("Shift+Enter")
    page.locator(".jp-OutputArea-output").get_by_text(f"{number + 1000}", exact=True).wait_for(timeout=WITHIN_MS)
    at.append(time.monotonic())
    page.close()
    stop_notebook(stack, stack.api("GET", "/notebooks")["results"][0]["id"])
    parts = zip(("click_to_answer", "answer_to_cell", "cell_to_printed"), at, at[1:], strict=False)
    return {"click_to_printed": 1000 * (at[-1] - at[0]), **{name: 1000 * (to - since) for name, since, to in parts}}


def stop_notebook(stack: Stack, notebook: str) -> None:
    """A made one may have been started at once; either way it rests afterwards."""
    live = ("queued", "starting", "running")
    if stack.api("GET", f"/notebooks/{notebook}")["state"].lower() in live:
        stack.api("POST", f"/notebooks/{notebook}:stop")
    while stack.api("GET", f"/notebooks/{notebook}")["state"].lower() in (*live, "stopping"):
        time.sleep(0.1)


def until_running(stack: Stack, number: int) -> float:
    """Milliseconds from the POST until a GET says running."""
    began = time.monotonic()
    job = stack.api("POST", "/jobs", {"run": "sleep 20", "name": f"run {number}", "gpu": "1/4"})["id"]
    stack.wait_for(job, "running", look_s=0.01)
    took = 1000 * (time.monotonic() - began)
    stack.api("POST", f"/jobs/{job}:stop")
    stack.wait_for(job, "cancelled", "failed", "succeeded", look_s=0.1)
    return took


def until_first_line(page: Page, stack: Stack, number: int) -> float:
    """Milliseconds from the click on Submit until the line stands on the job's page."""
    word = f"first-line-{number}"
    page.goto(f"{stack.url}/jobs/new")
    page.fill("[name=run]", f"echo {word}; sleep 1")
    page.fill("[name=name]", f"line {number}")
    page.wait_for_timeout(700)  # the preview settles, as it does for a person
    began = time.monotonic()
    page.click("button[data-submit]")
    page.locator(".log-lines", has_text=word).wait_for()
    return 1000 * (time.monotonic() - began)


def signed_in(browser: Browser, stack: Stack) -> Page:
    page = browser.new_context().new_page()
    page.goto(stack.login_link)
    page.click("form .btn-primary")
    page.wait_for_url(f"{stack.url}/")
    return page


def launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_ARGUMENTS)


def find_chromium() -> str | None:
    return os.environ.get("TESSERA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def report(figures: dict[str, list[float]]) -> int:
    missed = 0
    print(f"{'':24}{'p50':>8}{'p95':>8}{'min':>8}{'max':>8}  goal p50")
    for name, values in figures.items():
        p50, p95 = statistics.median(values), statistics.quantiles(values, n=20, method="inclusive")[18]
        goal = f"{GOALS_MS[name]} ms" if name in GOALS_MS else ""
        missed += p50 > GOALS_MS.get(name, p50)
        print(f"{name:24}{p50:8.0f}{p95:8.0f}{min(values):8.0f}{max(values):8.0f}  {goal}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
