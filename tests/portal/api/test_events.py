"""The event stream by ASGI, as in life: what is seen, in order, nothing twice, nothing lost, nothing of others."""

import asyncio
import json
import threading
from contextlib import suppress

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from django.test import AsyncClient

from accounts.models import ApiToken, Membership
from events.models import Event
from events.record_and_publish import SYSTEM, record
from jobs.control import hold_job
from portal.api.events import events, hub
from portal.api.events.order import SettledIds
from portal.pages.jobs.history import history_of
from tests import make
from tests.api_client import BASE, Api

pytestmark = pytest.mark.django_db(transaction=True)
LINES = "application/x-ndjson"


@pytest.fixture(autouse=True)
async def quick(monkeypatch):
    """Views run in the thread of sync_to_async, whose connection would keep the test database from going."""
    monkeypatch.setattr(hub, "POLL_S", 0.01)
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(events, "RECHECK_S", 0.05)
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def cast():
    return make.cast()


class Client:
    """One open stream, read line by line."""

    def __init__(self, secret: str, accept: str = LINES, **headers: str):
        self.headers = {"Authorization": f"Bearer {secret}", "Accept": accept, **headers}
        self.text = ""

    async def open(self, **query: object):
        self.response = await AsyncClient().get(f"{BASE}events", query, headers=self.headers)
        assert self.response.status_code == 200, self.response.content
        self.pieces = self.response.streaming_content.__aiter__()  # type: ignore[attr-defined]
        return self

    async def until(self, *words: str) -> str:
        """Everything that came, once all the words are in it."""
        async with asyncio.timeout(10):
            while not all(word in self.text for word in words):
                self.text += (await anext(self.pieces)).decode()
        return self.text

    async def rest(self) -> str:
        async with asyncio.timeout(10):
            async for piece in self.pieces:
                self.text += piece.decode()
        return self.text

    async def close(self):
        """As when a client goes: Django cancels what waits for the next piece."""

        async def read_on():
            while True:
                await anext(self.pieces)

        reading = asyncio.create_task(read_on())
        await asyncio.sleep(0.01)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading

    def events(self) -> list[dict]:
        found = [json.loads(line) for line in self.text.splitlines() if line]
        return [event for event in found if event["type"] not in {"ready", "reset"}]


@sync_to_async
def make_job(person, **spec):
    return make.job(person, pool="dev", **spec)


@sync_to_async
def secret_of(person):
    return make.token(person)


async def test_what_happens_comes_to_whom_it_concerns_and_to_nobody_else(cast):
    ada = await Client(await secret_of(cast.ada)).open()
    eve = await Client(await secret_of(cast.eve)).open()
    await ada.until("ready")
    await eve.until("ready")
    job = await make_job(cast.bob, name="secret-plan")
    other = await make_job(cast.eve)
    assert [
        event["object"] for event in ada.events() or [json.loads((await ada.until("job.submitted")).splitlines()[-1])]
    ]
    await eve.until("job.submitted")
    assert {event["object"] for event in ada.events()} == {job.public_id}
    assert {event["object"] for event in eve.events()} == {other.public_id}
    await ada.close()
    await eve.close()


async def test_server_sent_events_have_ids_and_take_up_where_they_broke_off(cast):
    secret = await secret_of(cast.ada)
    first = await Client(secret, "text/event-stream").open()
    await first.until("event: ready", "retry: ")
    job = await make_job(cast.ada)
    text = await first.until("event: job.submitted")
    await first.close()
    seen = await sync_to_async(lambda: Event.objects.get(verb="submitted").pk)()
    assert f"id: {seen}\nevent: job.submitted\ndata: {{" in text
    await sync_to_async(hold_job)(actor=cast.ada, job=job)
    again = await Client(secret, "text/event-stream", **{"Last-Event-ID": str(seen)}).open()
    text = await again.until("event: job.held")
    assert "job.submitted" not in text and first.response["Content-Type"].startswith("text/event-stream")
    await again.close()


async def test_a_stream_that_is_not_followed_ends_with_what_is_there(cast):
    for _ in range(3):
        await make_job(cast.ada)
    client = await Client(await secret_of(cast.ada)).open(since=0, follow="false", topics="job")
    await client.rest()
    ids = [event["id"] for event in client.events()]
    assert len(ids) == 3 and ids == sorted(ids)


async def test_words_are_those_of_the_history_in_the_readers_language(cast):
    job = await make_job(cast.ada)
    secret = await secret_of(cast.ada)
    client = await Client(secret).open(since=0, follow="false", topics="job", words="true")
    await client.rest()
    page = await sync_to_async(lambda: [line.words for line in history_of(job)])()
    assert [(event["text"], event["reason_text"]) for event in client.events()] == [(page[0], "")]
    other = await Client(secret, **{"Accept-Language": "zh-hans"}).open(
        since=0, follow="false", topics="job", words="true"
    )
    await other.rest()
    assert other.events()[0]["text"] == "已提交到资源池 dev" != page[0]
    plain = await Client(secret).open(since=0, follow="false", topics="job")
    await plain.rest()
    assert "text" not in plain.events()[0]


async def test_topics_narrow_the_stream(cast):
    await sync_to_async(lambda: make.start(make.job(cast.ada, pool="dev")))()
    client = await Client(await secret_of(cast.ada)).open(since=0, follow="false", topics="job.running, task")
    await client.rest()
    assert {event["type"] for event in client.events()} == {
        "job.running", "task.assigned", "task.starting", "task.running"
    }  # fmt: skip


@pytest.mark.parametrize("since", ["999999999", "no-number"])
async def test_an_id_that_is_unknown_is_answered_with_a_reset(cast, since):
    client = await Client(await secret_of(cast.ada), "text/event-stream", **{"Last-Event-ID": since}).open()
    assert '"reason":"unknown"' in await client.until("event: reset")
    await make_job(cast.ada)
    await client.until("event: job.submitted")
    await client.close()


async def test_who_was_away_too_long_begins_anew(cast, monkeypatch):
    monkeypatch.setattr(events, "MOST_BACKLOG", 2)
    for _ in range(4):
        await make_job(cast.ada)
    first = await sync_to_async(lambda: Event.objects.earliest("pk").pk)()
    client = await Client(await secret_of(cast.ada)).open(since=first, follow="false")
    assert '"reason":"too_old"' in await client.rest() and client.events() == []


async def test_an_event_that_commits_late_is_not_overtaken_by_a_later_one(cast):
    """The earlier id is given first and becomes visible last. A stream that went by what it sees would lose it."""
    early, late = await make_job(cast.ada, name="early"), await make_job(cast.ada, name="late")
    client = await Client(await secret_of(cast.ada)).open(topics="job.poked")
    await client.until("ready")
    inserted, commit = threading.Event(), threading.Event()

    def slow():
        with transaction.atomic():
            record(early, "poked", actor=SYSTEM)
            inserted.set()
            commit.wait(10)
        connection.close()

    writer = threading.Thread(target=slow)
    writer.start()
    await asyncio.to_thread(inserted.wait, 10)
    await sync_to_async(lambda: record(late, "poked", actor=SYSTEM))()
    await asyncio.sleep(0.3)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.until(late.public_id), 0.2)
    commit.set()
    await asyncio.to_thread(writer.join)
    client = await Client(client.headers["Authorization"].removeprefix("Bearer ")).open(topics="job.poked", since=0)
    await client.until(late.public_id)
    assert [event["object"] for event in client.events()] == [early.public_id, late.public_id]


def test_the_settled_id_waits_for_writers_and_for_nobody_else(cast):
    job, ids = make.job(cast.ada, pool="dev"), SettledIds()
    last = ids.settled()
    opened, finish = threading.Event(), threading.Event()

    def writer(act):
        with transaction.atomic():
            act()
            opened.set()
            finish.wait(10)
        connection.close()

    for act, waits in ((lambda: record(job, "poked", actor=SYSTEM), True), (lambda: job.save(), False)):
        opened.clear(), finish.clear()
        thread = threading.Thread(target=writer, args=[act])
        thread.start()
        opened.wait(10)
        asked = SettledIds()
        assert (asked.settled() is None) is waits
        finish.set()
        thread.join()
        assert asked.settled() > last
        last = max(last, asked.settled() - 1)


async def test_many_writers_at_once_lose_no_event_and_none_comes_twice(cast):
    jobs = [await make_job(cast.ada, name=f"j{number}") for number in range(6)]
    client = await Client(await secret_of(cast.ada)).open(topics="job.poked")
    await client.until("ready")

    def write(job):
        for _ in range(25):
            with transaction.atomic():
                record(job, "poked", actor=SYSTEM)
        connection.close()

    threads = [threading.Thread(target=write, args=[job]) for job in jobs]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(20):
        while len(client.events()) < 150:
            client.text += (await anext(client.pieces)).decode()
    ids = [event["id"] for event in client.events()]
    assert ids == sorted(set(ids)) and len(ids) == 150
    for thread in threads:
        thread.join()
    await client.close()


@pytest.mark.parametrize("end", ["revoke", "suspend"])
async def test_a_right_that_ends_ends_the_stream(cast, end):
    client = await Client(await secret_of(cast.ada)).open()
    await client.until("ready")
    if end == "revoke":
        await sync_to_async(ApiToken.objects.update)(revoked_at="2026-01-01T00:00Z")
    else:
        await sync_to_async(type(cast.ada).objects.update)(suspended_at="2026-01-01T00:00Z")
    await client.rest()


async def test_who_leaves_the_team_hears_no_more_of_it(cast):
    client = await Client(await secret_of(cast.ada), "text/event-stream").open()
    await client.until("event: ready")
    await sync_to_async(Membership.objects.filter(user=cast.ada).delete)()
    client.text = ""
    await client.until("heartbeat")
    await make_job(cast.bob)
    client.text = ""
    assert "job." not in await client.until("heartbeat")
    await client.close()


async def test_a_slow_client_is_cut_and_the_others_go_on(cast, monkeypatch):
    monkeypatch.setattr(hub, "QUEUE", 2)
    secret = await secret_of(cast.ada)
    slow, quick = await Client(secret).open(topics="job.submitted"), await Client(secret).open(topics="job.submitted")
    await slow.until("ready")
    await quick.until("ready")
    for number in range(6):
        await make_job(cast.ada, name=f"j{number}")
        async with asyncio.timeout(10):
            while len(quick.events()) <= number:
                quick.text += (await anext(quick.pieces)).decode()
    await slow.rest()
    assert len(slow.events()) < 6 == len(quick.events())
    await quick.close()


async def test_a_person_has_so_many_streams_and_no_more(cast, settings):
    settings.TESSERA_STREAMS = 1
    secret = await secret_of(cast.ada)
    client = await Client(secret).open()
    await client.until("ready")
    refused = await AsyncClient().get(f"{BASE}events", headers={"Authorization": f"Bearer {secret}"})
    assert refused.status_code == 429 and refused.json()["code"] == "too_many_streams" and refused["Retry-After"]
    await client.close()
    again = await Client(secret).open()
    await again.until("ready")
    await again.close()


async def test_those_that_come_at_the_same_moment_are_counted_too(cast, settings, monkeypatch):
    settings.TESSERA_STREAMS = 2
    secret = await secret_of(cast.ada)
    asked = {"headers": {"Authorization": f"Bearer {secret}", "Accept": LINES}}
    answers = await asyncio.gather(*(AsyncClient().get(f"{BASE}events", **asked) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429]
    monkeypatch.setattr(hub, "BEGINS_WITHIN_S", 0)  # nobody began to read them: soon they count no more
    await (await Client(secret).open(follow="false")).rest()


async def test_other_forms_and_unreadable_questions_are_refused(cast):
    ada = Api(await secret_of(cast.ada))
    for query, accept, status in (({}, "text/html", 406), ({"since": "x"}, "*/*", 400), ({"since": "-1"}, "*/*", 400)):
        answer = await AsyncClient().get(f"{BASE}events", query, headers={**ada.headers, "Accept": accept})
        assert answer.status_code == status and answer["Content-Type"] == "application/problem+json"
