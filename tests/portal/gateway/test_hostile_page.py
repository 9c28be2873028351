"""A teammate's service that attacks whoever opens it, in Chromium: ada opens bob's and stays alone with her own app.

Everything is real but the tasks: portal, gateway, cookies and the browser's own judgement. What the browser says about
an attack is what counts, and what the portal and ada's program saw of it.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
import uvicorn
from aiohttp import web
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings as django_settings
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.test import Client
from playwright.sync_api import expect

from portal.access.app_links import link_to_port, link_to_service
from portal.gateway.http.gateway import Gateway
from portal.live.websocket_urls import websocket_urls
from portal.models import AppCode
from tests import make
from tests.gateway_server import Server, Sockets

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume"),  # WhiteNoise's answers
]

WORKER = "self.onfetch = event => event.respondWith(new Response('owned'))"
FETCH = """async ([url, mode]) => {
    try { const got = await fetch(url, {credentials: 'include', mode}); return [got.type, await got.text()] }
    catch (error) { return ['refused', error.name] }
}"""


class World:
    """port, cast, urls of bob's program (hostile) and ada's (mine), and every path that either was asked."""

    def __init__(self, port, cast, hostile, mine):
        self.port, self.cast, self.hostile, self.mine = port, cast, hostile, mine
        self.portal = f"http://localhost:{port}"
        self.asked: dict[str, list[str]] = {"hostile": [], "mine": []}


class Running:
    """The server in a thread of its own: Playwright's loop has this one."""

    def __init__(self, world, listener, tasks):
        self.world, self.listener, self.tasks = world, listener, tasks
        self.loop, self.ready, self.stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()
        assert self.ready.wait(20)
        return self.world

    def __exit__(self, *why):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(20)

    def _run(self):
        self.loop.run_until_complete(self._serve())
        self.loop.close()

    async def _serve(self):
        sockets = Sockets()
        runners = [await self._program(name, task, sockets) for name, task in self.tasks.items()]
        live = AuthMiddlewareStack(URLRouter(websocket_urls))
        gateway = Gateway(ProtocolTypeRouter({"http": ASGIHandler(), "websocket": live}), lambda: sockets)
        server = Server(uvicorn.Config(gateway, log_level="error", lifespan="off", timeout_graceful_shutdown=3))
        serving = asyncio.create_task(server.serve(sockets=[self.listener]))
        self.ready.set()
        await self.stop.wait()
        server.should_exit = True
        await serving
        await gateway.aclose()
        for runner in runners:
            await runner.cleanup()

    async def _program(self, name, task, sockets):
        async def answer(request):
            self.world.asked[name].append(request.path_qs)
            if request.path == "/worker.js":
                return web.Response(text=WORKER, content_type="text/javascript")
            anybody = {"Access-Control-Allow-Origin": request.headers.get("Origin", "*")}
            anybody["Access-Control-Allow-Credentials"] = "true"  # ada's own program is careless, too
            # an icon of its own, else the browser asks for one whenever it likes, and that reads as an attack's success
            page = f"<title>{name}</title><link rel=icon href=data:,><p>{name}"
            return web.Response(text=page, content_type="text/html", headers=anybody)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        sockets.tasks[task.uuid.hex] = {task.ports.get("7860", 7860): site._server.sockets[0].getsockname()[1]}
        return runner


@pytest.fixture
def world(settings, monkeypatch, free_listener):
    port = free_listener.getsockname()[1]
    settings.TESSERA_PUBLIC_URL, settings.ALLOWED_HOSTS = f"http://localhost:{port}", ["localhost", "127.0.0.1"]
    settings.TESSERA_APPS_URL = f"http://*.localhost:{port}"
    monkeypatch.setitem(connections["default"].settings_dict, "CONN_MAX_AGE", 0)  # the server's threads keep none
    with ThreadPoolExecutor(1) as pool:  # Playwright's event loop runs in this thread
        cast, tasks, links = pool.submit(build).result()
    with Running(World(port, cast, **links), free_listener, tasks) as running:
        yield running


def build():
    try:
        cast = make.cast()
        [mine] = make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
        service = make.service(cast.bob)
        links = {"hostile": link_to_service(service), "mine": link_to_port(mine, 7860)}
        return cast, {"hostile": make.replica(service), "mine": mine}, links
    finally:
        connections.close_all()


@pytest.fixture
def context(chromium, world):
    """Ada's browser: signed in to the portal."""
    client = Client(SERVER_NAME="localhost", SERVER_PORT=str(world.port))
    client.force_login(world.cast.ada)
    context = chromium.new_context()
    name = django_settings.SESSION_COOKIE_NAME
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": world.portal, "httpOnly": True}])
    yield context
    context.close()


@pytest.fixture
def page(context, world):
    """It has ada's own app open in one tab, and stands on bob's, which she agreed to open."""
    own = context.new_page()
    own.goto(world.mine)
    expect(own).to_have_title("mine")
    page = context.new_page()
    page.goto(world.hostile)
    page.get_by_role("button", name="Open it", exact=True).click()
    expect(page).to_have_title("hostile")
    assert page.url == world.hostile
    world.asked["mine"].clear()
    return page


@pytest.mark.parametrize("mode", ["cors", "no-cors"])
@pytest.mark.parametrize("path", ["/", "/api/v1/me"])
def test_it_reads_neither_pages_nor_api_of_the_portal(page, world, mode, path):
    kind, text = page.evaluate(FETCH, [world.portal + path, mode])
    assert (kind, text) in {("refused", "TypeError"), ("opaque", "")}


def test_it_posts_no_form_to_the_portal(page, world):
    page.evaluate(
        """url => { const form = document.createElement('form'); form.method = 'post'; form.action = url
                    form.innerHTML = '<input name=theme value=dark>'; document.body.append(form); form.submit() }""",
        f"{world.portal}/settings/look/",
    )
    page.wait_for_url(f"{world.portal}/settings/look/")
    expect(page.locator("body")).to_contain_text("came from another site")
    world.cast.ada.refresh_from_db()
    assert world.cast.ada.theme == "auto"


@pytest.mark.parametrize("path", ["/live", "/api/v1/events"])
def test_it_opens_no_socket_of_the_portal(page, world, path):
    verdict = page.evaluate(
        """url => new Promise(done => { const socket = new WebSocket(url)
                    socket.onopen = () => done('open'); socket.onerror = () => done('refused') })""",
        world.portal.replace("http", "ws", 1) + path,
    )
    assert verdict == "refused"


@pytest.mark.parametrize("attribute", ["", "; Domain=localhost", "; Domain=.localhost"])
def test_it_tosses_no_cookie_at_the_portal(page, context, world, attribute):
    name = django_settings.SESSION_COOKIE_NAME
    page.evaluate("cookie => { document.cookie = cookie }", f"{name}=evil; Path=/{attribute}")
    assert [c["value"] for c in context.cookies(world.portal) if c["name"] == name] != ["evil"]
    assert "evil" not in {c["value"] for c in context.cookies(world.portal)}
    portal = context.new_page()
    assert portal.goto(world.portal).status == 200 and portal.url == f"{world.portal}/"


def test_it_frames_neither_the_portal_nor_my_app(page, world):
    for url in (world.portal, world.mine):
        page.evaluate(
            """url => new Promise(done => { const frame = document.createElement('iframe')
                        frame.src = url; frame.onload = done; document.body.append(frame) })""",
            url,
        )
    assert [frame.title() for frame in page.frames[1:]] == ["", ""] or all(
        frame.url.startswith("chrome-error:") for frame in page.frames[1:]
    )
    assert not world.asked["mine"]


def test_it_reaches_no_window_of_the_portal(page, context, world):
    with context.expect_page() as opened:
        page.evaluate("url => { window.theirs = window.open(url) }", world.portal)
    portal = opened.value
    portal.wait_for_load_state()
    assert page.evaluate("() => window.theirs.closed") is True  # cut off by the portal's opener policy
    with context.expect_page() as opened:
        portal.evaluate("url => { window.open(url) }", world.hostile)
    expect(opened.value).to_have_title("hostile")
    assert opened.value.evaluate("() => window.opener") is None


@pytest.mark.parametrize("mode", ["cors", "no-cors"])
def test_it_reads_nothing_of_my_app_however_careless_that_is(page, world, mode):
    kind, text = page.evaluate(FETCH, [f"{world.mine}secret", mode])
    assert (kind, text) in {("refused", "TypeError"), ("opaque", "")} and not world.asked["mine"]


def test_it_runs_nothing_of_my_app_as_a_script(page, world):
    verdict = page.evaluate(
        """url => new Promise(done => { const script = document.createElement('script'); script.src = url
                    script.onload = () => done('ran'); script.onerror = () => done('refused')
                    document.body.append(script) })""",
        f"{world.mine}worker.js",
    )
    assert verdict == "refused" and not world.asked["mine"]


def test_a_code_from_the_history_opens_nothing(page, context, world):
    seen = []
    context.on("request", lambda request: seen.append(request.url) if "/.tessera/enter" in request.url else None)
    context.clear_cookies(domain=urlsplit(world.mine).hostname)
    again = context.new_page()
    again.goto(world.mine)
    expect(again).to_have_title("mine")
    assert len(seen) == 1 and again.goto(seen[0]).status == 400
    thief = context.browser.new_context()
    assert thief.new_page().goto(seen[0]).status == 400
    thief.close()


def test_its_session_opens_no_other_app(page, context, world):
    stolen = next(c for c in context.cookies(world.hostile) if c["name"].startswith("app_"))
    label = urlsplit(world.mine).hostname.partition(".")[0]
    thief = context.browser.new_context()
    thief.add_cookies([{"name": f"app_{label}", "value": stolen["value"], "url": world.mine}])
    there = thief.new_page()
    there.goto(world.mine)
    assert urlsplit(there.url).path == "/sign-in/" and not world.asked["mine"]
    thief.close()


def test_its_service_worker_stays_at_home(page, context, world):
    register = """async ([script, scope]) => {
        try { await navigator.serviceWorker.register(script, {scope}); return 'registered' }
        catch (error) { return error.name } }"""
    assert page.evaluate(register, ["/worker.js", f"{world.portal}/"]) == "SecurityError"
    assert page.evaluate(register, [f"{world.mine}worker.js", "/"]) == "SecurityError"
    assert page.evaluate(register, ["/worker.js", "/"]) == "registered"
    page.evaluate("async () => { await navigator.serviceWorker.ready }")
    elsewhere = context.new_page()
    elsewhere.goto(world.portal)
    assert "owned" not in elsewhere.content()
    elsewhere.goto(world.mine)
    expect(elsewhere).to_have_title("mine")


@pytest.mark.parametrize("back", ["", "//{host}/", "http://{host}/", "/\\{host}/", "@{host}/"])
def test_no_chain_of_redirects_brings_it_a_code(page, context, world, back):
    host = urlsplit(world.hostile).netloc
    label = urlsplit(world.mine).hostname.partition(".")[0]
    world.asked["hostile"].clear()
    with context.expect_page() as opened:
        page.evaluate(
            """([url, app, next]) => {
                const asked = new URLSearchParams({app, state: 's'.repeat(43), next})
                window.open(`${url}?${asked}`) }""",
            [f"{world.portal}/apps/authorize", label, back.format(host=host)],
        )
    opened.value.wait_for_url(f"{world.mine}.tessera/enter**")
    assert "code" in parse_qs(urlsplit(opened.value.url).query)  # mine has it, and refuses it: the state is not its own
    expect(opened.value.locator("h1")).to_contain_text("was used or has expired")
    assert not world.asked["hostile"] and not AppCode.objects.filter(app__label=label, used_at=None).count() > 1


def test_it_cannot_widen_its_domain(page):
    verdict = page.evaluate(
        "() => { try { document.domain = 'localhost'; return document.domain } catch (error) { return error.name } }"
    )
    assert verdict in {"SecurityError", urlsplit(page.url).hostname}
