"""The platform as a person starts it: by bin/start, over REST, in Chromium. Nothing in it is replaced.

Names of roles in the browser tests are what a screen reader would say, so they hold the pages to that as well.
"""

import time
import uuid

import pytest

from bench.stack import ENDED, Stack

pytestmark = pytest.mark.slow

SMALL = {"cpu": "50m", "memory": "128MiB"}


@pytest.fixture(autouse=True)
def nothing_runs_on(stack):
    """Each test leaves the cards as it found them."""
    yield
    stack.end_jobs()


def submit(stack: Stack, run: str = "sleep 60", **spec) -> str:
    return stack.api("POST", "/jobs", {"run": run, "name": f"t {uuid.uuid4().hex[:6]}", **SMALL, **spec})["id"]


def test_eight_jobs_of_4gb_share_a_card_and_a_ninth_says_why_it_waits(stack):
    jobs = [submit(stack, gpu="4GB", pool="dev") for _ in range(9)]
    running = [stack.wait_for(job, "running") for job in jobs[:8]]
    assert len({job["tasks"][0]["gpus"][0]["uuid"] for job in running}) == 1
    assert all(job["tasks"][0]["gpus"][0]["memory_mib"] == 3815 for job in running)
    waits = wait_reason(stack, jobs[8])
    assert waits["code"] == "no_fit_now" and "4 GB" in waits["text"]


def test_a_quarter_a_half_and_a_quarter_fill_a_card(stack):
    jobs = [submit(stack, gpu=gpu, pool="dev") for gpu in ("1/4", "1/2", "1/4")]
    shares = [stack.wait_for(job, "running")["tasks"][0]["gpus"][0] for job in jobs]
    assert [share["memory_mib"] for share in shares] == [8127, 16255, 8127]
    assert len({share["uuid"] for share in shares}) == 1
    assert wait_reason(stack, submit(stack, gpu="1/100", pool="dev"))["code"] == "no_fit_now"


def test_a_team_at_its_limit_waits_and_starts_within_two_seconds_of_a_release(stack):
    change_limit(stack, 500)
    try:
        assert any(start_after_release(stack) < 2 for _ in range(3)), "none of three: other tests may take one"
    finally:
        change_limit(stack, None)


def start_after_release(stack: Stack) -> float:
    """Seconds from the end of the job that held the team's limit to the start of the one that waited for it."""
    first, second = submit(stack, gpu="1/2", pool="dev"), submit(stack, gpu="1/4", pool="dev")
    stack.wait_for(first, "running")
    assert wait_reason(stack, second)["code"] == "team_limit"
    stack.api("POST", f"/jobs/{first}:stop")
    stack.wait_for(first, "cancelled", look_s=0.05)
    released = time.monotonic()
    stack.wait_for(second, "running", "succeeded", look_s=0.05)
    started = time.monotonic()
    stack.api("POST", f"/jobs/{second}:stop")
    stack.wait_for(second, *ENDED)
    return started - released


def test_a_log_streams_to_a_program_while_it_is_written(stack):
    job = submit(stack, run="for n in 1 2 3; do echo line $n; sleep 0.2; done")
    stack.wait_for(job, "running", *ENDED)
    stack.wait_for(job, "succeeded")
    assert stack.text(f"/jobs/{job}/logs") == "line 1\nline 2\nline 3\n"


def test_a_running_job_survives_a_stop_and_a_start_of_the_platform(stack):
    job = submit(stack, run="sleep 14; echo I was never gone")
    stack.wait_for(job, "running")
    assert stack.stop() < 10
    stack.start()
    assert stack.wait_for(job, *ENDED)["state"] == "succeeded"
    assert "never gone" in stack.text(f"/jobs/{job}/logs")
    events = stack.api("GET", f"/jobs/{job}/events")["results"]
    assert sum(event["to_state"] == "running" and event["kind"] == "task" for event in events) == 1


@pytest.fixture(scope="module")
def page(stack, chromium):
    """Signed in by the link that bin/start printed."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(stack.url + stack.manage("login_link", "admin").strip())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{stack.url}/")
    yield page
    context.close()


@pytest.mark.browser
def test_submit_in_the_form_watch_the_log_arrive_and_stop_it(stack, page):
    page.goto(f"{stack.url}/jobs/new")
    page.get_by_label("Name", exact=True).fill("from the browser")
    page.get_by_label("Command").fill("for n in $(seq 1 400); do echo count $n; sleep 0.3; done")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/j/job-*/")
    here = page.evaluate("performance.timeOrigin")
    page.get_by_role("log").get_by_text("count 3", exact=True).wait_for()
    assert page.evaluate("performance.timeOrigin") == here, "the page was loaded anew"
    page.get_by_role("button", name="Stop").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    page.get_by_text("Cancelled").first.wait_for()


@pytest.mark.browser
def test_the_queue_tells_another_reason_without_a_reload(stack, page):
    first = submit(stack, gpu=1, pool="train")
    stack.wait_for(first, "running")
    waits = submit(stack, gpu=1, pool="train")
    page.goto(f"{stack.url}/queue/?pool=train")
    row = page.get_by_role("row").filter(has_text=waits)
    row.get_by_text("not enough whole GPUs are free").wait_for()
    here = page.evaluate("performance.timeOrigin")
    stack.api("POST", f"/jobs/{waits}:hold")
    row.get_by_text("held by admin").wait_for()
    stack.api("POST", f"/jobs/{waits}:release")
    stack.api("POST", f"/jobs/{first}:stop")
    row.get_by_text("Running").wait_for()
    assert page.evaluate("performance.timeOrigin") == here, "the page was loaded anew"


@pytest.mark.browser
def test_script_in_a_name_a_variable_and_a_log_stays_text(stack, page):
    evil = "<img src=x onerror=document.title='owned'>"
    job = submit(
        stack, run=f'echo "{evil}"; printf "\\033]0;owned\\007\\033]52;c;b3duZWQ=\\007done\\n"', env={"NOTE": evil}
    )
    stack.wait_for(job, "succeeded")
    page.goto(f"{stack.url}/j/{job}/")
    page.get_by_role("log").get_by_text("done").wait_for()
    assert evil in page.get_by_role("log").inner_text()
    assert "owned" not in page.title() and page.locator("img[src=x]").count() == 0


def wait_reason(stack: Stack, job: str) -> dict:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        reasons = stack.api("GET", f"/jobs/{job}/wait")["reasons"]
        if reasons and reasons[0]["code"] != "unexplained":
            return reasons[0]
        time.sleep(0.05)
    raise AssertionError(f"{job} waits without a reason")


def change_limit(stack: Stack, gpu_milli: int | None) -> None:
    stack.manage("shell", "-v", "0", "-c", CHANGE_LIMIT.format(gpu_milli))


CHANGE_LIMIT = """
from accounts.models import User
from quotas.models import Quota
from quotas.services import save_quota
quota = Quota.objects.get(pool__name="dev")
quota.gpu_milli_guarantee, quota.gpu_milli_limit = 0, {}
save_quota(actor=User.objects.get(username="admin"), quota=quota)
"""
