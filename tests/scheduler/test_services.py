"""A service of real processes: from zero to two and back by its requests, none lost, also when a replica is killed."""

import asyncio
import re
import socket
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import aiohttp
import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.db import connections

from jobs.models import Job
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
    at: float
    status: int
    by: str | None


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
    """Yields call(number, takes), which posts through a door of its own and returns the status."""
    async with open_door(access) as (session, door):

        async def call(number: int, takes: float = 0.0, **headers: str) -> int:
            """X_Dies: the replica is killed when it is to answer."""
            sent = {"Authorization": f"Bearer {key}", "X-Takes": str(takes)}
            sent |= {name.replace("_", "-"): value for name, value in headers.items()}
            async with session.post(f"{door}/nlp/count/x", data=f"n{number}", headers=sent) as answer:
                if seen is not None:
                    seen.append(Seen(monotonic(), answer.status, answer.headers.get("X-By")))
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
