"""What a browser shows can be read: the contrast of every button in each look, and the queue on a phone."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from accounts.ssh_keys import add_ssh_key
from jobs.models import Job
from jobs.states import TaskState
from notebooks.environment import READY, environment_path
from notebooks.models import Notebook
from notebooks.services import create_notebook, start_notebook
from scheduler.models import Forecast, Lease
from tests import make
from tests.portal.pages.rail import BUSY
from tests.web_process import browsing, elsewhere, running_web
from tests.whole import WHOLE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MEASURE = (Path(__file__).parent / "contrast.js").read_text()
BUTTONS = "button, summary, [role=button], .btn, .tool, .tabs a, .pick a, .menu-item, .side-link, .bottom-link, .choice"
OPEN_ALL = """() => {
    document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
    document.querySelectorAll("dialog").forEach((dialog) => { dialog.setAttribute("open", ""); });
    document.querySelectorAll("[popover]").forEach((menu) => { menu.removeAttribute("popover"); });
}"""
CHOOSE_LOOK = """(look) => {
    document.documentElement.dataset.look = look;
    if (look === "auto") delete document.documentElement.dataset.bsTheme;
    else document.documentElement.dataset.bsTheme = look;
}"""
HOVER_ALL = """() => {  // by another pseudo-class that weighs the same, and that holds for all
    const change = (rules) => [...rules].forEach((rule) => {
        if (rule.selectorText?.includes(":hover")) {
            rule.selectorText = rule.selectorText.replaceAll(":hover", ":not(.never)");
        }
        if (rule.cssRules) change(rule.cssRules);
    });
    [...document.styleSheets].forEach((sheet) => change(sheet.cssRules));
}"""
PLANT_AND_MEASURE = f"""(button, buttons) => {{
    button.classList.add("planted");
    button.style.setProperty("color", "#111", "important");
    button.style.setProperty("background", "#000", "important");
    return ({MEASURE})(buttons);
}}"""
LOOKS = [("auto", "light"), ("auto", "dark"), ("light", "dark"), ("dark", "light")]
"""(what the person has chosen, what their system says)"""

LONG = "llama-sft-warmup-seed-3"
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
LEAST_CHARACTERS = 8
MOST_LINES = 3
MEASURE_NAMES = """(all) => all.map((cell) => {
    const name = cell.firstElementChild, style = getComputedStyle(name), box = cell.getBoundingClientRect();
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    pen.font = style.font;
    const line = parseFloat(style.lineHeight);
    return {
        text: name.textContent,
        characters: name.getBoundingClientRect().width / pen.measureText("0").width,
        name_lines: name.getBoundingClientRect().height / line,
        lines: box.height / line,
    };
})"""


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """The platform's data, with JupyterLab installed."""
    data = tmp_path_factory.mktemp("data")
    environment = environment_path(data)
    environment.mkdir(parents=True)
    (environment / READY).touch()
    return data


@pytest.fixture(scope="module")
def portal(django_db_setup, data):
    """The address of the web process."""
    with running_web(TESSERA_DATA=data, TESSERA_LOGS=data / "logs") as web:
        yield web.url


@pytest.fixture
def cast(portal, chromium, data, settings):
    settings.TESSERA_DATA, settings.TESSERA_FILES = data, data / "files"
    return elsewhere(make_busy_world)


def make_busy_world() -> make.Cast:
    """Something of each kind: notebooks and jobs in several states, and what ada has in her settings."""
    now = timezone.now()
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=now)
    cast = make.cast()
    cast.running = make_notebook(cast.ada, "explore")
    start_notebook(actor=cast.ada, notebook=cast.running, check=lambda draft: None, containers=False)
    make.start(Notebook.objects.get(pk=cast.running.pk).job)
    Notebook.objects.filter(pk=cast.running.pk).update(ready_at=now)
    cast.stopped = make_notebook(cast.ada, "evening")
    cast.job = make.job(cast.ada, name="llama-eval", gpu="1/4", pool="dev", time="2h")
    make.start(cast.job)
    failed = make.job(cast.ada, name="llama-broken", gpu="1/4", pool="dev")
    make.start(failed)
    make.end(failed, TaskState.FAILED, "exit_nonzero", 1)
    for place, (person, name) in enumerate([(cast.ada, LONG), (cast.bob, "b"), (cast.ada, f"{LONG} 第二次训练")], 1):
        waiting = make.job(person, name=name, gpu="1", pool="train", time="4h")
        reason = {"code": "resources", "params": {"pool": "train"}}
        Job.objects.filter(pk=waiting.pk).update(wait_reasons=[reason], wait_position=place, wait_of=3)
        times = {"p10": timedelta(hours=20), "p50": timedelta(hours=30), "p90": timedelta(hours=50)}
        starts = {name: now + place * wait for name, wait in times.items()}
        Forecast.objects.create(job=waiting, attempt=1, made_at=now, told_at=now, **starts)
    cast.waiting = waiting
    make.token(cast.ada)
    add_ssh_key(user=cast.ada, name="laptop", key=make.ssh_key())
    cast.webhook = make.webhook(cast.ada)
    cast.schedule, cast.service = make.schedule(cast.ada), make.service(cast.ada)
    cast.array = make.array(cast.ada, {"lr": ["1e-4", "3e-4"], "at_once": 1})
    cast.dataset = make.dataset(cast.ada)
    cast.template = make.template(cast.ada, cast.nlp)
    make.image(cast.bob, cast.nlp)
    cast.volume = make.volume(make.admin("nora"), description="Pictures of a thousand kinds of things.")
    make.maintenance(cast.node, begins_in_s=86_400)
    return cast


def make_notebook(person, name) -> Notebook:
    return create_notebook(user=person, name=name, gpu="1/4")


@pytest.mark.slow
def test_every_button_can_be_read_in_each_look(chromium, portal, cast):
    pages = [
        "/", "/jobs/", f"/j/{cast.job.public_id}/", f"/j/{cast.waiting.public_id}/", "/jobs/new",
        "/notebooks/", "/notebooks/new", f"/n/{cast.running.public_id}/", f"/n/{cast.stopped.public_id}/",
        f"/n/{cast.stopped.public_id}/open", "/queue/", "/cluster/", "/cluster/gpus/", "/cluster/images/",
        "/templates/", "/templates/first-steps/",
        "/nodes/n1/", "/quota/", "/reports/", "/files/", "/notices/", "/settings/notifications/", "/settings/password/",
        "/services/", f"/services/{cast.service.public_id}/",
        "/schedules/", "/schedules/new", f"/schedules/{cast.schedule.public_id}/",
        "/settings/tokens/", "/settings/ssh-keys/", "/settings/webhooks/", f"/settings/webhooks/{cast.webhook.pk}/",
    ]  # fmt: skip
    session = elsewhere(make.session, cast.ada)
    with browsing(chromium, portal, session, viewport=WIDE, reduced_motion="reduce") as page:
        played = pages if WHOLE else pages[::2]
        assert "\n".join(faint for path in played for faint in list_faint_buttons(page, path)) == ""


@pytest.mark.slow
def test_every_button_of_an_admin_can_be_read_in_each_look(chromium, portal, cast):
    session = elsewhere(lambda: make.session(make.admin()))
    with browsing(chromium, portal, session, viewport=WIDE, reduced_motion="reduce") as page:
        pages = ("/", "/cluster/health/", "/nodes/n1/", "/console/people/")
        assert "\n".join(faint for path in pages for faint in list_faint_buttons(page, path)) == ""


@pytest.mark.parametrize("path", ["/notebooks/", "/sign-in/"])
def test_every_button_can_be_read(chromium, portal, cast, path):
    session = elsewhere(make.session, cast.ada) if path != "/sign-in/" else "none"
    with browsing(chromium, portal, session, viewport=WIDE, reduced_motion="reduce") as page:
        assert "\n".join(list_faint_buttons(page, path)) == ""


def test_what_measures_contrast_finds_black_on_black(chromium, portal, cast):
    with browsing(chromium, portal, elsewhere(make.session, cast.ada)) as page:
        page.goto("/notebooks/")
        page.wait_for_selector(BUSY, state="detached")
        # In one turn, for a live page may draw its rows anew between two.
        measured = page.locator(".row-tools .btn").first.evaluate(PLANT_AND_MEASURE, BUTTONS)
        (planted,) = [found for found in measured if "planted" in found["what"]]
        assert planted["ratio"] < 1.2 and planted["least"] == 4.5


def list_faint_buttons(page, path: str) -> list[str]:
    """Those of too little contrast, at rest and under the pointer, in each look."""
    assert page.goto(path).status == 200
    page.wait_for_selector(BUSY, state="detached")
    page.evaluate(OPEN_ALL)
    faint = []
    for hovered in (False, True):
        if hovered:
            page.evaluate(HOVER_ALL)
        for chosen, system in LOOKS:
            page.emulate_media(color_scheme=system)
            page.evaluate(CHOOSE_LOOK, chosen)
            found = page.evaluate(MEASURE, BUTTONS)
            assert found, f"{path} has no button"
            where = f"{path} ({chosen} on {system}{', hovered' if hovered else ''})"
            faint += [f"{where}: {one['what']}: {one['ratio']:.2f}" for one in found if one["ratio"] < one["least"]]
    return faint


def test_on_a_phone_the_queue_gives_each_name_room(chromium, portal, cast):
    with browsing(chromium, portal, elsewhere(make.session, cast.ada), viewport=PHONE) as page:
        page.goto("/queue/")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        names = page.locator(".queue-table .whose").evaluate_all(MEASURE_NAMES)
        assert len(names) == 6
        for name in names:
            assert name["characters"] >= min(LEAST_CHARACTERS, len(name["text"])), name
            assert name["name_lines"] <= MOST_LINES and name["lines"] < MOST_LINES + 1, name
