"""`bin/pictures`: README's pictures, from a demo that runs, so that they never age."""

import os
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.pictures.demo import GPUS, PASSWORD, fill
from bench.pictures.moving_png import join_pictures
from bench.stack import ROOT, Stack, running_stack

IMAGES = ROOT / "docs/images"
MOST_BYTES = 3_000_000
BROWSER = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WINDOW = {"width": 1200, "height": 750}


def main() -> None:
    chromium = os.environ.get("TESSERA_CHROMIUM") or shutil.which("chromium")
    with running_stack(GPUS) as stack, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER)
        fill(stack)
        stack.wait_for_environment()
        context = browser.new_context(base_url=stack.url, viewport=WINDOW, color_scheme="light")
        page = context.new_page()
        sign_in(page)
        moving = join_pictures(show_tour(stack, page))
        if len(moving) > MOST_BYTES:
            raise SystemExit(f"The moving picture has {len(moving)} bytes, more than {MOST_BYTES}.")
        write("tour.png", moving)
        page.set_viewport_size({"width": 1440, "height": 942})
        page.goto(page_of_job(stack))
        page.wait_for_timeout(3000)
        write("job.png", page.screenshot())
        page.get_by_role("link", name="Metrics").click()
        page.wait_for_timeout(120_000)  # until the curves have a form
        write("metrics.png", page.screenshot())
        browser.close()


def write(name: str, content: bytes) -> None:
    Path(IMAGES / name).write_bytes(content)
    print(f"docs/images/{name}: {len(content):,} bytes", flush=True)


def sign_in(page: Page) -> None:
    page.goto("/sign-in/")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")


def page_of_job(stack: Stack) -> str:
    [job] = [one for one in stack.api("GET", "/jobs?limit=100")["results"] if one["name"] == "llama-dpo"]
    return f"/j/{job['id']}/"


def show_tour(stack: Stack, page: Page) -> list[tuple[bytes, float]]:
    """Submit a job, watch it, see the queue and the map, open a notebook: (picture, seconds) of each step."""
    frames = []

    def show(seconds: float, wait_ms: int = 600) -> None:
        page.wait_for_timeout(wait_ms)
        frames.append((page.screenshot(), seconds))

    page.goto("/jobs/new")
    show(1.0)
    page.locator("[name=name]").fill("llama-dpo")
    page.locator("[name=run]").fill("python3 ~/train.py 0")
    show(1.6, 1500)
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/j/**")
    show(0.8, 2000)
    show(0.8, 1500)
    show(1.6, 1500)
    page.goto("/queue/")
    show(2.6)
    page.goto("/cluster/gpus/")
    show(2.6)
    page.goto("/notebooks/new")
    page.locator("[name=name]").fill("explore")
    show(1.2)
    page.get_by_role("button", name="Create and start").click()
    show(1.2, 1200)
    cell = page.locator(".jp-Cell .cm-content").first
    cell.wait_for(timeout=90_000)
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=60_000)
    cell.click()
    page.keyboard.type("import os\n{name: os.environ[name] for name in ('TESSERA_JOB', 'TESSERA_TEAM')}")
    show(1.0)
    page.keyboard.press("Shift+Enter")
    show(3.0, 2500)
    return frames


if __name__ == "__main__":
    main()
