"""A service under steady requests over all that stops replicas and platform: nothing may be lost or doubled.

bin/bench serve_faults [--requests 2000] [--seconds 100]. Each second request is a POST with an id, which the program
counts, while the service goes from none to four replicas and back to none. Meanwhile: two rollouts, a job of a higher
priority that takes the whole card and with it all replicas, and kill -9 of worker, beat and Valkey. Exits 1 where a
request was not answered with 200, or the program counted an id other than once. Bounded: it stops by itself, and it
signals only what its own platform started.
"""

import argparse
import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import aiohttp

from bench.faults import ONE_IS_MANY, insist
from bench.shared.waiting import wait
from bench.stack import Stack, running_stack

IN_FLIGHT = 8
"""At once: a request takes the program as long as that needs, and each replica is to have two."""
ANSWERED_WITHIN_S = 60
ASLEEP_WITHIN_S, LOOK_S = 150, 0.2
NOT_ASLEEP = "The service does not fall asleep."
PROGRAM = """
import http.server, os, time
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(float(os.environ["TAKES"]))
        self.say(b"read")
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        os.write(1, b"counted " + body + b"\\n")
        time.sleep(float(os.environ["TAKES"]))
        self.say(b"done")
    def say(self, words):
        self.send_response(200)
        self.send_header("Content-Length", str(len(words)))
        self.end_headers()
        self.wfile.write(words)
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["TESSERA_PORT_8000"])), Answer).serve_forever()
"""
FILE = f"""kind: service
name: count
gpu: 1/8
cpu: 100m
memory: 128MiB
env: {{TAKES: "TAKES_S", REVISION: "1"}}
run: |
  exec python3 -c '{PROGRAM.strip().replace(chr(10), chr(10) + "  ")}'
serve: {{port: 8000, replicas: 0..4, target: 2, idle: 2s, access: key, hold: {{requests: 5000}}}}
"""


@dataclass
class Told:
    """What came of the requests. answers: by status or by the name of the error; lost: the numbers of all but 200."""

    answers: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Fault:
    """share: of the time, after which it comes."""

    share: float
    name: str
    act: Callable[[], object]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench serve_faults", description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=100)
    asked = parser.parse_args()
    with running_stack(gpus="1xV100-32GB", notebooks=False, variables=ONE_IS_MANY) as stack:
        return report(*serve_through_faults(stack, asked.requests, asked.seconds))


def serve_through_faults(stack: Stack, requests: int, seconds: float) -> tuple[Told, Counter[str]]:
    """Return what came of the requests, and how often the program counted each id."""
    job_file = FILE.replace("TAKES_S", str(IN_FLIGHT * seconds / requests))
    service = stack.api("POST", "/services", {"job_file": job_file})
    try:
        key = stack.api("POST", f"/services/{service['id']}/keys", {"name": "bench"})["secret"]
        wait(partial(is_asleep, stack, service["id"]), ASLEEP_WITHIN_S, NOT_ASLEEP, LOOK_S)
        url = f"{stack.url}/-/{service['team']}/{service['name']}/"
        told = asyncio.run(call_through(url, key, requests, seconds, list_faults(stack, service["id"], job_file)))
        wait(partial(is_asleep, stack, service["id"]), ASLEEP_WITHIN_S, NOT_ASLEEP, LOOK_S)
        return told, count_ids(stack)
    finally:
        stack.api("DELETE", f"/services/{service['id']}")


async def call_through(url: str, key: str, requests: int, seconds: float, faults: list[Fault]) -> Told:
    told = Told()
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call_at(number: int) -> None:
            await asyncio.sleep(seconds * number / requests)
            await call(session, url, number, told)

        async def act_at(fault: Fault) -> None:
            await asyncio.sleep(seconds * fault.share)
            print(f"after {len(told.lost) + told.answers['200']} answers: {fault.name}", flush=True)
            await asyncio.to_thread(insist, fault.act)

        await asyncio.gather(*map(call_at, range(requests)), *map(act_at, faults))
    return told


async def call(session: aiohttp.ClientSession, url: str, number: int, told: Told) -> None:
    body = f"n{number}" if number % 2 else None
    try:
        async with (
            asyncio.timeout(ANSWERED_WITHIN_S),
            session.request("POST" if body else "GET", url, data=body) as got,
        ):
            said, status = await got.text(), str(got.status)
    except (aiohttp.ClientError, OSError, TimeoutError) as failed:
        said, status = str(failed), type(failed).__name__
    told.answers[status] += 1
    if status != "200":
        told.lost.append(f"{body or number} {status} {said[:200]}")


# ---- what happens meanwhile ----


def list_faults(stack: Stack, service: str, job_file: str) -> list[Fault]:
    """What comes after a kill waits for the lease of the worker's loops to end, which takes ten seconds."""

    def roll_out(revision: int) -> None:
        changed = job_file.replace('REVISION: "1"', f'REVISION: "{revision}"')
        stack.api("PATCH", f"/services/{service}", {"job_file": changed})

    def take_card() -> None:
        job = {"name": "important", "run": "sleep 2", "gpu": 1, "cpu": "100m", "memory": "128MiB"}
        stack.api("POST", "/jobs", {**job, "priority": "high", "preemptible": False})

    def kill(name: str) -> None:
        os.kill(stack.children()[name], signal.SIGKILL)

    return [
        Fault(0.15, "a rollout", partial(roll_out, 2)),
        Fault(0.30, "a job of high priority takes the card", take_card),
        Fault(0.50, "kill -9 of the worker", partial(kill, "worker")),
        Fault(0.60, "kill -9 of beat", partial(kill, "beat")),
        Fault(0.70, "another rollout", partial(roll_out, 3)),
        Fault(0.90, "kill -9 of Valkey", partial(kill, "valkey")),
    ]


# ---- what came of it ----


def is_asleep(stack: Stack, service: str) -> bool:
    seen = insist(lambda: stack.api("GET", f"/services/{service}"))
    return seen["state"] == "asleep" and not seen["replicas"]


def count_ids(stack: Stack) -> Counter[str]:
    """Return what the programs of all replicas counted, those of earlier attempts too."""
    texts = [path.read_text(errors="replace") for path in (stack.data / "logs").rglob("*.log")]
    return Counter(one for text in texts for one in re.findall(r"counted (n\d+)", text))


def report(told: Told, counted: Counter[str]) -> int:
    """Print what came of the requests. Returns 1 where one was lost or doubled."""
    sent = sum(told.answers.values())
    doubled = {one: times for one, times in counted.items() if times > 1}
    missing = sent // 2 - len(counted)
    for one in told.lost[:20]:
        print("LOST", one)
    print(f"{sent} requests, answered: {dict(told.answers)}")
    print(f"{len(told.lost)} lost, {len(doubled)} of {len(counted)} POSTs doubled, {missing} never counted")
    return 1 if told.lost or doubled or missing else 0


if __name__ == "__main__":
    sys.exit(main())
