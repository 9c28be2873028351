"""No page breaks a rule of axe-core: WCAG 2.2 A and AA and its best practices, in each look, on a phone, in Chinese."""

from importlib.resources import files

import pytest

from accounts.models import PlatformRole, User
from monitoring.models import AlertRule, Subject
from secret_store.services import set_secret
from tests import make
from tests.portal.pages.rail import BUSY
from tests.portal.test_legible_in_browser import PHONE, WIDE, data, make_busy_world, portal  # noqa: F401
from tests.web_process import browsing, elsewhere
from tests.whole import WHOLE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
RUN = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"]});
    return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 160)}`));
}"""
LOOKS = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
    "Chinese": {"viewport": WIDE, "color_scheme": "light", "locale": "zh-CN"},
}


@pytest.fixture
def cast(portal, chromium, data, settings):  # noqa: F811
    settings.TESSERA_DATA, settings.TESSERA_FILES = data, data / "files"
    return elsewhere(make_full_world)


def make_full_world() -> make.Cast:
    """ada's, who is an admin: each page is hers to see."""
    cast = make_busy_world()
    User.objects.filter(pk=cast.ada.pk).update(platform_role=PlatformRole.ADMIN)
    for job in (cast.job, cast.waiting):
        for task in job.tasks.all():
            make.numbers(task, "train/loss", (1, 0.9), (2, 0.4), (3, 0.5))
            make.numbers(task, "lr", (1, 1e-5), (2, 1e-6))
    search = {"metric": "loss", "trials": 9, "space": {"lr": "1e-5..1e-1 log"}}
    cast.sweep = make.array(cast.ada, search=search, cpu="100m", memory="100MB", max_time="1h")
    (task,) = make.start(cast.sweep.elements.get())
    make.numbers(task, "loss", (1, 0.9), (2, 0.4))
    make.service_key(cast.service)
    set_secret(actor=cast.ada, name="HF_TOKEN", value="hf_1234567890")
    AlertRule.objects.create(
        name="own", subject=Subject.CARD, metric="power_w", comparison="above", threshold=1, audience=["admin"]
    )
    return cast


def pages_of(cast) -> list[str]:
    """All that a person sees; the first tenth is what the quick tests look at."""
    job, notebook = cast.job.public_id, cast.running.public_id
    return [
        "/", "/jobs/", f"/j/{job}/", "/jobs/new", "/notebooks/", "/queue/", "/cluster/",
        "/console/", "/console/people/", "/console/quotas/",
        f"/j/{job}/?tab=metrics", f"/j/{job}/?tab=log", f"/j/{job}/?tab=events", f"/j/{job}/?tab=spec",
        f"/j/{job}/?tab=numbers", f"/jobs/compare?job={job}&job={cast.waiting.public_id}",
        f"/j/{cast.waiting.public_id}/", "/notebooks/new", f"/n/{notebook}/", f"/n/{cast.stopped.public_id}/",
        "/cluster/gpus/", f"/gpus/{cast.gpus[0].uuid}/", "/cluster/images/", "/cluster/health/", "/nodes/n1/",
        "/idle/", "/idle/people/", "/quota/", "/files/", "/alerts/", "/notices/",
        *(f"/reports/{name}/" for name in ("usage", "waits", "idle", "failures", "energy", "day", "eta")),
        "/settings/profile/",
        "/settings/notifications/", "/settings/password/", "/settings/tokens/", "/settings/ssh-keys/",
        "/settings/secrets/", "/settings/webhooks/", f"/settings/webhooks/{cast.webhook.pk}/",
        "/templates/", "/templates/new", f"/templates/{cast.template.public_id}/",
        f"/templates/{cast.template.public_id}/edit", "/templates/checkpoint-and-resume/",
        "/console/people/new", "/console/people/ada/", "/console/teams/", "/console/teams/nlp/",
        "/console/audit/", "/console/announcements/", "/console/machines/",
        "/console/machines/service?to=drain&node=n1",
        "/cluster/replay/",
        f"/a/{cast.array.public_id}/",
        f"/a/{cast.sweep.public_id}/",
        "/environments/",
        "/data/",
        f"/data/{cast.dataset.dataset.public_id}/",
        f"/data/{cast.dataset.dataset.public_id}/v1/",
        "/services/",
        "/services/new",
        f"/services/{cast.service.public_id}/",
        f"/services/{cast.service.public_id}/keys",
        "/schedules/",
        "/schedules/new",
        f"/schedules/{cast.schedule.public_id}/",
        f"/j/{job}/sharing",
        f"/n/{cast.running.public_id}/addresses",
        "/console/images/",
        "/console/volumes/",
        f"/console/volumes/{cast.volume.pk}/",
        "/console/limits/",
        "/console/limits/ada/",
        "/console/maintenance/",
        "/console/maintenance/new?node=n1",
        "/console/pools/",
        "/console/pools/dev/",
        "/console/windows/",
        "/console/windows/new",
        "/console/idle-rules/",
        "/console/alert-rules/",
        "/console/alert-rules/new",
        "/console/idle-rules/new?kind=batch",
    ]  # fmt: skip


QUICK = 10


@pytest.mark.parametrize("look", ["light", "phone"])
def test_the_most_used_pages_break_no_rule(chromium, portal, cast, look):  # noqa: F811
    check_pages(chromium, portal, cast.ada, pages_of(cast)[:QUICK], look)


@pytest.mark.slow
@pytest.mark.timeout(600)  # some sixty pages, each read whole by axe
@pytest.mark.parametrize("look", LOOKS)
def test_no_page_breaks_a_rule(chromium, portal, cast, look):  # noqa: F811
    """Each page in each look, or in one of them where only a part is played."""
    pages = pages_of(cast) if WHOLE else pages_of(cast)[list(LOOKS).index(look) :: len(LOOKS)]
    check_pages(chromium, portal, cast.ada, pages, look)


def test_neither_the_palette_nor_the_list_of_keys_breaks_a_rule(chromium, portal, cast):  # noqa: F811
    with browsing(chromium, portal, elsewhere(make.session, cast.ada), **LOOKS["phone"]) as page:
        page.goto("/quota/")
        page.evaluate(AXE)
        page.locator("#find").click()
        page.wait_for_selector("[role=option]")
        assert page.evaluate(RUN) == []
        page.get_by_role("combobox").fill("keyboard shortcuts")
        page.keyboard.press("Enter")
        page.wait_for_selector("#shortcuts[open]")
        assert page.evaluate(RUN) == []


def test_who_signs_in_meets_no_broken_rule(chromium, portal, cast):  # noqa: F811
    with browsing(chromium, portal, "none", **LOOKS["phone"]) as page:
        assert list_broken(page, "/sign-in/") == []


def test_what_looks_for_broken_rules_finds_one(chromium, portal, cast):  # noqa: F811
    with browsing(chromium, portal, elsewhere(make.session, cast.ada), **LOOKS["light"]) as page:
        page.goto("/queue/")
        page.evaluate("document.querySelector('main').append(document.createElement('button'))")
        page.evaluate(AXE)
        assert any(one.startswith("button-name") for one in page.evaluate(RUN))


def check_pages(chromium, url: str, person: User, paths: list[str], look: str) -> None:
    with browsing(chromium, url, elsewhere(make.session, person), reduced_motion="reduce", **LOOKS[look]) as page:
        found = [(one, path) for path in paths for one in list_broken(page, path)]
    broken = {one: [path for other, path in found if other == one] for one, _path in found}
    assert not broken, "\n".join(f"{one} on {', '.join(where)}" for one, where in broken.items())


def list_broken(page, path: str) -> list[str]:
    """Return the broken rules of a page, each with the element's HTML."""
    assert page.goto(path).status == 200, path
    page.wait_for_selector(BUSY, state="detached")
    page.evaluate(AXE)
    return page.evaluate(RUN)
