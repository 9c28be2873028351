"""The door of services for programs: who comes in, what passes, and what waits until a replica is ready."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter, time

import aiohttp
import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.db import connections
from yarl import URL

from common.locks import database_now
from jobs.states import TaskState
from portal.gateway.http.services.door import ServiceDoor
from portal.gateway.http.services.programs import ProgramDoor
from services.controlling import control_service
from services.in_flight import Loads, read_loads
from services.key_limits import leave_place, take_place
from services.models import CallCount, Replica, Service, ServiceKey
from services.services import delete_service, revise_service, stop_service
from services.traffic import Traffic, sum_slots
from services.traffic_counts import read_slots
from tests import make
from tests.gateway_server import Server, Sockets
from tests.portal.gateway.conftest import DECLARED, Program, portal_says, running

pytestmark = pytest.mark.timeout(60)


class World:
    """A service of ada's on a real server, and programs on real sockets that stand for its replicas."""

    def __init__(self, cast, service, key, programs, sockets, session, port):
        self.cast, self.service, self.key, self.programs, self.door = cast, service, key, programs, programs._door
        self.sockets, self.session, self.port = sockets, session, port

    def call(self, path="/seen", method="GET", secret=None, address="/-/nlp/chat", **options):
        headers = {"Authorization": f"Bearer {secret or self.key}", **options.pop("headers", {})}
        url = URL(f"http://127.0.0.1:{self.port}{address}{path}", encoded=True)
        return self.session.request(method, url, headers=headers, allow_redirects=False, **options)

    def dial(self, path="/ws", secret=None, **options):
        headers = {"Authorization": f"Bearer {secret or self.key}"}
        return self.session.ws_connect(f"http://127.0.0.1:{self.port}/-/nlp/chat{path}", headers=headers, **options)

    async def start_replica(self, program: Program) -> Replica:
        """Let the controller start one more replica, which answers as this program."""
        task = await sync_to_async(make.replica)(self.service)
        self.sockets.tasks[task.uuid.hex] = {task.ports[str(DECLARED)]: program.port}
        return await Replica.objects.aget(ready_task=task.uuid)


@asynccontextmanager
async def serving(settings, **fields):
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio lets small pieces wait for others (Nagle)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    settings.TESSERA_PUBLIC_URL = f"http://localhost:{port}"
    cast, service, key = await sync_to_async(build)(fields)
    sockets = Sockets()
    door = ServiceDoor(lambda: sockets)
    programs = ProgramDoor(portal_says, door)
    server = Server(uvicorn.Config(programs, log_level="error", lifespan="off"))
    work = asyncio.create_task(server.serve(sockets=[listener]))
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session, door.running():
        yield World(cast, service, key, programs, sockets, session, port)
        server.should_exit = server.force_exit = True
        await work
        listener.close()
    await sync_to_async(connections.close_all)()


async def until(holds) -> None:
    """Wait until something holds."""
    while not holds():  # noqa: ASYNC110 - several processes' and programs' states, which have no event
        await asyncio.sleep(0.01)


def build(fields):
    cast = make.cast()
    service = make.service(cast.ada, **fields)
    return cast, service, make.service_key(service)


@pytest.fixture
async def world(transactional_db, settings):
    async with serving(settings) as made:
        yield made


async def test_a_request_passes_without_what_opened_the_door_and_comes_back_without_power(world):
    program = Program()
    async with running(program):
        await world.start_replica(program)
        asked = {"Cookie": "tessera=1; own=2", "X-Forwarded-For": "1.2.3.4"}
        async with world.call("/seen?a=1%2F2", headers=asked) as answer:
            seen = await answer.json()
        sent = {name.lower() for name, _ in seen["headers"]}
        assert (answer.status, seen["path"]) == (200, "/seen?a=1%2F2")
        assert not sent & {"cookie", "authorization", "x-forwarded-for"}
        async with world.call("/cookies") as answer:
            assert answer.headers["X-Own"] == "kept"
            assert "Set-Cookie" not in answer.headers and "Clear-Site-Data" not in answer.headers
            assert answer.headers.getall("Content-Security-Policy") == [
                "sandbox; default-src 'none'; frame-ancestors 'none'"
            ]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        async with world.session.get(f"http://127.0.0.1:{world.port}/jobs/") as answer:
            assert await answer.text() == "portal"


@pytest.mark.parametrize("access", ["owner", "team", "key", "everybody"])
async def test_who_comes_in(transactional_db, settings, access):
    async with serving(settings, access=access, hold="1s") as world:
        program = Program()
        tokens = {who: await sync_to_async(make.token)(getattr(world.cast, who)) for who in ("ada", "bob", "eve")}
        async with running(program):
            await world.start_replica(program)
            found = {}
            for who, token in tokens.items():
                async with world.call(secret=token) as answer:
                    found[who] = answer.status
            let_in = {"owner": "ada", "team": "ada bob", "key": "", "everybody": "ada bob eve"}[access].split()
            assert found == {who: 200 if who in let_in else 404 for who in tokens}
            async with world.call() as answer:
                assert answer.status == 200  # a key always does


async def test_who_does_not(world):
    cast = world.cast
    other = await sync_to_async(lambda: make.service_key(make.service(cast.ada, "other")))()
    unscoped = await sync_to_async(make.token)(cast.ada, "jobs:read")
    cases = [("tsk_" + "x" * 43, 401), ("tes_" + "x" * 43, 401), (other, 404), (unscoped, 403), ("x", 401)]
    for secret, status in cases:
        async with world.call(secret=secret) as answer:
            assert (answer.status, answer.content_type) == (status, "application/problem+json")
    async with world.session.get(f"http://127.0.0.1:{world.port}/-/nlp/chat/seen", cookies={"tessera": "1"}) as answer:
        assert answer.status == 401 and answer.headers["WWW-Authenticate"].startswith("Bearer")
    for address in ("/-/nlp/nothing", "/-/vision/chat", "/-/nlp", "/-//", "/-/nlp/../x"):
        async with world.call(address=address) as answer:
            assert answer.status == 404
    await sync_to_async(delete_service)(actor=cast.ada, service=world.service)
    async with world.call() as answer:
        assert answer.status == 401  # its keys are gone with it


async def test_requests_wait_while_it_wakes_and_none_is_lost_or_doubled(world, monkeypatch):
    """Three wait, which is the most; a fourth is told so at once. They are counted, and pass once a replica is up."""
    program = Program()
    program.go.set()
    bodies = [bytes([n]) * 70_000 for n in range(3)]

    async def post(body):
        async with world.call("/up", "POST", data=body) as answer:
            return answer.status, await answer.text()

    async with running(program):
        held = [asyncio.create_task(post(body)) for body in bodies]
        await until(lambda: world.door.in_flight.held.total() == 3)
        async with world.call() as answer:
            assert answer.status == 503 and (await answer.json())["code"] == "service_full"
            assert answer.headers["Retry-After"] == "10"
        await asyncio.sleep(0.2)  # a request that waits is published at once
        assert (await sync_to_async(read_loads)()).services == {world.service.pk: 3}
        await world.start_replica(program)
        answers = await asyncio.gather(*held)
    assert [status for status, _ in answers] == [200] * 3
    assert program.received == 3 * 70_000
    assert not world.door.in_flight.services and not world.door.in_flight.replicas


async def test_a_service_of_short_requests_is_not_taken_for_idle(world):
    program = Program()
    async with running(program):
        await world.start_replica(program)
        async with world.call() as answer:
            assert answer.status == 200
        for _ in range(100):
            if (await sync_to_async(read_loads)()).services == {world.service.pk: 1}:
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("the controller was never told of the request")


async def test_who_leaves_while_waiting_is_not_counted_any_more(world):
    for method, body in (("GET", None), ("POST", b"x" * 1000)):
        asking = asyncio.create_task(world.call("/up", method, data=body).__aenter__())
        await until(lambda: world.door.in_flight.held)
        asking.cancel()
        await until(lambda: not world.door.in_flight.services)


async def test_who_waited_long_enough_is_told_what_it_waits_for(transactional_db, settings):
    async with serving(settings, hold="1s") as world:

        def queue():
            control_service(world.service.pk, Loads({world.service.pk: 1}), lambda draft: None, containers=False)
            job = Replica.objects.get().job
            reasons = [{"code": "gpu_short", "params": {}}]
            type(job).objects.update(wait_position=3, wait_of=5, wait_reasons=reasons)
            return job.public_id

        job = await sync_to_async(queue)()
        async with world.call() as answer:
            problem = await answer.json()
        assert (answer.status, problem["code"]) == (503, "service_waking")
        assert "number 3 of 5 in the queue of dev" in problem["detail"]
        assert problem["wait"] == {"job": job, "position": 3, "of": 5, "starts": ""}
        assert int(answer.headers["Retry-After"]) >= 1


async def test_only_what_no_program_has_seen_is_sent_to_another_replica(world):
    """The least busy one is gone: requests go on to the other. One that a program began ends with it."""
    first, second = Program("first"), Program("second")
    async with running(first), running(second):
        gone = await world.start_replica(first)
        await world.start_replica(second)
        hanging = asyncio.create_task(world.call("/hang").__aenter__())
        await first.go.wait()
        # What hangs is at the first; the second is less busy, and takes what comes.
        async with world.call() as answer:
            assert (await answer.json())["name"] == "second"
        hanging.cancel()
        await first.left.wait()
        world.sockets.tasks[gone.ready_task.hex] = {}  # nothing listens any more
        second.go.set()
        for _ in range(3):
            async with world.call("/up", "POST", data=b"abc") as answer:
                assert await answer.text() in ("3", "6", "9")
        del world.sockets.tasks[gone.ready_task.hex]  # and then there is no such task
        async with world.call() as answer:
            assert (await answer.json())["name"] == "second"


async def test_a_canary_gets_its_share_and_no_more(world, monkeypatch):
    monkeypatch.setattr("portal.gateway.http.services.door.ROUTE_S", 0.0)
    good, canary = Program("good"), Program("canary")

    def try_canary() -> None:
        job_file = make.SERVICE_FILE.format(**make.USUAL_SERVICE).replace("access: team", "canary: {share: 20%}")
        abilities = {"check": lambda draft: None, "containers": False}
        revise_service(actor=world.cast.ada, service=world.service, job_file=job_file, **abilities)
        control_service(world.service.pk, Loads({world.service.pk: 1}), **abilities)
        replica = Replica.objects.latest("pk")
        [task] = make.start(replica.job)
        world.sockets.tasks[task.uuid.hex] = {task.ports[str(DECLARED)]: canary.port}
        Replica.objects.filter(pk=replica.pk).update(ready_task=task.uuid, ready_at=database_now())

    async def call(times: int) -> list[str]:
        names = []
        for _ in range(times):
            async with world.call() as answer:
                names.append((await answer.json())["name"])
        return names

    async with running(good):
        await world.start_replica(good)
        async with running(canary):
            await sync_to_async(try_canary)()
            assert await call(15) == (["good"] * 4 + ["canary"]) * 3
        assert set(await call(6)) == {"good"}  # nothing listens there any more


async def test_a_program_that_dies_within_a_request_is_told_of_and_what_was_answered_is_counted(world):
    program = Program()

    async def die(request):
        request.transport.close()

    async def fail(request):
        raise aiohttp.web.HTTPInternalServerError

    program.nothing, program.cookies = die, fail
    async with running(program):
        replica = await world.start_replica(program)
        async with world.call("/nothing") as answer:
            assert (answer.status, (await answer.json())["code"]) == (503, "service_silent")
        for path in ("/seen", "/missing", "/cookies"):
            async with world.call(path) as answer:
                assert answer.status == {"/seen": 200, "/missing": 404, "/cookies": 500}[path]
        with pytest.raises(aiohttp.ClientPayloadError):
            async with world.call("/broken") as answer:
                await answer.read()
        leaving = asyncio.create_task(world.call("/hang").__aenter__())
        await program.go.wait()
        leaving.cancel()
        await program.left.wait()
        await until(lambda: not world.door.in_flight.replicas)
    await world.door.traffic.add()
    counted = await sync_to_async(load_traffic)(world.service, replica.revision_id)
    assert (counted.requests, counted.errors, sum(counted.times.values())) == (6, 3, 5)  # who left is not an error


def load_traffic(service: Service, revision: int) -> Traffic:
    return sum_slots(read_slots(service.pk, time() - 60, time()) or [], 0, revision)


async def test_pieces_pass_one_by_one(world):
    program, go = Program(), asyncio.Event()

    async def stream(request):
        answer = aiohttp.web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: 1\n\n")
        await go.wait()
        await answer.write(b"data: 2\n\n")
        return answer

    program.seen = stream
    async with running(program):
        await world.start_replica(program)
        async with world.call() as answer:
            assert await answer.content.readany() == b"data: 1\n\n"
            go.set()
            assert await answer.content.readany() == b"data: 2\n\n"


async def test_a_socket_waits_passes_and_is_counted_until_it_ends(world):
    program = Program()
    async with running(program):
        dialing = asyncio.create_task(world.dial(protocols=("v0.other", "v1.kernel")))
        await until(lambda: world.door.in_flight.held)
        replica = await world.start_replica(program)
        end = await dialing
        await end.send_str("hello")
        await end.send_bytes(b"\x00\xff")
        assert (end.protocol, await end.receive_str(), await end.receive_bytes()) == ("v1.kernel", "hello", b"\x00\xff")
        assert not {"Authorization", "Cookie"} & set(program.asked[0].headers)
        # Its replica is not drained before it ends, or before the limit.
        assert world.door.in_flight.replicas == {replica.pk: 1}
        await end.send_str("close 4123")
        assert (await end.receive()).type is aiohttp.WSMsgType.CLOSE and end.close_code == 4123
        await until(lambda: not world.door.in_flight.services)
        last = await world.dial()
    assert (await last.receive(5)).type is aiohttp.WSMsgType.CLOSE  # its program was ended


async def test_a_socket_that_may_not_be_is_refused_and_one_that_may_no_more_ends(world, monkeypatch):
    for name in ("CALLER_S", "RECHECK_S"):
        monkeypatch.setattr(f"portal.gateway.http.services.programs.{name}", 0.2)
    monkeypatch.setattr("portal.gateway.http.websocket_relay.HANDSHAKE_S", 0.2)
    program = Program()
    async with running(program):
        await world.start_replica(program)
        for options, status in (
            ({"secret": "tsk_" + "x" * 43}, 401),
            ({"path": "/none"}, 404),
            ({"path": "/hang"}, 503),
        ):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await world.dial(**options)
            assert refused.value.status == status
        end = await world.dial()
        await sync_to_async(world.service.keys.all().delete)()
        assert (await end.receive(5)).type is aiohttp.WSMsgType.CLOSE and end.close_code == 4403


async def test_a_key_is_held_to_its_limits_and_its_requests_are_counted(world, monkeypatch):
    monkeypatch.setattr("common.rates.time", lambda: 1000.0)  # 20 s before a minute's end
    limited = await sync_to_async(make.service_key)(world.service, "bot", per_minute=3, in_flight=1)
    key = await ServiceKey.objects.aget(name="bot")
    program = Program()
    async with running(program):
        await world.start_replica(program)
        hanging = asyncio.create_task(world.call("/hang", secret=limited).__aenter__())
        await program.go.wait()
        async with world.call(secret=limited) as answer:
            problem = await answer.json()
        assert (answer.status, problem["code"], answer.headers["Retry-After"]) == (429, "service_key_in_flight", "1")
        assert "This key has 1 requests in flight" in problem["detail"] and problem["message"] == problem["detail"]
        async with world.call() as answer:
            assert answer.status == 200  # other keys have limits of their own, or none
        hanging.cancel()
        await until(lambda: take_place(key.pk, "free", 1))
        leave_place(key.pk, "free")
        async with world.call(secret=limited) as answer:
            assert answer.status == 200
        async with world.call(secret=limited) as answer:
            assert (answer.status, (await answer.json())["code"]) == (429, "service_key_rate")
            assert answer.headers["Retry-After"] == "20"
    for _ in range(2):  # the second time, nothing is left to store
        await world.door.usage.add()
    rows = CallCount.objects.filter(service=world.service).order_by("name").values_list("name", "requests", "errors")
    assert [row async for row in rows] == [("bot", 3, 2), ("test", 1, 0)]


async def test_a_plain_openai_client_streams(world):
    """Its wire format. How late pieces come is printed, and held to loosely."""
    program, asked = Program(), []

    async def complete(request):
        body = await request.json()
        asked.append((request.path, body["model"], request.headers.get("Authorization")))
        if not body.get("stream"):
            return aiohttp.web.json_response({"object": "chat.completion", "choices": [{"message": {"content": "Hi"}}]})
        answer = aiohttp.web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for _ in range(20):
            delta = {"choices": [{"index": 0, "delta": {"content": repr(perf_counter())}}]}
            await answer.write(b"data: %s\n\n" % json.dumps(delta).encode())
            await asyncio.sleep(0.01)
        await answer.write(b"data: [DONE]\n\n")
        return answer

    program.chat = complete
    async with running(program):
        await world.start_replica(program)
        body = {"model": "qwen", "messages": [{"role": "user", "content": "Hi"}]}
        asks = {"headers": {"Accept": "application/json", "X-Stainless-Lang": "python"}}
        late_ms = []
        async with world.call("/v1/chat/completions", "POST", json=body, **asks) as answer:
            assert (await answer.json())["choices"][0]["message"]["content"] == "Hi"
        async with world.call("/v1/chat/completions", "POST", json=body | {"stream": True}, **asks) as answer:
            assert answer.content_type == "text/event-stream"
            async for line in answer.content:
                if line == b"data: [DONE]\n":
                    break
                if line.strip():
                    piece = json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"]["content"]
                    late_ms.append(1000 * (perf_counter() - float(piece)))
    print(f"pieces come {median(late_ms):.1f} ms late, the last of 20 {max(late_ms):.1f}")
    assert asked == [("/v1/chat/completions", "qwen", None)] * 2
    assert len(late_ms) == 20 and median(late_ms) < 100  # 200 ms pass until the last: none waits for another


async def test_a_stopped_one_refuses_at_once(world):
    await sync_to_async(stop_service)(actor=world.cast.bob, service=world.service)
    async with world.call() as answer:
        assert (answer.status, (await answer.json())["code"]) == (503, "service_stopped")


async def test_a_redirect_stays_within_the_service(world):
    program = Program()

    async def lead(request):
        raise aiohttp.web.HTTPFound("/elsewhere")

    program.nothing = lead
    async with running(program):
        await world.start_replica(program)
        async with world.call("/nothing") as answer:
            assert answer.headers["Location"] == "/-/nlp/chat/elsewhere"


async def test_a_replica_that_ended_gets_nothing(world, monkeypatch):
    monkeypatch.setattr("portal.gateway.http.services.door.ROUTE_S", 0.0)
    first, second = Program("first"), Program("second")
    async with running(first), running(second):
        replica = await world.start_replica(first)
        async with world.call() as answer:
            assert (await answer.json())["name"] == "first"
        task = await sync_to_async(lambda: replica.job.tasks.get())()
        await sync_to_async(make.move)(task, TaskState.FAILED, "exit_nonzero", exit_code=1)
        asking = asyncio.create_task(world.call().__aenter__())
        await until(lambda: world.door.in_flight.held)
        await sync_to_async(control_and_try_again)(world.service)
        await world.start_replica(second)
        answer = await asking
        assert (await answer.json())["name"] == "second"


def control_and_try_again(service: Service) -> None:
    """Let the controller count the crash, without its pause."""
    control_service(service.pk, Loads({}), lambda draft: None, containers=False)
    service.revisions.update(retry_at=None)
