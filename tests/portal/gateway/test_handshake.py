"""How a browser gets to an app: by the portal, with a code that works once, for its own person and browser only."""

import asyncio
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import sync_to_async
from django.db.models.functions import Now

from accounts.models import User
from portal.access.app_links import link_to_port
from portal.models import App, AppCode, AppSession
from tests import make


async def test_a_visitor_goes_to_the_portal_and_comes_back_to_where_they_wanted(world):
    cookie = await world.enter(path="/seen?x=%2F1")
    async with world.visit("/seen?x=%2F1", cookie) as answer:
        assert (await answer.json())["path"] == "/seen?x=%2F1"


async def test_the_cookies_are_closed_to_scripts_and_stay_on_their_host(world):
    async with world.visit("/") as answer:
        said = answer.headers["Set-Cookie"]
    assert said.startswith(f"app_{world.label}_state=")
    assert "HttpOnly" in said and "SameSite=Lax" in said and "Domain" not in said


async def test_over_https_the_cookie_can_be_set_by_no_other_host(world, settings):
    settings.TESSERA_APPS_URL = settings.TESSERA_APPS_URL.replace("http:", "https:")
    async with world.visit("/") as answer:
        said = answer.headers["Set-Cookie"]
    assert said.startswith("__Host-app-state=") and said.endswith("; Secure") and "Path=/;" in said


async def test_a_code_works_once(world):
    state, there = await world.way_in()
    path = there.removeprefix(world.origin)
    async with world.visit(path, state) as first, world.visit(path, state) as second:
        assert (first.status, second.status) == (302, 400)
    assert await AppSession.objects.acount() == 1


async def test_a_code_of_another_browser_is_refused(world):
    _, there = await world.way_in()
    other, _ = await world.way_in()
    async with world.visit(there.removeprefix(world.origin), other) as answer:
        assert answer.status == 400
    async with world.visit(there.removeprefix(world.origin)) as answer:
        assert answer.status == 400


async def test_a_code_and_another_state_are_refused(world):
    _, there = await world.way_in()
    code = parse_qs(urlsplit(there).query)["code"][0]
    state = "A" * 43
    async with world.visit(f"/.tessera/enter?code={code}&state={state}", f"app_{world.label}_state={state}") as answer:
        assert answer.status == 400
    assert await AppCode.objects.filter(used_at=None).acount() == 1


async def test_a_code_is_too_old_after_half_a_minute(world):
    state, there = await world.way_in()
    await AppCode.objects.aupdate(expires_at=Now() - timedelta(seconds=1))
    async with world.visit(there.removeprefix(world.origin), state) as answer:
        assert answer.status == 400 and "has expired" in await answer.text()


async def test_two_cookies_of_our_name_are_refused(world):
    cookie = await world.enter()
    async with world.visit("/seen", f"{cookie}; {world.cookie_name}=tossed") as answer:
        assert answer.status == 400
    assert not world.program.asked


async def test_a_stranger_learns_nothing_of_an_app(world):
    browser = await sync_to_async(world.client)(world.cast.eve)
    asked = {"app": world.label, "state": "s" * 43, "next": "/"}
    answer = await sync_to_async(browser.get)("/apps/authorize", asked)
    assert answer.status_code == 404
    answer = await sync_to_async(browser.post)(
        "/apps/authorize", asked, headers={"Origin": f"http://localhost:{world.port}"}
    )
    assert answer.status_code == 404 and await AppCode.objects.acount() == 0


async def test_a_teammate_is_told_whose_it_is_before_a_button_opens_it(world):
    browser = await sync_to_async(world.client)(world.cast.bob)
    asked = {"app": world.label, "state": "s" * 43, "next": "/seen"}
    page = await sync_to_async(browser.get)("/apps/authorize", asked)
    assert "Open an app of ada" in page.content.decode() and await AppCode.objects.acount() == 0
    origin = {"Origin": f"http://localhost:{world.port}"}
    opened = await sync_to_async(browser.post)("/apps/authorize", asked, headers=origin)
    assert f'content="0; url={world.origin}/.tessera/enter?code=' in opened.content.decode()
    assert (await AppCode.objects.aget()).user_id == world.cast.bob.pk


async def test_who_may_only_look_opens_nothing(world):
    def knock():
        viewer = make.user("dan", world.cast.nlp, role="viewer")
        return world.client(viewer).get("/apps/authorize", {"app": world.label, "state": "s" * 43, "next": "/"})

    assert (await sync_to_async(knock)()).status_code == 403


@pytest.mark.parametrize("wanted", ["https://evil.example/", "//evil.example", "/\\evil", "/a\r\nb", "javascript:x"])
async def test_the_way_back_stays_on_the_apps_own_host(world, wanted):
    browser = await sync_to_async(world.client)(world.cast.ada)
    asked = {"app": world.label, "state": "s" * 43, "next": wanted}
    answer = await sync_to_async(browser.get)("/apps/authorize", asked)
    assert answer["Location"].startswith(f"{world.origin}/.tessera/enter?code=")
    path = (await AppCode.objects.aget()).path
    assert urlsplit(world.origin + path).netloc == urlsplit(world.origin).netloc and "\r" not in path


async def test_a_frame_gets_no_code(world):
    browser = await sync_to_async(world.client)(world.cast.ada)
    asked = {"app": world.label, "state": "s" * 43, "next": "/"}
    answer = await sync_to_async(browser.get)("/apps/authorize", asked, headers={"Sec-Fetch-Dest": "iframe"})
    assert answer.status_code == 403


async def test_signing_out_of_the_portal_ends_the_session_on_the_app(world, short_waits):
    browser = await sync_to_async(world.client)(world.cast.ada)
    cookie = await world.enter(browser=browser)
    async with world.visit("/seen", cookie) as answer:
        assert answer.status == 200
    await sync_to_async(browser.logout)()
    await refused(world, cookie)


async def test_a_suspended_person_is_out(world, short_waits):
    cookie = await world.enter()
    await User.objects.filter(pk=world.cast.ada.pk).aupdate(suspended_at=Now())
    await refused(world, cookie)


async def test_who_leaves_the_team_is_out(world, short_waits):
    cookie = await world.enter()
    await world.cast.ada.memberships.all().adelete()
    await refused(world, cookie)


async def test_a_session_of_one_app_opens_no_other(world):
    def other():
        return world.url.replace(world.label, second_app(world).label)

    cookie = (await world.enter()).partition("=")[2]
    world.url = await sync_to_async(other)()
    async with world.visit("/seen", f"{world.cookie_name}={cookie}") as answer:
        assert answer.status == 302 and "/apps/authorize?" in answer.headers["Location"]


async def test_a_script_without_a_session_is_told_so_and_not_sent_away(world):
    async with world.visit(
        "/seen", Accept="application/json", Sec_Fetch_Mode="cors", Sec_Fetch_Site="same-origin"
    ) as no:
        assert no.status == 401 and no.content_type == "application/problem+json"


def second_app(world):
    link_to_port(world.task, 9000)
    return App.objects.get(port=9000)


async def refused(world, cookie):
    for _ in range(100):
        async with world.visit("/seen", cookie) as answer:
            if answer.status == 302:
                return
        await asyncio.sleep(0.02)
    raise AssertionError("the app still opens")
