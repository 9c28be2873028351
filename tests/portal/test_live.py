"""The live socket on the real channel layer: who hears what, and logs as they are written."""

import asyncio
import os
from contextlib import asynccontextmanager
from importlib import import_module
from time import monotonic

import pytest
from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.db import OperationalError, connections
from django.utils import timezone

from accounts.models import Membership, User
from events.record_and_publish import SYSTEM, record
from jobs.states import TaskState
from portal.live import consumer, log_tail
from portal.live.websocket_urls import websocket_urls
from runtimes.log_store import LogStore
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)

ORIGIN = "http://localhost:8470"
PATIENCE_S = 15  # other tests run at the same time
application = AuthMiddlewareStack(URLRouter(websocket_urls))  # as config.asgi has it


@pytest.fixture(autouse=True)
def world(settings, tmp_path, monkeypatch):
    settings.TESSERA_PUBLIC_URL = ORIGIN
    settings.TESSERA_LOGS = tmp_path
    monkeypatch.setattr(consumer, "GATHER_S", 0.05)
    monkeypatch.setattr(log_tail, "POLL_S", 0.01)
    return make.cast()


@pytest.fixture(autouse=True)
async def no_connection_left():
    """The consumer reads in the thread of sync_to_async, whose connection would keep the test database from going."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def running(world):
    """A job of ada's on a quarter of a card, and its only task."""
    job = make.job(world.ada, gpu="1/4", pool="dev")
    return make.start(job)[0]


def dial(session: str = "", origin: str = ORIGIN, cookies: str = "") -> WebsocketCommunicator:
    cookie = cookies or f"{settings.SESSION_COOKIE_NAME}={session}"
    headers = [(b"origin", origin.encode()), (b"cookie", cookie.encode())]
    return WebsocketCommunicator(application, "/live", headers=headers if origin else headers[1:])


@asynccontextmanager
async def listening(person: User):
    """An open socket of `person`, past its first heartbeat."""
    socket = dial(await sync_to_async(make.session)(person))
    assert (await socket.connect(PATIENCE_S))[0]
    assert "now" in await socket.receive_json_from(PATIENCE_S)
    yield socket
    await socket.disconnect()


async def close_code(socket: WebsocketCommunicator) -> int:
    return (await socket.receive_output(PATIENCE_S))["code"]


async def next_with(socket: WebsocketCommunicator, key: str) -> dict:
    while key not in (message := await socket.receive_json_from(PATIENCE_S)):
        pass
    return message


@pytest.mark.parametrize("origin", ["", "null", "http://localhost", "https://localhost:8470", "http://localhost:8471",
                                    "http://a.localhost:8470", "http://127.0.0.1:8470"])  # fmt: skip
async def test_only_our_own_origin_may_open_the_socket(world, origin):
    socket = dial(await sync_to_async(make.session)(world.ada), origin=origin)
    assert not (await socket.connect(PATIENCE_S))[0]


async def test_an_anonymous_visitor_is_told_that_nobody_is_signed_in():
    socket = dial("no-such-session")
    assert (await socket.connect(PATIENCE_S))[0]
    assert await close_code(socket) == consumer.SIGNED_OUT


async def test_a_second_session_cookie_is_refused(world):
    key = await sync_to_async(make.session)(world.ada)
    name = settings.SESSION_COOKIE_NAME
    socket = dial(cookies=f"{name}={key}; {name}={key}")
    assert not (await socket.connect(PATIENCE_S))[0]


async def test_touches_within_the_gathering_time_arrive_as_one_message(world):
    async with listening(world.ada) as socket:
        layer = get_channel_layer()
        for public_id in ("job-2", "job-1", "job-2"):
            await layer.group_send(f"team-{world.nlp.pk}", {"type": "touch", "kind": "job", "id": public_id})
        await layer.group_send(f"pool-{world.dev.pk}", {"type": "touch", "kind": "queue", "id": ""})
        assert await socket.receive_json_from(PATIENCE_S) == {"touched": ["job-1", "job-2", "queue"]}
        assert await socket.receive_nothing(0.1)


async def test_a_change_in_the_database_reaches_the_team_and_not_the_stranger(world):
    async with listening(world.ada) as ada, listening(world.eve) as eve:
        job = await sync_to_async(make.job)(world.bob, gpu="1/4", pool="dev")
        assert job.public_id in (await next_with(ada, "touched"))["touched"]
        touched = set()
        while not {"cluster", "queue"} <= touched:  # they come together, but on a machine that is too busy
            touched.update((await next_with(eve, "touched"))["touched"])
        assert touched == {"cluster", "queue"}


async def test_an_auditor_hears_every_team(world):
    auditor = await sync_to_async(make.user)("aud", platform_role="auditor")
    async with listening(auditor) as socket:
        job = await sync_to_async(make.job)(world.ada, pool="dev")
        await sync_to_async(record)(job, "noted", actor=SYSTEM)
        assert job.public_id in (await next_with(socket, "touched"))["touched"]


@pytest.mark.parametrize("change, code", [
    (lambda w: User.objects.filter(pk=w.ada.pk).update(suspended_at=timezone.now()), consumer.SIGNED_OUT),
    (lambda w: User.objects.filter(pk=w.ada.pk).update(password="changed"), consumer.SIGNED_OUT),
    (lambda w: Membership.objects.filter(user=w.ada).delete(), consumer.RIGHTS_CHANGED),
    (lambda w: User.objects.filter(pk=w.ada.pk).update(platform_role="admin"), consumer.RIGHTS_CHANGED),
])  # fmt: skip
async def test_the_socket_closes_when_its_person_may_no_longer_hear_the_same(world, monkeypatch, change, code):
    monkeypatch.setattr(consumer, "HEARTBEAT_S", 0.02)
    async with listening(world.ada) as socket:
        await sync_to_async(change)(world)
        while (output := await socket.receive_output(PATIENCE_S))["type"] != "websocket.close":
            pass
        assert output["code"] == code


async def test_a_socket_outlives_the_database_and_tells_that_it_is_away(world, monkeypatch):
    monkeypatch.setattr(consumer, "HEARTBEAT_S", 0.02)
    there = consumer.read_rights

    async def away(_):
        raise OperationalError("the server closed the connection")

    async with listening(world.ada) as socket:
        monkeypatch.setattr(consumer, "read_rights", away)
        assert (await next_with(socket, "away"))["away"] == 1
        monkeypatch.setattr(consumer, "monotonic", lambda: monotonic() + 50)
        while (await next_with(socket, "away"))["away"] < 50:
            pass
        monkeypatch.setattr(consumer, "read_rights", there)
        while "away" in await socket.receive_json_from(PATIENCE_S):
            pass


async def test_who_comes_while_the_database_is_away_is_sent_away_quietly(world, monkeypatch, caplog):
    async def away(_):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(consumer, "read_rights", away)
    socket = dial(await sync_to_async(make.session)(world.ada))
    assert await socket.connect(PATIENCE_S) == (False, consumer.TRY_LATER)


async def test_a_recheck_closes_at_once_after_sign_out(world):
    key = await sync_to_async(make.session)(world.ada)
    socket = dial(key)
    await socket.connect(PATIENCE_S)
    await socket.receive_json_from(PATIENCE_S)
    await sync_to_async(import_module(settings.SESSION_ENGINE).SessionStore(key).flush)()
    await get_channel_layer().group_send(f"user-{world.ada.pk}", {"type": "recheck"})
    assert await close_code(socket) == consumer.SIGNED_OUT


async def test_a_ping_is_answered(world):
    async with listening(world.ada) as socket:
        await socket.send_json_to({"ping": 7})
        assert await socket.receive_json_from(PATIENCE_S) == {"pong": 7}


@pytest.mark.parametrize("text", ["no json", "[]", "[" * 1000, '{"ping": "' + "x" * 1024 + '"}'])
async def test_nonsense_closes_the_socket(world, text):
    async with listening(world.ada) as socket:
        await socket.send_to(text_data=text)
        assert await close_code(socket) == consumer.NOT_UNDERSTOOD


async def test_a_log_arrives_as_it_is_written_and_ends_with_its_task(running, world):
    store, task = LogStore(settings.TESSERA_LOGS), str(running.uuid)
    store.append(task, 0, b"first\n")
    async with listening(world.ada) as socket:
        await socket.send_json_to({"follow": task, "offset": 0})
        assert await next_with(socket, "log") == {"log": task, "offset": 0, "next": 6, "data": "first\n"}
        await socket.send_json_to({"ack": 6, "log": task})
        store.append(task, 6, "第二\n".encode()[:2])
        store.append(task, 8, "第二\n".encode()[2:])
        got = await collect(socket, task, until=13)
        assert got == "第二\n"
        await sync_to_async(make.move)(running, TaskState.SUCCEEDED, "completed", exit_code=0)
        assert await next_with(socket, "ended") == {"log": task, "ended": True}


async def collect(socket: WebsocketCommunicator, task: str, until: int) -> str:
    text = ""
    while True:
        piece = await next_with(socket, "data")
        text += piece["data"]
        await socket.send_json_to({"ack": piece["next"], "log": task})
        if piece["next"] >= until:
            return text


async def test_nothing_more_is_sent_until_the_browser_has_shown_the_last_piece(running, world):
    store, task = LogStore(settings.TESSERA_LOGS), str(running.uuid)
    store.append(task, 0, os.urandom(50_000).hex().encode())
    async with listening(world.ada) as socket:
        await socket.send_json_to({"follow": task, "offset": 0})
        first = await next_with(socket, "data")
        assert first["next"] == log_tail.MOST_BYTES
        await asyncio.sleep(0.1)
        await socket.send_json_to({"ping": 1})
        assert await socket.receive_json_from(PATIENCE_S) == {"pong": 1}
        await socket.send_json_to({"ack": first["next"], "log": task})
        assert (await next_with(socket, "data"))["offset"] == first["next"]


async def test_a_new_view_begins_at_a_line_near_the_end(running, world):
    store, task = LogStore(settings.TESSERA_LOGS), str(running.uuid)
    store.append(task, 0, b"".join(b"line %d\n" % n for n in range(100)))
    async with listening(world.ada) as socket:
        await socket.send_json_to({"follow": task, "offset": -20})
        piece = await next_with(socket, "data")
        assert (piece["data"], piece["line"]) == ("line 98\nline 99\n", 99)
        await socket.send_json_to({"follow": task, "offset": -(2**60)})
        piece = await next_with(socket, "data")
        assert (piece["offset"], piece["line"]) == (0, 1)


async def test_a_stranger_cannot_tell_a_log_from_none(running, world):
    LogStore(settings.TESSERA_LOGS).append(str(running.uuid), 0, b"secret")
    async with listening(world.eve) as socket:
        for task in (str(running.uuid), "00000000-0000-4000-8000-000000000000"):
            await socket.send_json_to({"follow": task, "offset": 0})
            assert await next_with(socket, "log") == {"log": task, "missing": True}


@pytest.mark.parametrize("offset", [10**300, -(10**300), 2**63, 1.5, "0", None])
async def test_an_offset_that_no_file_has_is_refused(running, world, offset, caplog):
    task = str(running.uuid)
    LogStore(settings.TESSERA_LOGS).append(task, 0, b"line\n")
    async with listening(world.ada) as socket:
        await socket.send_json_to({"follow": task, "offset": offset})
        refused = await next_with(socket, "log")
        assert (refused["log"], refused["refused"]) == (task, "/offset") and str(2**63 - 1) in refused["detail"]
        await socket.send_json_to({"follow": task, "offset": 2**63 - 1})  # beyond the end: it waits for more
        await socket.send_json_to({"follow": task, "offset": 0})
        assert (await next_with(socket, "data"))["data"] == "line\n"
    assert "a live task failed" not in caplog.text


@pytest.mark.parametrize("message", [{"follow": 7}, {"follow": "../../etc/passwd"}, {"follow": None, "offset": "x"}])
async def test_what_names_no_task_has_no_log(world, message):
    async with listening(world.ada) as socket:
        await socket.send_json_to(message)
        assert (await next_with(socket, "log"))["missing"] is True


async def test_a_message_stays_below_256_kib_whatever_is_in_the_log(running, world):
    task = str(running.uuid)
    LogStore(settings.TESSERA_LOGS).append(task, 0, b"\x1b\xff" * 100_000)
    async with listening(world.ada) as socket:
        await socket.send_json_to({"follow": task, "offset": 0})
        output = await socket.receive_output(PATIENCE_S)
        assert len(output["text"]) < 256 * 1024
