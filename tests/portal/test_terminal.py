"""The web terminal on real shells: typed, shown, resized, found again, and closed with a reason."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.db import connections
from django.utils import timezone

from accounts.models import Membership, User
from events.models import Event
from jobs.states import TaskState
from portal.gateway.terminal import shells, terminal
from portal.gateway.websocket_urls import websocket_urls
from tests import make
from tests.pty_access import PtyAccess

pytestmark = pytest.mark.django_db(transaction=True)

ORIGIN = "http://localhost:8470"
PATIENCE_S = 15  # other tests run at the same time
application = AuthMiddlewareStack(URLRouter(websocket_urls))  # as config.asgi has it


@pytest.fixture(autouse=True)
def access(settings, monkeypatch):
    settings.TESSERA_PUBLIC_URL = ORIGIN
    monkeypatch.setattr(shells, "TICK_S", 0.05)
    monkeypatch.setattr(terminal, "OPENED_PER_MINUTE", 1000)
    access = PtyAccess()
    monkeypatch.setattr(shells, "get_access", lambda: access)
    return access


@pytest.fixture(autouse=True)
async def nothing_left(access, monkeypatch):
    """Wait for shells that close: the thread that records their end would wait for this test's loop for ever."""
    closing, close = [], shells.Shell.close

    async def noted_close(shell, end):
        closing.append(done := asyncio.Event())
        try:
            await close(shell, end)
        finally:
            done.set()

    monkeypatch.setattr(shells.Shell, "close", noted_close)
    yield
    for shell in list(shells._shells.values()):
        await shell.close(shells.End("left"))
    for done in closing:
        await asyncio.wait_for(done.wait(), 10)
    await sync_to_async(connections.close_all)()


@pytest.fixture
def world(transactional_db):
    cast = make.cast()
    cast.task = make.start(make.job(cast.ada, gpu="1/4", pool="dev"))[0]
    cast.name = cast.task.job.public_id
    return cast


async def dial(person: User | None, name: str, origin: str = ORIGIN) -> WebsocketCommunicator:
    headers = [(b"origin", origin.encode())]
    if person:
        key = await sync_to_async(make.session)(person)
        headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={key}".encode()))
    return WebsocketCommunicator(application, f"/terminal/{name}", headers=headers)


class Page:
    """What terminal.js does: counts bytes and acknowledges them."""

    def __init__(self, socket: WebsocketCommunicator, shown: int = 0):
        self.socket, self.shown, self.text, self.acks = socket, shown, bytearray(), True
        self.greeting: dict = {}

    async def hello(self, key: str = "", size=(80, 24)) -> dict:
        await self.say({"hello": key, "shown": self.shown, "size": size})
        answer = await self.hear("shell", "bye")
        if "at" in answer:
            self.key, self.shown = answer["shell"], answer["at"]
        return answer

    async def say(self, message: dict) -> None:
        await self.socket.send_json_to(message)

    async def type(self, text: str) -> None:
        await self.socket.send_to(bytes_data=text.encode())

    async def hear(self, *keys: str) -> dict:
        while True:
            said = await self.socket.receive_output(PATIENCE_S)
            if said["type"] == "websocket.close":
                raise AssertionError(f"closed with {said.get('code')}")
            if said.get("text") and set(keys) & set(message := json.loads(said["text"])):
                return message
            await self._show(said)

    async def sees(self, text: str) -> bytes:
        """Wait for `text`; returns what was shown up to and with it."""
        looked = 0  # what came before is not searched again: a flood is long
        while self.text.find(text.encode(), looked) < 0:
            looked = max(len(self.text) - len(text), 0)
            await self._show(await self.socket.receive_output(PATIENCE_S))
        before, found, self.text = self.text.partition(text.encode())
        return before + found

    async def _show(self, said: dict) -> None:
        if data := said.get("bytes"):
            self.text += data
            self.shown += len(data)
            if self.acks:
                await self.say({"ack": self.shown})


@asynccontextmanager
async def page_of(person: User, name: str, key: str = "", shown: int = 0):
    """An open terminal past its greeting."""
    socket = await dial(person, name)
    assert (await socket.connect(PATIENCE_S))[0]
    page = Page(socket, shown)
    page.greeting = await page.hello(key)
    yield page
    await socket.disconnect()


async def end_of(page: Page) -> dict:
    return await page.hear("bye")


async def refusal_of(person: User | None, name: str) -> tuple[str, int]:
    """(why, close code) of a terminal that may not be opened."""
    socket = await dial(person, name)
    assert (await socket.connect(PATIENCE_S))[0]
    bye = await socket.receive_json_from(PATIENCE_S)
    return bye["bye"], (await socket.receive_output(PATIENCE_S))["code"]


async def test_what_is_typed_runs_in_the_task(world):
    async with page_of(world.ada, world.name) as page:
        assert page.greeting["again"] is False
        await page.type("echo in-$TESSERA_TASK $TERM\r")
        await page.sees(f"in-{world.task.uuid.hex} xterm-256color")


async def test_the_window_has_the_size_of_the_page_within_bounds(world):
    async with page_of(world.ada, world.name) as page:
        await page.type("stty size\r")
        await page.sees("24 80")
        await page.say({"size": [120, 50]})
        await page.type("stty size\r")
        await page.sees("50 120")
        await page.say({"size": [100_000, 0]})
        await page.type("stty size\r")
        await page.sees("1 500")


async def test_a_lost_network_finds_the_same_shell_and_nothing_twice(world):
    async with page_of(world.ada, world.name) as page:
        await page.type("here=42; echo re''ady\r")
        await page.sees("ready")
        await page.sees("$ ")
    async with page_of(world.ada, world.name, page.key, page.shown) as again:
        assert again.greeting == {"shell": page.key, "again": True, "at": page.shown, "received": 22}
        await again.type("echo it-is-$here\r")
        assert b"ready" not in await again.sees("it-is-42")


async def test_what_was_not_shown_is_shown_by_the_next_view(world):
    async with page_of(world.ada, world.name) as page:
        await page.sees("$ ")
        await page.type("sleep 0.3; echo la''te\r")
        await page.sees("te\r\n")
        shown = page.shown
    async with page_of(world.ada, world.name, page.key, shown) as again:
        await again.sees("late")


@pytest.mark.parametrize("person, other_task", [("bob", False), ("ada", True)])
async def test_a_key_opens_nothing_to_another_person_or_in_another_task(world, person, other_task):
    async with page_of(world.ada, world.name) as page:
        owner = getattr(world, person)
        job = await sync_to_async(make.job)(owner, gpu=0, pool="dev")
        await sync_to_async(make.start)(job)
        async with page_of(owner, job.public_id, page.key) as other:
            assert other.greeting["again"] is False and other.key != page.key


async def test_an_unknown_key_gets_a_new_shell_that_says_so(world):
    async with page_of(world.ada, world.name, "after-a-crash", 500) as page:
        assert (page.greeting["again"], page.greeting["at"]) == (False, 0)


async def test_a_second_view_takes_the_shell_from_the_first(world):
    async with page_of(world.ada, world.name) as page:
        async with page_of(world.ada, world.name, page.key, page.shown):
            assert (await end_of(page))["bye"] == "elsewhere"


@pytest.mark.parametrize("who, expected", [
    (None, ("signed_out", 4401)), ("bob", ("not_found", 4404)),
    ("eve", ("not_found", 4404)), ("rita", ("not_found", 4404)),
])  # fmt: skip
async def test_nobody_but_the_owner_gets_in(world, who, expected):
    person = await sync_to_async(make.admin)() if who == "rita" else getattr(world, who or "", None)
    assert await refusal_of(person, world.name) == expected


async def test_a_waiting_job_has_no_terminal(world):
    job = await sync_to_async(make.job)(world.ada, pool="dev")
    assert await refusal_of(world.ada, job.public_id) == ("not_running", 4409)


@pytest.mark.parametrize("origin", ["", "null", "https://localhost:8470", "http://a.localhost:8470"])
async def test_a_foreign_page_is_refused(world, origin):
    assert not (await (await dial(world.ada, world.name, origin)).connect(PATIENCE_S))[0]


async def test_the_words_of_the_engine_reach_the_page(world, access):
    access.refusal = "no such task here"
    socket = await dial(world.ada, world.name)
    await socket.connect(PATIENCE_S)
    assert await Page(socket).hello() == {"bye": "rejected", "detail": "no such task here"}


async def test_a_shell_that_is_left_says_its_exit_code(world):
    async with page_of(world.ada, world.name) as page:
        await page.type("exit 7\r")
        assert await end_of(page) == {"bye": "exited", "code": 7}


async def test_the_end_of_the_task_is_told(world, monkeypatch):
    monkeypatch.setattr(shells, "RECHECK_S", 0)
    async with page_of(world.ada, world.name) as page:
        await sync_to_async(make.move)(world.task, TaskState.SUCCEEDED, "completed")
        assert (await end_of(page))["bye"] == "ended"


async def test_a_killed_shell_waits_for_the_end_of_its_task(world, access):
    async with page_of(world.ada, world.name) as page:
        access.sessions[0].send_signal(9)
        await sync_to_async(make.move)(world.task, TaskState.SUCCEEDED, "completed")
        assert (await end_of(page))["bye"] == "ended"


@pytest.mark.parametrize("change, why", [
    (lambda w: User.objects.filter(pk=w.ada.pk).update(suspended_at=timezone.now()), "signed_out"),
    (lambda w: User.objects.filter(pk=w.ada.pk).update(password="changed"), "signed_out"),
    (lambda w: Membership.objects.filter(user=w.ada).delete(), "revoked"),
])  # fmt: skip
async def test_a_lost_right_closes_at_the_bell(world, change, why):
    async with page_of(world.ada, world.name) as page:
        await sync_to_async(change)(world)
        await get_channel_layer().group_send(f"user-{world.ada.pk}", {"type": "recheck"})
        assert (await end_of(page))["bye"] == why


async def test_a_lost_right_closes_without_a_bell_and_without_a_view(world, monkeypatch, access):
    monkeypatch.setattr(shells, "RECHECK_S", 0)
    async with page_of(world.ada, world.name) as page:
        await page.sees("$ ")
    await sync_to_async(Membership.objects.filter(user=world.ada).delete)()
    await access.sessions[0].wait()


async def test_nobody_comes_back_and_the_shell_ends(world, monkeypatch, access):
    async with page_of(world.ada, world.name) as page:
        await page.sees("$ ")
    monkeypatch.setattr(shells, "KEEP_S", 0)
    assert await access.sessions[0].wait() == -9


async def test_an_idle_terminal_is_closed(world, monkeypatch):
    async with page_of(world.ada, world.name) as page:
        await page.sees("$ ")
        monkeypatch.setattr(shells, "IDLE_S", 0)
        assert (await end_of(page))["bye"] == "idle"


async def test_a_flood_waits_until_it_is_shown(world):
    async with page_of(world.ada, world.name) as page:
        await page.sees("$ ")
        page.acks = False
        base = page.shown
        await page.type("yes\r")
        while page.shown - base < shells.WINDOW_BYTES:
            await page._show(await page.socket.receive_output(PATIENCE_S))
        held = len(shells._shells[page.key]._unshown)
        assert shells.WINDOW_BYTES <= held < shells.WINDOW_BYTES + shells.PIECE_BYTES
        while not await page.socket.receive_nothing(0.2):
            await page._show(await page.socket.receive_output(PATIENCE_S))
        assert page.shown - base < shells.WINDOW_BYTES + shells.PIECE_BYTES
        page.acks = True
        await page.say({"ack": page.shown})
        await page.type("\x03")
        await page.type("echo over-$((1+1))\r")
        await page.sees("over-2")


async def test_much_that_is_typed_is_taken_in_its_turn(world, monkeypatch):
    async with page_of(world.ada, world.name) as page:
        await page.sees("$ ")
        await page.type("stty raw -echo; echo go-$((6 * 7)); head -c 100000 | wc -c; stty sane\r")
        await page.sees("go-42")
        for _ in range(4):
            await page.type("x" * 25_000)
        while (await page.hear("taken"))["taken"] < 100_000:
            pass
        await page.sees("100000")


@pytest.mark.parametrize("say", [
    {"text_data": "[]"}, {"text_data": "no json"}, {"text_data": '{"hello": ""}'}, {"text_data": '{"size": [1]}'},
    {"text_data": '{"hello": "", "size": ["a", {}]}'}, {"text_data": '{"hello": "", "size": [80, 1e999]}'},
    {"text_data": '{"size": [80, 24]}'}, {"bytes_data": b"ls"},
])  # fmt: skip
async def test_what_our_page_never_says_closes_the_socket(world, say):
    socket = await dial(world.ada, world.name)
    await socket.connect(PATIENCE_S)
    await socket.send_to(**say)
    assert await socket.receive_json_from(PATIENCE_S) == {"bye": "not_understood"}


async def test_a_page_that_waits_for_nothing_is_closed(world, monkeypatch):
    monkeypatch.setattr(shells, "MOST_TYPED_BYTES", 10)
    async with page_of(world.ada, world.name) as page:
        await page.type("x" * 11)
        assert (await end_of(page))["bye"] == "not_understood"


async def test_one_person_has_so_many_terminals_and_no_more(world, monkeypatch):
    monkeypatch.setattr(shells, "MOST_OF_ONE_PERSON", 1)
    async with page_of(world.ada, world.name):
        socket = await dial(world.ada, world.name)
        await socket.connect(PATIENCE_S)
        assert (await Page(socket).hello())["bye"] == "user_limit"


async def test_who_opens_too_often_waits(world, monkeypatch):
    monkeypatch.setattr(terminal, "OPENED_PER_MINUTE", 0)
    assert await refusal_of(world.ada, world.name) == ("too_many_requests", 4429)


async def test_a_session_is_in_the_history_of_its_job(world):
    async with page_of(world.ada, world.name) as page:
        await page.type("exit\r")
        await end_of(page)
    rows = [row async for row in Event.objects.filter(verb__in=["entered", "left"]).order_by("id")]
    assert [(row.verb, row.actor, row.label, row.params["kind"]) for row in rows] == [
        ("entered", "ada", world.name, "terminal"),
        ("left", "ada", world.name, "terminal"),
    ]
