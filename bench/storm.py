"""A storm of submits over many connections, and how long somebody else's page takes meanwhile.

bin/bench storm [--submits 2000] [--connections 150] [--people 40]. Prints how many got which answer, and how long pages
took before and meanwhile; exits 1 where a submit was lost or doubled, or a page took longer than a second.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from bench.stack import Stack, running_stack

PAGE_S = 1.0
SIGN_IN = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
def sign_in(person):
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY], store[BACKEND_SESSION_KEY] = str(person.pk), settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = person.get_session_auth_hash()
    store.create()
    return f"{settings.SESSION_COOKIE_NAME}={store.session_key}"
"""
MAKE_PEOPLE = """
from accounts.models import Team
from accounts.scopes import SCOPES
from accounts.services import add_member, create_token, create_user
team = Team.objects.get(name="research")
def make(name):
    person = create_user(username=name)
    add_member(user=person, team=team)
    return person
for number in range({people}):
    print(create_token(user=make(f"storm-{{number}}"), name="storm", scopes=list(SCOPES))[1])
print(sign_in(make("eve")))
"""
LIST_AND_STOP_JOBS = """
from events.record_and_publish import SYSTEM
from jobs.control import end_jobs
from jobs.models import Job
print(*Job.objects.values_list("pk", flat=True))
end_jobs(by=SYSTEM, jobs=list(Job.objects.open()), reason="stopped_by_user")
"""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Storm:
    """answers: of the submits. pages_s: how long each page took meanwhile; alone_s: and before."""

    answers: list[Answer] = field(default_factory=list)
    pages_s: list[float] = field(default_factory=list)
    alone_s: list[float] = field(default_factory=list)
    took_s: float = 0.0


class Connection:
    """One kept-alive connection, opened again when the server closed it."""

    def __init__(self, port: int):
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        told = {"Host": f"localhost:{self.port}", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        found = dict(line.lower().split(": ", 1) for line in lines if line)
        content = await self._read_body(reader, found)
        if found.get("connection") == "close":
            self.close()
        return Answer(int(status_line.split()[1]), found, content)

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None

    @staticmethod
    async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await reader.readexactly(int(headers["content-length"]))
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench storm", description=__doc__)
    parser.add_argument("--submits", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=150)
    parser.add_argument("--people", type=int, default=40)
    asked = parser.parse_args()
    with running_stack(notebooks=False) as stack:
        *tokens, cookie = run_there(stack, SIGN_IN + MAKE_PEOPLE.format(people=asked.people))
        each = [tokens[number % len(tokens)] for number in range(asked.submits)]
        storm = asyncio.run(raise_storm(stack.port, each, cookie, connections=asked.connections))
        kept = run_there(stack, LIST_AND_STOP_JOBS)
        return report(storm, kept)


def run_there(stack: Stack, code: str) -> list[str]:
    """Run Python on the platform's database, and return the words that it prints."""
    return stack.manage("shell", "--no-imports", "-c", code).split()


def report(storm: Storm, kept: list[str]) -> int:
    told = [(answer.status, json.loads(answer.body)) for answer in storm.answers]
    taken = [body["id"].removeprefix("job-") for status, body in told if status == 201]
    kinds = Counter((status, body.get("code", "")) for status, body in told)
    pages = sorted(storm.pages_s)
    for (status, code), number in sorted(kinds.items()):
        print(f"{number:6} x {status} {code}")
    unsaid = sum(answer.status != 201 and "retry-after" not in answer.headers for answer in storm.answers)
    print(f"in {storm.took_s:.1f} s; refused without Retry-After: {unsaid}; jobs: {len(kept)}")
    print(f"page alone: median {median(storm.alone_s):.2f} s")
    p95 = pages[int(0.95 * (len(pages) - 1))]
    print(f"{len(pages)} pages meanwhile: median {median(pages):.2f} s, p95 {p95:.2f} s, longest {pages[-1]:.2f} s")
    return int(sorted(taken) != sorted(kept) or unsaid > 0 or pages[-1] > PAGE_S)


async def raise_storm(port: int, tokens: list[str], cookie: str, *, connections: int) -> Storm:
    """Send a submit by each token over so many connections, all at once, and look at a page until all are answered.

    cookie: of somebody else's session.
    """
    storm, left = Storm(), list(enumerate(tokens))
    body = json.dumps({"run": "sleep 5", "gpu": "1/4"}).encode()

    async def submit() -> None:
        connection = Connection(port)
        while left:
            number, token = left.pop()
            named = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"storm-{number}"}
            named["Content-Type"] = "application/json"
            storm.answers.append(await connection.ask("POST", "/api/v1/jobs", named, body))
        connection.close()

    async def look() -> None:
        connection = Connection(port)
        while len(storm.answers) < len(tokens):
            storm.pages_s.append(await _time_page(connection, cookie))
            await asyncio.sleep(0.1)
        connection.close()

    alone = Connection(port)
    storm.alone_s = [await _time_page(alone, cookie) for _ in range(6)][1:]  # the first loads templates
    alone.close()
    began = time.monotonic()
    await asyncio.gather(look(), *(submit() for _ in range(connections)))
    storm.took_s = time.monotonic() - began
    return storm


async def _time_page(connection: Connection, cookie: str) -> float:
    began = time.monotonic()
    answer = await connection.ask("GET", "/", {"Cookie": cookie})
    assert answer.status == 200, answer.body
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
