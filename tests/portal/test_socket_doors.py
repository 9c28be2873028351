"""Every websocket of the portal's own host, knocked at by whom it must not open for. Pages have them; programs do not.

SOCKETS is the whole truth, as DOORS of test_doors is for addresses. Hosts of people's apps: gateway/test_app_doors.
"""

import asyncio
import json
import socket

import aiohttp
import pytest
import uvicorn
from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.db import connections
from django.utils import timezone

from accounts.models import User
from config.asgi import portal_application
from config.http_protocol import BoundedHttp
from jobs.task_access import derive_task_secret
from portal.gateway.websocket_urls import websocket_urls as terminal_urls
from portal.live.websocket_urls import websocket_urls as live_urls
from tests import make
from tests.gateway_server import Server

URLS = [*live_urls, *terminal_urls]
WHO = ("visitor", "stranger", "lead", "suspended", "token", "job token")
SOCKETS = {"live": (4401, "open", "open", 4401, 4401, 4401), "terminal": (4401, 4404, 4404, 4401, 4401, 4401)}
PATIENCE_S = 15  # other tests run at the same time


@pytest.fixture
async def world(transactional_db):
    """The sockets read in another thread; its connection would keep the test database from going."""
    yield await sync_to_async(build_world)()
    await sync_to_async(connections.close_all)()


def build_world():
    """{who: the headers they come with}; name: of ada's running job."""
    cast = make.cast()
    job = make.job(cast.ada, gpu="1/4", pool="dev")
    cast.name, gone = job.public_id, make.user("gone", cast.nlp)
    secrets = {"token": make.token(cast.ada), "job token": derive_task_secret(make.start(job)[0].uuid)}
    sessions = {"stranger": cast.eve, "lead": cast.bob, "suspended": gone}
    cast.headers = {
        "visitor": [],
        **{who: [(b"authorization", f"Bearer {secret}".encode())] for who, secret in secrets.items()},
        **{who: [(b"cookie", cookie_of(person))] for who, person in sessions.items()},
    }
    User.objects.filter(pk=gone.pk).update(suspended_at=timezone.now())
    return cast


def cookie_of(person):
    return f"{settings.SESSION_COOKIE_NAME}={make.session(person)}".encode()


def test_every_socket_has_a_line():
    assert {pattern.name for pattern in URLS} == set(SOCKETS)


async def test_a_socket_opens_for_whom_the_table_says(world):
    own = (b"origin", settings.TESSERA_PUBLIC_URL.encode())
    for pattern in URLS:
        for who, expected in zip(WHO, SOCKETS[pattern.name], strict=True):
            assert await dial(path_of(pattern, world), [own, *world.headers[who]]) == expected, (who, pattern.name)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://a.localhost:8470"])
async def test_another_page_gets_no_socket_with_whatever_session(world, origin):
    for pattern in URLS:
        for who in ("visitor", "lead"):
            headers = [(b"origin", origin.encode()), *world.headers[who]]
            assert await dial(path_of(pattern, world), headers) == "refused", (who, pattern.name)


@pytest.mark.parametrize("path", ["/", "/nowhere", "/live/", "/liver", "/terminal", "/terminal/a/b", "/api/v1/jobs"])
async def test_a_socket_that_is_nowhere_is_answered_404(world, path):
    for who in ("visitor", "lead"):
        headers = [(b"origin", settings.TESSERA_PUBLIC_URL.encode()), *world.headers[who]]
        knock = WebsocketCommunicator(portal_application, path, headers=headers)
        await knock.send_input({"type": "websocket.connect"})
        start, body = [await knock.receive_output(PATIENCE_S) for _ in range(2)]
        assert (start["type"], start["status"]) == ("websocket.http.response.start", 404)
        assert json.loads(body["body"])["code"] == "not_found"


async def test_uvicorn_answers_a_socket_that_is_nowhere_and_logs_no_error(world, caplog):
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(uvicorn.Config(portal_application, http=BoundedHttp, lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/nowhere"
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(url)
    server.should_exit = server.force_exit = True
    await serving
    assert refused.value.status == 404
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def path_of(pattern, world):
    return "/" + str(pattern.pattern).replace("<str:name>", world.name)


async def dial(path, headers):
    """ "open", "refused" before it was accepted, or the code with which it was closed."""
    knock = WebsocketCommunicator(AuthMiddlewareStack(URLRouter(URLS)), path, headers=headers)
    accepted, _ = await knock.connect(PATIENCE_S)
    if not accepted:
        return "refused"
    while True:
        said = await knock.receive_output(PATIENCE_S)
        if said["type"] == "websocket.close":
            return said["code"]
        if "now" in json.loads(said["text"]):
            await knock.disconnect()
            return "open"
