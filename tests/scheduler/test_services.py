"""Services of real processes: from zero to two and back by their requests, none lost, also when a replica is killed.

Six of them share one card, and what makes room for a more important job first answers the requests that it has.
"""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import aiohttp
import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.db import connections

from cluster.models import Gpu
from jobs.models import Job, JobKind, Task
from jobs.states import JobState, TaskState
from portal.gateway.http.services.door import ROUTE_S, ServiceDoor
from portal.gateway.http.services.programs import ProgramDoor
from runtimes.local.access.access import LocalAccess
from scheduler import tasks
from services.canaries.judging import DEVIATIONS, is_above
from services.models import Replica, Revision, Service
from services.services import create_service, revise_service, scale_service
from tests import make
from tests.gateway_server import Server
from tests.portal.gateway.conftest import portal_says

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PROGRAM = """
import http.server, os, time
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.say(b"ok")
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        os.write(1, b"counted " + body + b"\\n")
        time.sleep(float(self.headers["X-Takes"]))
        if "X-Dies" in self.headers:
            os.kill(os.getpid(), 9)
        self.say(b"done")
    def say(self, words, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(words)))
        self.send_header("X-By", "good")
        self.end_headers()
        self.wfile.write(words)
    def log_message(self, *words):
        pass
time.sleep(0.5)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["TESSERA_PORT_8000"])), Answer).serve_forever()
"""
FILE = """
kind: service
name: count
pool: dev
gpu: 1/4
cpu: 100m
memory: 128MiB
run: |
  exec python3 -c '{program}'
serve: {{port: 8000, ready: /health, replicas: 0..2, target: 4, idle: 1s, access: key}}
"""
BAD = PROGRAM.replace('"good"', '"bad"').replace(
    'self.say(b"done")', 'self.say(b"done", 500 if int(body[1:]) % 50 < 10 else 200)'
)
"""Of the requests that a canary gets, which are every tenth, it fails each fifth."""


@contextmanager
def beating():
    """The beats of the scheduler, in a thread."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.1):
            for act in (tasks.serve, tasks.cycle, tasks.reconcile):
                act()
        connections.close_all()

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def write_file(program: str, more: str = "") -> str:
    return FILE.format(program=program.strip().replace("\n", "\n  ")).replace("access: key", f"access: key{more}")


@pytest.fixture
def service(transactional_db, local, tmp_path, monkeypatch):
    access = LocalAccess(tmp_path / "data")
    monkeypatch.setattr("services.controlling.get_access", lambda: access)
    monkeypatch.setattr("services.decide.BACK_OFF", (tasks.KEYS_KEPT * 0, *[tasks.KEYS_KEPT] * 2))
    job_file = write_file(PROGRAM)
    ada = make.User.objects.get(username="ada")
    made = create_service(user=ada, job_file=job_file, check=lambda draft: None, containers=False)
    Service.objects.update(woken_at=None)  # it sleeps until somebody calls
    return make.service_key(made), access


@dataclass(frozen=True)
class Seen:
    """An answer. headers, text: of it."""

    at: float
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def by(self) -> str | None:
        return self.headers.get("X-By")


@asynccontextmanager
async def open_door(access: LocalAccess):
    """Yields a client's session and where a door of its own is."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio lets small pieces wait for others (Nagle)
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # the first request may come before the server does
    door = ServiceDoor(lambda: access)
    server = Server(uvicorn.Config(ProgramDoor(portal_says, door), log_level="error", lifespan="off"))
    work = asyncio.create_task(server.serve(sockets=[listener]))
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session,
        door.running(),
    ):
        yield session, f"http://127.0.0.1:{listener.getsockname()[1]}/-"
        server.should_exit = server.force_exit = True
        await work
        listener.close()


@asynccontextmanager
async def calling(key: str, access: LocalAccess, seen: list[Seen] | None = None):
    """Yields call(number, takes), which posts through a door of its own and returns the status. key: or a token."""
    async with open_door(access) as (session, door):

        async def call(number: int, takes: float = 0.0, to: str = "count", **headers: str) -> int:
            """X_Dies: the replica is killed when it is to answer."""
            sent = {"Authorization": f"Bearer {key}", "X-Takes": str(takes)}
            sent |= {name.replace("_", "-"): value for name, value in headers.items()}
            async with session.post(f"{door}/nlp/{to}/x", data=f"n{number}", headers=sent) as answer:
                if seen is not None:
                    seen.append(Seen(monotonic(), answer.status, answer.headers, await answer.text()))
                return answer.status

        yield call


def list_end_reasons() -> set[str]:
    return set(Job.objects.values_list("reason", flat=True))


def list_counted(logs: Path) -> list[str]:
    """What the programs of all replicas say that they got."""
    texts = [path.read_text(errors="replace") for path in logs.rglob("*") if path.is_file()]
    return sorted(re.findall(r"counted (n\d+)", "".join(texts)))


async def until(holds) -> None:
    """Wait until the database or the logs say so."""
    while not await sync_to_async(holds)():  # noqa: ASYNC110 - of other processes, which have no event
        await asyncio.sleep(0.2)


async def test_to_zero_and_back_and_a_kill_in_between(service, tmp_path):
    key, access = service
    async with calling(key, access) as call:
        with beating():
            answers = await asyncio.gather(*(call(number, 1.0) for number in range(12)))
            assert set(answers) == {200}
            assert await sync_to_async(Replica.objects.filter(draining_at=None).count)() == 2  # 12 at 4 each, 2 at most
            await until(lambda: not Replica.objects.exists())
            assert await sync_to_async(list_end_reasons)() == {"not_needed"}

            assert await call(100) == 200  # it wakes anew
            begun = asyncio.create_task(call(101, 30.0))
            await until(lambda: "n101" in list_counted(tmp_path))
            assert await call(102, X_Dies="1") == 503  # what was begun is not sent again
            assert await begun == 503
            later = await asyncio.gather(*(call(number) for number in range(103, 110)))
            assert set(later) == {200}
            await until(lambda: not Replica.objects.exists())
    counted = await sync_to_async(list_counted)(tmp_path)
    assert counted == sorted(f"n{number}" for number in [*range(12), *range(100, 110)])


async def test_what_makes_room_for_a_more_important_job_answers_its_requests_first(service):
    """The requests of the meantime are held, and answered once that job has ended."""
    key, access = service
    async with calling(key, access) as call:
        with beating():
            assert await call(0) == 200
            begun = [asyncio.create_task(call(number, 5.0)) for number in (1, 2)]
            await asyncio.sleep(1)
            job = await sync_to_async(submit_important)()
            await until(Task.objects.filter(job__kind=JobKind.SERVICE, state=TaskState.STOPPING).exists)
            assert await asyncio.gather(*begun, call(3)) == [200] * 3
            await until(Job.objects.filter(pk=job.pk, state=JobState.SUCCEEDED).exists)
    reasons = await sync_to_async(lambda: set(Task.objects.values_list("reason", flat=True)))()
    assert "preempted" in reasons


def submit_important() -> Job:
    """One that needs the whole card of the pool."""
    file = {"run": "sleep 1", "gpu": 1, "pool": "dev", "cpu": "50m", "memory": "128MiB", "priority": "high"}
    return make.job(make.User.objects.get(username="ada"), **file)


async def test_six_services_share_a_card_and_a_seventh_caller_is_told_its_place(service):
    """Of half a card each: two answer at once, and the others once those sleep."""
    _, access = service
    names = [f"half-{number}" for number in range(6)]
    token = await sync_to_async(share_one_card)(names)
    seen: list[Seen] = []
    async with calling(token, access, seen) as call:
        with beating():
            assert await asyncio.gather(*(call(n, 0.2, to=name) for n, name in enumerate(names))) == [200] * 6
            busy = [asyncio.create_task(call(10 + n, 4.0, to=name)) for n, name in enumerate(names[:2])]
            await until(lambda: Replica.objects.exclude(ready_task=None).filter(draining_at=None).count() == 2)
            assert await call(20, to="seventh") == 503
            assert await asyncio.gather(*busy) == [200] * 2
    (refused,) = (one for one in seen if one.status == 503)
    told = json.loads(refused.text)
    assert refused.headers["Content-Type"] == "application/problem+json" and int(refused.headers["Retry-After"]) > 0
    assert (told["code"], told["wait"]["position"], told["wait"]["of"]) == ("service_waking", 1, 1), told
    assert told["wait"]["job"].startswith("job-") and "number 1 of 1" in told["detail"]


def share_one_card(names: list[str]) -> str:
    """Make these services of half a card each, and a seventh that holds requests for 3 s; returns a token of ada's."""
    ada = make.User.objects.get(username="ada")
    assert Gpu.objects.filter(pool__name="dev").count() == 1
    half = write_file(PROGRAM).replace("gpu: 1/4", "gpu: 1/2").replace("access: key", "access: team")
    for name in (*names, "seventh"):
        job_file = half.replace("name: count", f"name: {name}")
        if name == "seventh":
            job_file = job_file.replace("access: team", "access: team, hold: {for: 3s}")
        create_service(user=ada, job_file=job_file, check=lambda draft: None, containers=False)
    Service.objects.update(woken_at=None)
    return make.token(ada, "services:call")


async def test_a_canary_that_fails_a_fifth_goes_back_and_the_good_revision_answers_on(service):
    """Within a minute after its rule holds, and at most 12 % of the requests saw it; none is lost."""
    key, access = service
    seen: list[Seen] = []
    async with calling(key, access, seen) as call:
        with beating():
            assert await call(0) == 200
            await sync_to_async(roll_out_badly)()
            went_back, calls = asyncio.create_task(until(has_gone_back)), []
            for number in range(1, 4000):
                calls.append(asyncio.create_task(call(number)))
                await asyncio.sleep(0.02)
                if went_back.done():
                    break
            await asyncio.gather(went_back, *calls)
            back_at = monotonic()
            await asyncio.sleep(ROUTE_S + 0.5)
            assert await asyncio.gather(*(call(10 * n) for n in range(10))) == [200] * 10
    tried = [one for one in seen if one.by == "bad"]
    holds_at = tried[next(n for n in range(len(tried)) if is_bad(tried[: n + 1]))].at
    during = [one for one in seen if tried[0].at <= one.at <= tried[-1].at]
    print(f"back {back_at - holds_at:.1f} s after the rule held; {len(tried)} of {len(during)} requests saw it")
    assert {one.status for one in seen if one.by == "good"} == {200} and {one.by for one in seen} == {"good", "bad"}
    assert back_at - holds_at <= 60 and len(tried) <= 0.12 * len(during)


def roll_out_badly() -> None:
    made, ada = Service.objects.get(), make.User.objects.get(username="ada")
    job_file = write_file(BAD, ", canary: {share: 10%}")
    revise_service(actor=ada, service=made, job_file=job_file, check=lambda draft: None, containers=False)
    scale_service(actor=ada, service=made, replicas="1..2")  # it is not to fall asleep within its second


def has_gone_back() -> bool:
    return Revision.objects.filter(number=2, why__code="went_back").exists()


def is_bad(tried: list[Seen]) -> bool:
    return is_above(sum(one.status == 500 for one in tried), len(tried), 0.02, DEVIATIONS)
