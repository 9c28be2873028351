"""A gateway on a real server, a program of somebody's behind it on real sockets, and browsers that are let in."""

import asyncio
import gzip
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
import uvicorn
from aiohttp import web
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import Client
from yarl import URL

from jobs.models import Job
from portal.access.app_links import link_to_port
from portal.gateway.http.gateway import Gateway
from tests import make
from tests.gateway_server import Server, Sockets

DECLARED = 7860
MIB = 1024 * 1024
HTML = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}


@dataclass
class Program:
    """What a person runs: it answers whatever a test asks, and remembers what it saw."""

    name: str = "first"
    asked: list[web.Request] = field(default_factory=list)
    sent = 0
    received = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    closed_with: int | None = None
    port = 0

    def application(self) -> web.Application:
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/seen", self.seen)
        app.router.add_get("/cookies", self.cookies)
        app.router.add_get("/zipped", self.zipped)
        app.router.add_get("/part", self.part)
        app.router.add_get("/nothing", self.nothing)
        app.router.add_get("/down", self.down)
        app.router.add_post("/up", self.up)
        app.router.add_get("/hang", self.hang)
        app.router.add_get("/broken", self.broken)
        app.router.add_get("/ws", self.ws)
        app.router.add_post("/v1/chat/completions", self.chat)
        return app

    async def seen(self, request):
        self.asked.append(request)
        pairs = [[name, value] for name, value in request.headers.items()]
        return web.json_response({"name": self.name, "path": request.raw_path, "headers": pairs})

    async def cookies(self, request):
        answer = web.Response(text="set", headers={"Clear-Site-Data": '"cookies"', "X-Own": "kept"})
        answer.headers["Content-Security-Policy"] = "script-src 'self'"
        for cookie in ("fine=1; Path=/", "wide=1; Domain=localhost", "tessera=1", "__HOST-app=1; Path=/; Secure"):
            answer.headers.add("Set-Cookie", cookie)
        return answer

    async def zipped(self, request):
        return web.Response(body=gzip.compress(b"once" * 100), headers={"Content-Encoding": "gzip"})

    async def part(self, request):
        assert request.headers["Range"] == "bytes=2-4"
        return web.Response(status=206, body=b"cde", headers={"Content-Range": "bytes 2-4/26"})

    async def nothing(self, request):
        return web.Response(status=204)

    async def chat(self, request):
        raise NotImplementedError  # a test says how a model answers

    async def down(self, request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        for _ in range(int(request.query["mib"])):
            await answer.write(bytes(MIB))
            self.sent += 1
        return answer

    async def up(self, request):
        await self.go.wait()
        async for piece in request.content.iter_any():
            self.received += len(piece)
        return web.Response(text=str(self.received))

    async def hang(self, request):
        self.go.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.left.set()

    async def broken(self, request):
        answer = web.StreamResponse(headers={"Content-Length": "100"})
        await answer.prepare(request)
        await answer.write(b"half")
        request.transport.close()
        return answer

    async def ws(self, request):
        self.asked.append(request)
        end = web.WebSocketResponse(protocols=["v1.kernel"], max_msg_size=0)
        await end.prepare(request)
        async for message in end:
            if message.type is aiohttp.WSMsgType.TEXT and message.data.startswith("close "):
                await end.close(code=int(message.data.split()[1]))
            elif message.type is aiohttp.WSMsgType.TEXT:
                await end.send_str(message.data)
            else:
                await end.send_bytes(message.data)
        self.closed_with = end.close_code
        self.left.set()
        return end


@asynccontextmanager
async def running(program: Program):
    # A program whose visitor leaves is told so, as most servers do.
    runner = web.AppRunner(program.application(), handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    program.port = site._server.sockets[0].getsockname()[1]
    yield program
    await runner.cleanup()


async def portal_says(scope, receive, send):
    """Stands for Django: that a request came here at all is what a test asks."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"portal"})


@dataclass
class World:
    cast: make.Cast
    job: Job
    url: str
    sockets: Sockets
    program: Program
    session: aiohttp.ClientSession
    gateway: Gateway
    task: object = None
    port: int = 0

    @property
    def origin(self) -> str:
        return self.url.rstrip("/")

    @property
    def label(self) -> str:
        return urlsplit(self.url).hostname.partition(".")[0]

    @property
    def cookie_name(self) -> str:
        return f"app_{self.label}"

    def visit(self, path="/", cookies="", method="GET", **headers):
        """A request of a browser; nothing is followed and no cookie is kept."""
        also = {"Cookie": cookies} if cookies else {}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.request(
            method,
            URL(f"http://127.0.0.1:{self.port}{path}", encoded=True),
            headers={"Host": urlsplit(self.url).netloc, **also, **(named or HTML)},
            allow_redirects=False,
        )

    def client(self, person) -> Client:
        browser = Client(SERVER_NAME="localhost", SERVER_PORT=str(self.port))
        browser.force_login(person)
        return browser

    async def way_in(self, person=None, path="/", browser=None):
        """(state cookie, address with the code) of a person who was at the portal."""
        async with self.visit(path) as sent_away:
            assert sent_away.status == 302
            state = sent_away.headers["Set-Cookie"].partition(";")[0]
            asked = sent_away.headers["Location"]
        browser = browser or await sync_to_async(self.client)(person or self.cast.ada)
        at_portal = await sync_to_async(browser.get)(urlsplit(asked).path, parse_qs(urlsplit(asked).query))
        assert at_portal.status_code == 302, at_portal.content
        return state, at_portal["Location"]

    async def enter(self, person=None, path="/", browser=None) -> str:
        """The cookie of a session on the app's host."""
        state, there = await self.way_in(person, path, browser)
        target = urlsplit(there)
        async with self.visit(f"{target.path}?{target.query}", state) as answer:
            assert answer.status == 302, await answer.text()
            assert answer.headers["Location"] == self.origin + path
            return answer.headers["Set-Cookie"].partition(";")[0]


@pytest.fixture
def short_waits(monkeypatch):
    monkeypatch.setattr("portal.gateway.http.grant_cache.KEEP_S", 0.05)
    monkeypatch.setattr("portal.gateway.http.gateway.RECHECK_S", 0.1)


@pytest.fixture
async def world(transactional_db, settings):
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio lets small pieces wait for others (Nagle)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    settings.TESSERA_PUBLIC_URL = f"http://localhost:{port}"
    settings.TESSERA_APPS_URL = f"http://*.localhost:{port}"
    cast, job, task, url = await sync_to_async(build)()
    sockets, program = Sockets(), Program()
    gateway = Gateway(portal_says, lambda: sockets)
    server = Server(uvicorn.Config(gateway, log_level="error", lifespan="off", ws_max_size=64 * MIB))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    async with running(program), aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        sockets.tasks[task.uuid.hex] = {DECLARED: program.port}
        yield World(cast, job, url, sockets, program, session, gateway, task, port)
        server.should_exit = server.force_exit = True
        await serving
    await gateway.aclose()
    await sync_to_async(connections.close_all)()


def build():
    cast = make.cast()
    job = make.job(cast.ada, gpu="1/4", pool="dev")
    task = make.start(job)[0]
    return cast, job, task, link_to_port(task, DECLARED)


@pytest.fixture
def free_listener():
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio lets small pieces wait for others (Nagle)
    listener.bind(("127.0.0.1", 0))
    return listener
