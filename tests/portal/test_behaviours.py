"""The frame's scripts in a real browser, on a real server with the real socket: live parts, logs, dialogs, the CSP."""

import re
from importlib import import_module

import pytest
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.utils import timezone
from playwright.sync_api import expect

from cluster.models import Agent
from jobs.models import BroughtLog
from jobs.states import TaskState
from runtimes.log_store import LogStore
from tests import make
from tests.web_process import browsing, elsewhere, running_web

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HOSTILE = (
    "\x1b[1;31mred\x1b[0m <b onclick=alert(1)>第二</b>\x1b]0;title\x07\x1b[2J\x1b]8;;javascript:alert(1)\x1b\\link\n"
)


NO_SOCKET = """window.WebSocket = class {
    static OPEN = 1;
    readyState = 3;
    constructor() { setTimeout(() => this.onclose({ code: 1006 })); }
};"""


@pytest.fixture(scope="module")
def portal(django_db_setup, tmp_path_factory):
    """The address of the web process."""
    with running_web(TESSERA_LOGS=tmp_path_factory.mktemp("portal")) as web:
        yield web.url


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
    """A page of ada's browser."""
    with browsing(chromium, portal, session) as page:
        yield page


def is_live(page) -> None:
    page.wait_for_selector("#live[data-state=live]")


PHONE = {"width": 390, "height": 844}
PAGES = ["/", "/jobs/", "/jobs/new", "/queue/", "/cluster/", "/cluster/gpus/", "/reports/", "/settings/tokens/"]


@pytest.mark.parametrize("path", PAGES)
def test_no_page_needs_what_the_policy_forbids(page, path):
    assert page.goto(path).status == 200
    is_live(page)


def test_a_page_says_as_of_when_it_is_while_the_platform_sees_nothing_new(page, job):
    page.goto(f"/j/{job.public_id}/")
    is_live(page)
    head = page.locator("h1").inner_text()
    note = '<div class="note" data-note><div data-note-text>It is away.</div></div>'
    headers = {"HX-Retarget": "#notes", "HX-Reswap": "beforeend", "HX-Trigger": "live:away"}
    page.route("**/j/**", lambda route: route.fulfill(status=503, headers=headers, body=note, content_type="text/html"))
    for _ in range(2):
        page.evaluate('document.body.dispatchEvent(new CustomEvent("live:refresh"))')
        page.wait_for_selector("#live[data-state=away]")
    expect(page.locator("#live")).to_contain_text("the database does not respond")
    expect(page.locator("#notes [data-note]")).to_have_count(1)
    assert page.locator("h1").inner_text() == head
    page.unroute("**/j/**")
    page.evaluate('document.body.dispatchEvent(new CustomEvent("live:refresh"))')
    is_live(page)


def test_a_page_counts_from_when_the_database_last_answered_not_from_when_it_heard_that(page, job):
    page.route("**/*", fail_for_parts)  # one that is answered is a sign that the database is back
    page.route_web_socket("**/live", lambda socket: socket.send('{"now": "2026-01-01T00:00Z", "away": 50}'))
    page.goto(f"/j/{job.public_id}/")
    expect(page.locator("#live")).to_have_text(re.compile(r"5\d s ago: the database does not respond"))


def fail_for_parts(route) -> None:
    if "hx-request" in route.request.headers:
        route.fulfill(status=503)
    else:
        route.continue_()


def test_a_part_of_the_page_changes_when_its_object_does(page, job):
    page.goto(f"/j/{job.public_id}/")
    is_live(page)
    page.evaluate("document.body.dataset.same = 'yes'")
    elsewhere(make.start, job)
    page.locator("main .chip-work:has-text('Running')").first.wait_for()
    assert page.evaluate("document.body.dataset.same") == "yes"


def test_what_changes_while_the_scripts_of_a_page_still_come_is_seen(page, job):
    held = []
    page.route(re.compile(r"/copy\b.*\.js"), lambda route: held.append(route))
    page.goto(f"/j/{job.public_id}/", wait_until="commit")
    page.locator(".chip-wait").first.wait_for()
    page.wait_for_timeout(1000)  # as long as a socket takes to open
    elsewhere(make.start, job)
    page.wait_for_timeout(1000)
    held[0].continue_()
    page.locator("main .chip-work:has-text('Running')").first.wait_for(timeout=5000)


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


def test_what_a_log_lacks_is_said_beside_the_lines_that_it_has(page, job, store):
    task = elsewhere(make.start, job)[0]
    elsewhere(BroughtLog.objects.create, task=task, behind_since=timezone.now())
    elsewhere(make.agent, task.node.name)
    elsewhere(Agent.objects.update, logs_at=timezone.now())
    store.append(str(task.uuid), 0, b"one\n")
    page.goto(f"/j/{job.public_id}/?tab=log")
    expect(page.locator(".log-lines")).to_have_text("one")
    expect(page.get_by_text("more is written than can be transferred at once")).to_be_visible()


def test_on_a_phone_no_tab_is_out_of_sight(chromium, portal, cast):
    with browsing(chromium, portal, elsewhere(lambda: make.session(make.admin())), viewport=PHONE) as page:
        for path in ("/cluster/", "/cluster/health/"):
            page.goto(path)
            assert page.locator("nav.tabs").evaluate("e => e.scrollWidth - e.clientWidth") == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


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


def test_the_palette_and_the_keys_lead_everywhere_without_a_mouse(page, job):
    chosen = page.locator("#palette [aria-selected=true]")
    page.goto("/quota/")
    page.keyboard.press("Control+k")
    expect(chosen).to_have_text("Submit a job")
    page.keyboard.type(job.public_id)
    expect(page.get_by_text("3 results")).to_be_attached()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("asks before it stops")
    expect(page.get_by_role("combobox")).to_have_attribute("aria-activedescendant", chosen.get_attribute("id"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name=f"Stop {job.public_id}, ")).to_be_visible()  # it asks
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.keyboard.press("?")
    page.get_by_label("Single keys work").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.type("gq?")
    page.keyboard.press("Control+k")
    page.keyboard.type("shortcuts")
    page.keyboard.press("Enter")  # before the answer: its first option is meant
    page.get_by_label("Single keys work").check()
    assert page.url.endswith(f"/j/{job.public_id}/")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.keyboard.type("gj")
    page.wait_for_url("**/jobs/")
    page.keyboard.type("/gc")
    expect(page.get_by_role("searchbox")).to_have_value("gc")
    page.get_by_role("searchbox").blur()
    page.keyboard.type("j")
    expect(page.locator("tr :focus")).to_have_attribute("href", f"/j/{job.public_id}/")
    page.keyboard.press("Control+k")
    expect(chosen).to_have_attribute("href", f"/j/{job.public_id}/")  # the page before
