"""A service on a host of its own: for whom its file opens it, by a page that waits while it wakes."""

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from portal.access.app_links import link_to_service
from portal.models import AppCode
from services.models import CallCount, Revision
from services.services import stop_service
from tests import make
from tests.portal.gateway.conftest import DECLARED
from tests.portal.gateway.test_services import until

pytestmark = pytest.mark.timeout(60)
SCRIPT = {"Accept": "application/json", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
async def chat(world):
    """The world of an app, which here is a service of ada's that sleeps."""

    def build():
        service = make.service(world.cast.ada)
        return service, link_to_service(service)

    service, url = await sync_to_async(build)()
    return replace(world, url=url, task=service)


async def start_replica(chat) -> None:
    task = await sync_to_async(make.replica)(chat.task)
    chat.sockets.tasks[task.uuid.hex] = {task.ports[str(DECLARED)]: chat.program.port}


def set_access(chat, access: str) -> None:
    for revision in Revision.objects.filter(service=chat.task):
        revision.spec["serve"]["access"] = access
        revision.save()


async def test_a_page_says_that_it_wakes_and_comes_back_while_a_script_waits(chat, monkeypatch):
    monkeypatch.setattr("portal.gateway.http.gateway.PAGE_WAITS_S", 0.2)
    cookie = await chat.enter()
    async with chat.visit("/seen", cookie) as page:
        said = await page.text()
    assert (page.status, page.headers["Retry-After"]) == (503, "2")
    assert "chat is waking" in said and "A replica is about to be queued. This page opens it" in said
    assert '<meta http-equiv="refresh" content="2">' in said
    held = asyncio.create_task(chat.visit("/seen", cookie, **SCRIPT).__aenter__())
    await until(lambda: chat.gateway._services.in_flight.held)
    await start_replica(chat)
    assert (await (await held).json())["path"] == "/seen"
    keyed = {"Authorization": "Bearer tsk_of-somebody"}
    async with chat.visit("/seen?a=1", f"{cookie}; own=1", **SCRIPT, **keyed) as answer:
        seen = dict((await answer.json())["headers"])
    assert seen["Cookie"] == "own=1" and "Authorization" not in seen
    assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
    await chat.gateway._services.usage.add()  # neither the page that waited nor who had to sign in first
    [counted] = [row async for row in CallCount.objects.values_list("service", "key", "name", "requests", "errors")]
    assert counted == (chat.task.pk, CallCount.BY_BROWSER, "", 2, 0)
    # What its program sends for the host beyond its own is taken out, as for every app.
    async with chat.visit("/cookies", cookie) as answer:
        assert "Clear-Site-Data" not in answer.headers and answer.headers.getall("Set-Cookie") == ["fine=1; Path=/"]


async def test_a_socket_of_a_page_passes_and_counts(chat):
    await start_replica(chat)
    there = f"http://127.0.0.1:{chat.port}/ws"
    headers = {"Host": urlsplit(chat.url).netloc, "Cookie": await chat.enter(), "Origin": chat.origin}
    async with chat.session.ws_connect(there, headers=headers) as end:
        await end.send_str("hello")
        assert await end.receive_str() == "hello"
        assert chat.gateway._services.in_flight.replicas.total() == 1
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await chat.session.ws_connect(there, headers=headers | {"Origin": f"http://localhost:{chat.port}"})
    assert refused.value.status == 403


@pytest.mark.parametrize(
    ("access", "opens"),
    [
        ("owner", {"ada": 302, "bob": 403, "eve": 404}),
        ("team", {"ada": 302, "bob": 200, "eve": 404}),
        ("key", {"ada": 403, "bob": 403, "eve": 404}),
        ("everybody", {"ada": 302, "bob": 200, "eve": 200}),
    ],
)
async def test_who_opens_it(chat, access, opens):
    """Who is not its owner is told whose it is, and opens it by a button."""

    def knock():
        set_access(chat, access)
        asked = {"app": chat.label, "state": "s" * 43, "next": "/"}
        return {who: chat.client(getattr(chat.cast, who)).get("/apps/authorize", asked) for who in opens}

    answers = await sync_to_async(knock)()
    assert {who: answer.status_code for who, answer in answers.items()} == opens
    for answer in answers.values():
        assert answer.status_code != 200 or "ada serves this program as chat" in answer.content.decode()
    assert await AppCode.objects.acount() == list(opens.values()).count(302)


async def test_what_ends_access_ends_sessions_and_what_stops_it_is_said(chat, short_waits):
    await start_replica(chat)
    cookie = await chat.enter()
    await sync_to_async(stop_service)(actor=chat.cast.bob, service=chat.task)
    await asyncio.sleep(1.1)  # the way to its replicas is remembered for a second
    async with chat.visit("/seen", cookie) as page:
        said = await page.text()
    assert page.status == 503 and "chat does not answer" in said and f"/services/{chat.task.public_id}/" in said
    async with chat.visit("/seen", cookie, **SCRIPT) as answer:
        assert (answer.status, (await answer.json())["code"]) == (503, "service_stopped")
    await sync_to_async(set_access)(chat, "key")
    await asyncio.sleep(0.1)  # and a session's right for short_waits
    async with chat.visit("/seen", cookie, **SCRIPT) as answer:
        assert answer.status == 401
    assert not chat.program.asked
