"""How live curves are: from a sample's commit to the browsers that watch it, and what that costs the web process.

bin/bench live [--sockets 500] [--jobs 100] [--seconds 30] [--every 2]. Each socket watches eight of the jobs; each
job has a sample so often. Prints deliveries a second, their delay, what was missed, and the web process's part of a
core; exits 1 where a goal is missed.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import psycopg

from bench.stack import Stack, running_stack
from bench.storm import SIGN_IN, run_there

TICKS_S, CORE, DELAY_S = 2000, 0.30, 1.0
WATCHED = 8
MAKE_JOBS = """
from uuid import uuid4
from django.utils import timezone
from accounts.models import User
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from monitoring.models import TaskNow
admin, first = User.objects.get(username="admin"), Job.objects.latest("pk")
jobs = []
for number in range({jobs}):
    copy = Job.objects.get(pk=first.pk)
    copy.pk, copy.uuid = None, uuid4()
    copy.state, copy.name = JobState.SUCCEEDED, f"live-{{number}}"
    jobs.append(copy)
jobs = Job.objects.bulk_create(jobs)
tasks = Task.objects.bulk_create(Task(job=job, state=TaskState.SUCCEEDED) for job in jobs)
share = {{"uuid": "GPU-none", "source": "simulated", "busy_percent": 63.0, "used_mib": 9000, "up_ms": 1}}
TaskNow.objects.bulk_create(
    TaskNow(task=task, at=timezone.now(), term=1, up_ms=1, cpu_milli=900, memory_mib=700, shares=[share])
    for task in tasks
)
print(sign_in(admin), *(f"{{t.job.public_id}}:{{t.pk}}" for t in tasks))
"""


@dataclass
class Heard:
    """delays_s: of each delivery. missed: how often a socket was told that it missed something."""

    delays_s: list[float] = field(default_factory=list)
    missed: int = 0
    told: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench live", description=__doc__)
    parser.add_argument("--sockets", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--every", type=float, default=2)
    asked = parser.parse_args()
    with running_stack(notebooks=False) as stack:
        stack.api("POST", "/jobs", {"run": "true", "hold": True})
        cookie, *jobs = run_there(stack, SIGN_IN + MAKE_JOBS.format(jobs=asked.jobs))
        named = dict(job.split(":") for job in jobs)
        return asyncio.run(measure(stack, cookie, named, asked))


async def measure(stack: Stack, cookie: str, jobs: dict[str, str], asked: argparse.Namespace) -> int:
    heard, names = Heard(), list(jobs)
    async with aiohttp.ClientSession(
        headers={"Cookie": cookie, "Origin": stack.url}, connector=aiohttp.TCPConnector(limit=0)
    ) as session:
        sockets = [await open_socket(session, stack, names, number) for number in range(asked.sockets)]
        listening = [asyncio.create_task(listen(socket, heard)) for socket in sockets]
        await asyncio.sleep(3)
        heard.delays_s.clear()
        before, began = read_processor_s(stack), time.monotonic()
        updates = await sample(stack, list(jobs.values()), asked.seconds, asked.every)
        await asyncio.sleep(1.5)
        took_s, used_s = time.monotonic() - began, read_processor_s(stack) - before
        for task in listening:
            task.cancel()
    return report(heard, updates * asked.sockets * WATCHED / len(jobs), took_s, used_s)


async def open_socket(session: aiohttp.ClientSession, stack: Stack, names: list[str], number: int):
    socket = await session.ws_connect(f"ws://localhost:{stack.port}/live", heartbeat=None)
    await socket.send_json({"watch": [names[(number * WATCHED + i) % len(names)] for i in range(WATCHED)]})
    return socket


async def listen(socket: aiohttp.ClientWebSocketResponse, heard: Heard) -> None:
    async for message in socket:
        now, told = time.time(), json.loads(message.data)
        if "samples" in told:
            heard.delays_s.append(now - datetime.fromisoformat(told["samples"]["at"]).timestamp())
        heard.missed += "samples_missed" in told


async def sample(stack: Stack, tasks: list[str], seconds: float, every_s: float) -> int:
    """Commit a sample of each job so often, a tenth of them at a time; return how many."""
    done, begin = 0, time.monotonic()
    parts = [tasks[i::10] for i in range(10)]
    env = stack.environment()
    where = {"host": env["PGHOST"], "user": env["PGUSER"], "dbname": env["PGDATABASE"]}
    async with await psycopg.AsyncConnection.connect(**where, autocommit=True) as database:
        turn = 0
        while (due := turn * every_s / 10) < seconds:
            await asyncio.sleep(max(begin + due - time.monotonic(), 0))
            part = parts[turn % 10]
            await database.execute(
                "UPDATE monitoring_tasknow SET at = %s WHERE task_id = ANY(%s)",
                [datetime.now(UTC), [int(pk) for pk in part]],
            )
            done, turn = done + len(part), turn + 1
    return done


def report(heard: Heard, expected: float, took_s: float, used_s: float) -> int:
    delays = sorted(heard.delays_s)
    p95, rate, part = delays[int(0.95 * (len(delays) - 1))], len(delays) / took_s, used_s / took_s
    print(f"{len(delays)} deliveries of {expected:.0f}, {rate:.0f} a second; told of a gap: {heard.missed}")
    print(f"delay: median {statistics.median(delays):.2f} s, p95 {p95:.2f} s (goal {DELAY_S})")
    print(f"web process: {100 * part:.0f} % of a core (goal {100 * CORE:.0f} % at {TICKS_S} a second)")
    whole = len(delays) >= expected and not heard.missed
    return 0 if whole and p95 <= DELAY_S and part <= CORE * max(rate / TICKS_S, 1) else 1


def read_processor_s(stack: Stack) -> float:
    fields = Path(f"/proc/{stack.children()['web']}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
