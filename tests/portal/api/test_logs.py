"""A log by REST: from any byte, while it is written, and never for the stranger. By ASGI, as in life."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from accounts.models import ApiToken
from portal.api.jobs import logs
from runtimes.log_store import LogStore
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db(transaction=True)
COLOURED = b"\x1b[32mepoch 1\x1b[0m <b>\xff\n"


@pytest.fixture
def store(tmp_path, settings, monkeypatch):
    settings.TESSERA_LOGS = tmp_path
    monkeypatch.setattr(logs, "POLL_S", 0.01)
    monkeypatch.setattr(logs, "ASK_EVERY_S", 0.02)
    return LogStore(tmp_path)


@pytest.fixture(autouse=True)
async def no_connection_left():
    """Views run in the thread of sync_to_async, whose connection would keep the test database from going."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def world(store):
    """ada's running job, its task, and who asks."""
    cast = make.cast()
    job = make.job(cast.ada, pool="dev")
    (task,) = make.start(job)
    return job, task, Api(make.token(cast.ada)), Api(make.token(cast.eve))


def address(job) -> str:
    return f"jobs/{job.public_id}/logs"


async def test_the_log_comes_as_it_was_written(world, store):
    job, task, ada, _ = world
    store.append(task.uuid.hex, 0, COLOURED)
    response, body = await ada.read(address(job))
    assert (response.status_code, body) == (200, COLOURED)
    assert response["Content-Type"] == "text/plain; charset=utf-8" and response["X-Content-Type-Options"] == "nosniff"
    assert (response["X-Log-Offset"], response["X-Log-Next-Offset"]) == ("0", str(len(COLOURED)))


async def test_it_goes_on_from_any_byte(world, store):
    job, task, ada, _ = world
    store.append(task.uuid.hex, 0, bytes(range(256)) * 1000)
    whole, offset = b"", 0
    while offset < 256_000:
        response, body = await ada.read(address(job), {"offset": offset})
        whole, offset = whole + body[:100_001], offset + len(body[:100_001])
    assert whole == bytes(range(256)) * 1000
    response, body = await ada.read(address(job), {"offset": 10**18})
    assert (body, response["X-Log-Next-Offset"]) == (b"", str(10**18))


async def test_following_ends_with_the_task_and_has_every_byte_once(world, store):
    job, task, ada, _ = world
    pieces = [f"line {n}\n".encode() for n in range(50)]
    reading = asyncio.create_task(ada.read(address(job), {"follow": "1", "offset": 3}))
    offset = 0
    for piece in pieces:
        offset = await asyncio.to_thread(store.append, task.uuid.hex, offset, piece)
        await asyncio.sleep(0.002)
    await sync_to_async(make.end)(job)
    _, body = await asyncio.wait_for(reading, 10)
    assert body == b"".join(pieces)[3:]


async def test_following_waits_for_a_job_that_waits(store):
    cast = await sync_to_async(make.cast)()
    job = await sync_to_async(make.job)(cast.ada, pool="dev")
    ada = Api(await sync_to_async(make.token)(cast.ada))
    reading = asyncio.create_task(ada.read(address(job), {"follow": "true"}))
    await asyncio.sleep(0.05)
    assert not reading.done()
    (task,) = await sync_to_async(make.start)(job)
    store.append(task.uuid.hex, 0, b"at last\n")
    await sync_to_async(make.end)(job)
    assert (await asyncio.wait_for(reading, 10))[1] == b"at last\n"


async def test_a_token_that_is_revoked_hears_no_more(world, store):
    job, _, ada, _ = world
    reading = asyncio.create_task(ada.read(address(job), {"follow": "1"}))
    await asyncio.sleep(0.05)
    await ApiToken.objects.aupdate(revoked_at="2026-01-01T00:00Z")
    response, body = await asyncio.wait_for(reading, 10)
    assert (response.status_code, body) == (200, b"")


async def test_many_followers_do_not_block_the_loop(world, store):
    job, _, ada, _ = world
    followers = [asyncio.create_task(ada.read(address(job), {"follow": "1"})) for _ in range(20)]
    await asyncio.sleep(0.05)
    response, _ = await asyncio.wait_for(ada.read("me"), 10)
    assert response.status_code == 200
    await sync_to_async(make.end)(job)
    await asyncio.wait_for(asyncio.gather(*followers), 20)


async def test_the_stranger_gets_404_as_for_a_job_that_is_none(world, store):
    job, task, _, eve = world
    store.append(task.uuid.hex, 0, b"hush")
    for path, query in ((address(job), {}), (address(job), {"follow": "1"}), (address(job), {"task": str(task.uuid)})):
        response, body = await eve.read(path, query)
        assert response.status_code == 404 and b"hush" not in body
        assert response["Content-Type"] == "application/problem+json"


async def test_a_task_of_another_job_is_not_found_by_this_one(world, store):
    job, task, ada, _ = world
    other = await sync_to_async(make.job)(await sync_to_async(lambda: job.user)(), pool="dev")
    response, _ = await ada.read(address(other), {"task": str(task.uuid)})
    assert response.status_code == 404


async def test_lines_are_found_and_the_rest_is_told(world, store):
    job, task, ada, _ = world
    store.append(task.uuid.hex, 0, b"Loss 3\nother\n\x1b[1mloss\x1b[0m 2\nloss 1")
    response, body = await ada.read(address(job), {"search": "loss "})
    assert body == b"Loss 3\n\x1b[1mloss\x1b[0m 2\nloss 1\n"
    assert response["X-Log-Next-Offset"] == response["X-Log-Size"] == str(store.size(task.uuid.hex))
    store.append(task.uuid.hex, store.size(task.uuid.hex), b"\nloss" * 1500)
    lines, offset, size = 0, 0, 1
    while offset < size:
        response, body = await ada.read(address(job), {"search": "LOSS", "offset": offset})
        lines, offset, size = lines + body.count(b"\n"), int(response["X-Log-Next-Offset"]), int(response["X-Log-Size"])
    assert lines == 1503


async def test_times_are_told_where_they_are_known(world, store):
    job, task, ada, _ = world
    store.append(task.uuid.hex, 0, b"one\n\ntwo\n", [(0, 1767225600), (5, 1767225605)])
    store.append(task.uuid.hex, 9, b"three")
    _, body = await ada.read(address(job), {"timestamps": "true"})
    assert body == b"2026-01-01T00:00:00Z one\n2026-01-01T00:00:00Z \n2026-01-01T00:00:05Z two\n- three"
    _, body = await ada.read(address(job), {"timestamps": "true", "search": "W"})
    assert body == b"2026-01-01T00:00:05Z two\n"


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"offset": "-1"}, "/offset"), ({"offset": "x"}, "/offset"), ({"rank": "7"}, "/rank"), ({"rank": "-"}, "/rank"),
        ({"task": "../../etc"}, "/task"), ({"follow": "perhaps"}, "/follow"), ({"offset": "9" * 40}, "/offset"),
        ({"search": "x" * 201}, "/search"), ({"search": "x", "follow": "1"}, "/follow"),
        ({"timestamps": "x"}, "/timestamps"), ({"timestamps": "1", "follow": "1"}, "/follow"),
    ],
)  # fmt: skip
async def test_a_bad_question_is_refused_by_name(world, query, pointer):
    job, _, ada, _ = world
    response, _ = await ada.read(address(job), query)
    assert response.status_code == 400 and response.json()["errors"][0]["pointer"] == pointer
