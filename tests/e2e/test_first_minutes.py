"""A new member's first ten minutes as a list of clicks, in a team with slices and in one with whole cards only.

Each sentence on the way that promises something is read from the page, and what it promises is waited for.
"""

import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from bench.stack import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
PASSWORD = "correct horse battery staple"
LAB_MS, FEW_SECONDS_MS = 90_000, 60_000  # four platforms may share two cores meanwhile
WHOLE_ONLY = """
from accounts.services import create_team
from cluster.models import Pool
from quotas.models import Quota
train = Pool.objects.get(name="train")
Quota.objects.filter(pool=train).update(gpu_milli_guarantee=0)
Quota.objects.create(team=create_team(name="wholes"), pool=train)
"""
TEAMS = {"slices": ("research", "¼ GPU", "1/4"), "whole": ("wholes", "1 GPU", "1")}
"""{who: (team, what a first job asks, as the job file says it)}."""


@dataclass
class Newcomer:
    """On their first page. size, gpu: what is offered to them. login: the command that the page shows."""

    name: str
    page: Page
    size: str
    gpu: str
    login: str


@pytest.fixture(scope="module")
def stack(stack_with_notebooks):
    stack_with_notebooks.manage("shell", "-v", "0", "-c", WHOLE_ONLY)
    return stack_with_notebooks


@pytest.fixture(scope="module")
def admin(stack, chromium):
    page = chromium.new_context(base_url=stack.url).new_page()
    page.goto(stack.login_link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{stack.url}/")
    return page


@pytest.fixture(scope="module", params=TEAMS)
def newcomer(request, stack, admin, chromium):
    """Invited by an admin, joined by the link."""
    team, size, gpu = TEAMS[request.param]
    admin.goto("/console/people/")
    choose_team(admin, team)
    admin.get_by_role("button", name="Invite").click()
    context = chromium.new_context(base_url=stack.url)
    context.set_default_timeout(FEW_SECONDS_MS)
    page = context.new_page()
    page.goto(admin.locator("code.command span").first.inner_text())
    page.get_by_label("User name").fill(request.param)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create my account").click()
    page.wait_for_url(f"{stack.url}/")
    login = page.locator(".first-steps code.command span").inner_text()
    yield Newcomer(request.param, page, size, gpu, login)
    stack.end_jobs()
    context.close()


class Clicks:
    """Counts what a person presses. Opening a link that somebody sent counts, typing does not."""

    def __init__(self) -> None:
        self.count = 0

    def click(self, what: Locator) -> None:
        what.click()
        self.count += 1

    def choose(self, field: Locator, words: str) -> None:
        field.select_option(label=words)
        self.count += 1

    def open(self, page: Page, address: str) -> None:
        page.goto(address)
        self.count += 1


def test_an_admin_gets_a_new_person_to_their_first_job_in_a_dozen_clicks(stack, admin, chromium):
    began, clicks = time.monotonic(), Clicks()
    admin.goto("/")
    clicks.click(admin.get_by_role("link", name="Console", exact=True).first)
    clicks.click(admin.get_by_role("link", name="Teams", exact=True))
    admin.get_by_label("Name", exact=True).fill("robots")
    clicks.click(admin.get_by_role("button", name="Create the team"))
    admin.get_by_label("Limit of robots in train").fill("1")
    clicks.click(admin.get_by_role("button", name="Save"))
    expect(admin.get_by_label("Limit of robots in train")).to_have_value("1")
    clicks.click(admin.get_by_role("link", name="People", exact=True))
    clicks.choose(admin.get_by_label("Team"), "robots")
    clicks.click(admin.get_by_role("button", name="Invite"))
    clicks.click(admin.get_by_role("button", name="Copy the link"))
    link = admin.locator(".made-list code.command span").inner_text()
    context = chromium.new_context(base_url=stack.url)
    context.set_default_timeout(FEW_SECONDS_MS)
    page = context.new_page()
    clicks.open(page, link)
    page.get_by_label("User name").fill("rosa")
    page.get_by_label("Password").fill(PASSWORD)
    clicks.click(page.get_by_role("button", name="Create my account"))
    clicks.click(page.get_by_role("link", name="Open the example"))
    clicks.click(page.get_by_role("button", name="Submit", exact=True))
    page.wait_for_url("**/j/job-*/")
    page.get_by_role("log").get_by_text("step 5 of 5").wait_for(timeout=FEW_SECONDS_MS)
    context.close()
    stack.end_jobs()
    assert clicks.count <= 12 and time.monotonic() - began < 180


def choose_team(admin: Page, team: str) -> None:
    field = admin.get_by_label("Team")
    words = [option.inner_text() for option in field.locator("option").all()]
    field.select_option(label=next(one for one in words if team in one.lower()))


def test_home_offers_what_can_be_had(newcomer):
    page = newcomer.page
    page.goto("/")
    expect(page.locator("#can-start")).to_contain_text("You can start now:")
    expect(page.locator(".preset-note").first).to_have_text("starts now")
    sizes = page.locator(".preset-size").all_inner_texts()
    assert newcomer.size in sizes and ("½ GPU" in sizes) == (newcomer.name == "slices")


def test_the_example_is_a_job_of_a_few_seconds(newcomer):
    page = newcomer.page
    page.goto("/")
    expect(page.locator(".first-steps")).to_contain_text(f"A job of a few seconds ({newcomer.size}).")
    page.get_by_role("link", name="Open the example").click()
    expect(said_of_the_start(page)).to_contain_text("Starts now")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/j/job-*/")
    page.get_by_role("log").get_by_text("step 5 of 5").wait_for()
    expect(page.locator(".job-state .chip")).to_have_text(re.compile("Done|Succeeded|Finished"), timeout=FEW_SECONDS_MS)
    asked = page.get_by_role("region", name="Requested resources")
    expect(asked.get_by_role("definition").first).to_have_text(newcomer.size)


def test_a_tile_opens_a_notebook_that_is_open_again_from_the_list_and_stops(newcomer):
    page = newcomer.page
    page.goto("/")
    free = free_now(page)
    page.get_by_role("button", name=newcomer.size).click()
    page.wait_for_url(re.compile(r"//[^/]+\.localhost.*/lab"), timeout=LAB_MS)
    page.goto("/notebooks/")
    expect(page.locator("#answer")).to_have_text("1 running.")
    page.get_by_role("link", name="Open", exact=True).click()
    page.wait_for_url(re.compile(r"//[^/]+\.localhost.*/lab"), timeout=LAB_MS)
    page.goto("/quota/")
    expect(page.locator(".quota-line", has_text="Notebooks")).to_contain_text("1 ")
    page.goto("/notebooks/")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Files are kept, and the GPU is released.")
    dialog.get_by_role("button", name="Stop").click()
    expect(page.locator("#answer")).to_have_text(re.compile(r"^\s*(1 stopping\.|None is running)"))
    expect(page.locator("#answer")).to_have_text(
        "None is running. Files are kept; start one to continue.", timeout=FEW_SECONDS_MS
    )
    page.goto("/files/")
    page.get_by_role("link", name="notebooks", exact=True).click()
    page.get_by_role("link", name=folder_of(newcomer), exact=True).wait_for()
    page.goto("/")
    until = time.monotonic() + 20
    while free_now(page) != free and time.monotonic() < until:
        page.wait_for_timeout(200)
    assert free_now(page) == free


def test_the_form_as_it_stands_starts_when_it_says_so_and_a_stop_ends_it(newcomer):
    page = newcomer.page
    page.goto("/jobs/new")
    expect(said_of_the_start(page)).to_contain_text("Starts now")
    page.get_by_label("Command").fill("echo here I am; sleep 300")
    expect(said_of_the_start(page)).to_contain_text("Starts now")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/j/job-*/")
    page.get_by_role("log").get_by_text("here I am").wait_for()
    expect(page.locator(".job-state p").first).to_contain_text("Running on")
    job = page.url.rstrip("/").rpartition("/")[2]
    page.goto("/queue/")
    expect(page.locator("#answer")).to_contain_text("Nothing is waiting.")
    expect(page.locator(f"tr#{job}")).to_contain_text("Running")
    page.goto("/quota/")
    expect(page.locator("tr.is-mine").first.locator("td").nth(5)).to_have_text("1")
    page.goto(f"/j/{job}/")
    page.get_by_role("button", name="Stop", exact=True).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.locator(".job-state p").first).to_contain_text(f"Stopped by {newcomer.name}.", timeout=FEW_SECONDS_MS)


def test_the_command_line_does_what_the_pages_offer(newcomer, stack, tmp_path):
    page = newcomer.page
    page.goto("/")
    page.locator("#free-now").wait_for()
    headline = page.locator("#can-start").inner_text()
    page.goto("/settings/tokens/")
    page.get_by_label("Name", exact=True).fill("laptop")
    page.get_by_role("button", name="Create the token").click()
    secret = page.locator("code.command span").first.inner_text()
    tessera = Terminal(tmp_path)
    assert newcomer.login == f"tessera login {stack.url}"
    assert tessera.run(*newcomer.login.split()[1:], "--token-stdin", stdin=secret + "\n").returncode == 0
    for row in tessera.run("free").stdout.splitlines()[1:]:
        pool, may = row.split()[0], re.split(r"\s{2,}", row.strip())[5]
        assert (float(may) > 0) == (f" in {pool}" in headline), (row, headline)
    (tmp_path / "job.yaml").write_text(f"run: sleep 300\ngpu: {newcomer.gpu}\n")
    assert tessera.run("submit", "job.yaml", "--plan").stdout.startswith("● Starts now")
    job = tessera.run("-o", "name", "submit", "job.yaml").stdout.strip()
    stack.wait_for(job, "running")
    assert tessera.run("stop", job).returncode == 0
    stack.wait_for(job, "cancelled")


def test_apply_moves_a_waiting_job_to_the_pool_that_is_free(newcomer, stack):
    if newcomer.name == "whole":
        pytest.skip("one pool only: there is no other one to go to")
    page = newcomer.page
    stack.api("POST", "/jobs", {"run": "sleep 300", "gpu": 1, "pool": "train"})
    page.goto("/jobs/new")
    page.get_by_label("Command").fill("sleep 300")
    page.locator('label.choice:has(input[name="gpu"][value="1"])').click()
    page.get_by_label("Pool").select_option("train")
    expect(said_of_the_start(page)).to_contain_text("Waiting: ")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/j/job-*/")
    row = page.locator(".levers li", has_text="Pool dev instead of train")
    expect(row).to_contain_text("starts now")
    expect(page.locator("#levers")).to_contain_text("The job keeps its id and its place in the queue.")
    address = page.url
    row.get_by_role("button", name="Apply").click()
    expect(page.locator(".job-state p").first).to_contain_text("Running on", timeout=FEW_SECONDS_MS)
    assert page.url == address


def said_of_the_start(page: Page) -> Locator:
    return page.locator("[data-preview-words]")


def free_now(page: Page) -> list[str]:
    page.locator("#free-now").wait_for()
    return page.locator("[aria-labelledby=free-now] .pool-words b").all_inner_texts()


def folder_of(newcomer: Newcomer) -> str:
    return {"slices": "quarter", "whole": "gpu"}[newcomer.name]


class Terminal:
    """The real command, with a configuration of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA")}
        self.environment = {**kept, "XDG_CONFIG_HOME": str(folder / "config"), "COLUMNS": "120"}

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(ROOT / "bin/tessera"), *words],
            env=self.environment, cwd=self.folder, input=stdin, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
