"""What samples cost: how many reports a second are taken, how long packing takes, how large packs are, and how long
charts take to read.

bin/bench samples [--agents 200] [--seconds 30] [--series 2000] [--days 2] [--rounds 40]. Each agent has 8 cards and 12
tasks with a slice each. Reports go over HTTP to a platform of one web process, in turns with nothing else and with
submits beside them; packs and charts are made and read in a database of their own. Exits 1 where a goal is missed.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta

import django
from django.core.management import call_command
from django.db import connection

django.setup()

import numpy as np  # noqa: E402

from bench.cycle import database_ms  # noqa: E402
from bench.stack import Stack, running_stack  # noqa: E402
from bench.storm import Answer, Connection, run_there  # noqa: E402
from monitoring.models import FinePack, MinutePack, PackedUntil  # noqa: E402
from monitoring.series.frames import load_frame  # noqa: E402
from monitoring.series.keys import COLUMNS, Key, Kind  # noqa: E402
from monitoring.series.packing import pack_for  # noqa: E402
from monitoring.series.store import Block, write_blocks  # noqa: E402
from monitoring.series.tiers import FINE, MINUTES, floor_time  # noqa: E402

REPORTS_S, ROWS_S, P99_MS, SUBMITS_RATIO = 100, 2000, 100, 1.5
PACK_S, BYTES, JOB_MS, NODE_MS = 40, 2.0, 200, 100
CARDS, TASKS, SERIES, JOB_CARDS = 8, 12, 20_000, 64
CONNECTIONS = 4
MAKE_WORLD = """
from accounts.models import Team, User
from cluster.models import Agent, Gpu, Node, Pool
from common.secrets import digest_secret
from django.utils import timezone
from jobs.models import Job, Task
from jobs.states import TaskState
from quotas.models import Holding
from accounts.scopes import SCOPES
from accounts.services import create_token
pool, team, admin = Pool.objects.first(), Team.objects.first(), User.objects.get(username="admin")
now, state = timezone.now(), TaskState.RUNNING
nodes = Node.objects.bulk_create(
    Node(name=f"s{{n}}", pool=pool, cpu_milli=96000, memory_mib=1 << 20, state="CORDONED") for n in range({agents})
)
Agent.objects.bulk_create(
    Agent(node_name=n.name, digest=digest_secret("tag_" + n.name.ljust(43, "k")), reported_at=now) for n in nodes
)
gpus = Gpu.objects.bulk_create(
    Gpu(uuid=f"GPU-{{n.name}}-{{i}}", node=n, pool=pool, index=i, model="V100-32GB", memory_mib=32768)
    for n in nodes for i in range({cards})
)
job = Job.objects.latest("pk")
part = {{"memory_mib": 8192, "compute_percent": 25}}
tasks = Task.objects.bulk_create(
    Task(
        job=job, node=n, role="bench", rank=k * {tasks} + i, state=state, assigned_at=now, started_at=now,
        cards=[{{"uuid": f"GPU-{{n.name}}-{{i % {cards}}}", "index": i % {cards}, **part}}],
    )
    for k, n in enumerate(nodes) for i in range({tasks})
)
card = {{gpu.uuid: gpu for gpu in gpus}}
common = dict(team=team, user=admin, pool=pool)
slice = dict(gpu_memory_mib=8192, gpu_milli=250, gpu_compute_percent=25)
Holding.objects.bulk_create(
    row for t in tasks for row in (
        Holding(task=t.uuid, node=t.node, cpu_milli=1000, memory_mib=1024, **common),
        Holding(task=t.uuid, node=t.node, gpu=card[t.cards[0]["uuid"]], **slice, **common),
    )
)
print(*(t.uuid.hex for t in tasks))
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench samples", description=__doc__)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    met = [*measure_ingest(asked.agents, asked.seconds)] if asked.agents else []
    if asked.series:
        call_command("migrate", verbosity=0)
        met += [*measure_packs(asked.series, asked.days), *measure_charts(asked.days, asked.rounds)]
    return 0 if all(met) else 1


# ---- reports over HTTP ----


class Sender:
    """What agents send, a tick after the other, each in its own order."""

    def __init__(self, tasks: list[str], agents: int):
        self.tasks, self.agents, self.seq = tasks, agents, 0
        self.answers: list[tuple[float, Answer]] = []

    def build(self, number: int) -> tuple[str, str, bytes]:
        """Return the address, key and body of the next report."""
        self.seq += 1
        agent, turn = number % self.agents, number // self.agents
        name, at_ms = f"s{agent}", 10_000 * (turn + 1)
        shares = [
            {"uuid": f"GPU-{name}-{i % CARDS}", "source": "measured", "busy_ms": at_ms // 5 + i, "used_mib": 4000 + i}
            for i in range(TASKS)
        ]
        cards = [
            {"uuid": f"GPU-{name}-{i}", "source": "measured", "busy_ms": at_ms // 2, "used_mib": 9000, "power_w": 250}
            for i in range(CARDS)
        ]
        counted = {"age_ms": 100, "cpu_ms": at_ms, "memory_mib": 900, "peak_mib": 950, "processes": 4, "read_kib": turn}
        tasks = [
            {"task": task, **counted, "write_kib": 7 * turn, "shares": [share]}
            for task, share in zip(self.tasks[agent * TASKS : (agent + 1) * TASKS], shares, strict=True)
        ]
        tick = {"seq": turn + 1, "age_ms": 5, "up_ms": at_ms, "cards": cards, "tasks": tasks}
        body = {"run": "bench/1", "first": turn + 1, "ticks": [tick]}
        return f"/api/v1/agents/{name}:samples", f"tag_{name.ljust(43, 'k')}", json.dumps(body).encode()


def measure_ingest(agents: int, seconds: float) -> list[bool]:
    with running_stack(notebooks=False) as stack:
        stack.api("POST", "/jobs", {"run": "true", "hold": True})
        tasks = run_there(stack, MAKE_WORLD.format(agents=agents, cards=CARDS, tasks=TASKS))
        sender = Sender(tasks, agents)
        asyncio.run(send(stack, sender, 5, REPORTS_S))  # warms up
        alone = asyncio.run(submit(stack, seconds))
        sender.answers.clear()
        began = time.monotonic()
        beside = asyncio.run(send_and_submit(stack, sender, seconds))
        paced = report_ingest("at 100 a second, submits beside", sender, time.monotonic() - began)
        sender.answers.clear()
        began = time.monotonic()
        asyncio.run(send(stack, sender, seconds, 10_000))
        fastest = report_ingest("as fast as they go, alone", sender, time.monotonic() - began)
        ratio = p99(beside) / p99(alone)
        print(f"submits: p99 {p99(alone):.0f} ms alone, {p99(beside):.0f} ms beside reports: {ratio:.2f} x")
        rows = fastest * (CARDS + 2 * TASKS)
        print(f"{rows:.0f} rows/s of series as fast as they go")
        return [fastest >= REPORTS_S, rows >= ROWS_S, paced <= P99_MS, ratio <= SUBMITS_RATIO]


def report_ingest(words: str, sender: Sender, took_s: float) -> float:
    """Print one way of sending; return the reports a second where it is the fastest, else p99 in ms."""
    times = [1000 * seconds for seconds, answer in sender.answers if answer.status == 200]
    refused = len(sender.answers) - len(times)
    rate = len(times) / took_s
    print(f"{words}: {rate:.0f} reports/s, median {statistics.median(times):.0f} ms, p99 {p99(times):.0f} ms", end="")
    print(f", {refused} refused" if refused else "")
    return rate if "fast" in words else p99(times)


async def send_and_submit(stack: Stack, sender: Sender, seconds: float) -> list[float]:
    return (await asyncio.gather(send(stack, sender, seconds, REPORTS_S), submit(stack, seconds)))[1]


async def send(stack: Stack, sender: Sender, seconds: float, per_s: float) -> None:
    """Send reports at a rate over some connections, each agent's in its order."""
    until, began, sent = time.monotonic() + seconds, time.monotonic(), 0
    first = sender.seq

    async def go(connection: Connection) -> None:
        nonlocal sent
        while time.monotonic() < until:
            number, sent = first + sent, sent + 1
            path, key, body = sender.build(number)
            await asyncio.sleep(max(began + sent / per_s - time.monotonic(), 0))
            started = time.monotonic()
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            answer = await connection.ask("POST", path, headers, body)
            sender.answers.append((time.monotonic() - started, answer))
        connection.close()

    await asyncio.gather(*(go(Connection(stack.port)) for _ in range(CONNECTIONS)))


async def submit(stack: Stack, seconds: float) -> list[float]:
    """Submit a job that waits, twice a second; return the milliseconds of each."""
    connection, times, until = Connection(stack.port), [], time.monotonic() + seconds
    body = json.dumps({"run": "sleep 1", "gpu": "2", "hold": True}).encode()
    headers = {"Authorization": f"Bearer {stack.token}", "Content-Type": "application/json"}
    while time.monotonic() < until:
        started = time.monotonic()
        answer = await connection.ask("POST", "/api/v1/jobs", headers, body)
        times.append(1000 * (time.monotonic() - started))
        assert answer.status in (201, 429), answer.body
        await asyncio.sleep(0.9)
    connection.close()
    return times


# ---- packs and charts ----


def measure_packs(series: int, days: int) -> list[bool]:
    """Pack an hour of raw samples, and fill days with packs of the same kind."""
    noise, now = np.random.default_rng(7), datetime.now(UTC)
    last = floor_time(now, 86_400) - timedelta(days=1)
    fill_raw(series, last, noise)
    PackedUntil.objects.create(tier=FINE.name, until=last)
    PackedUntil.objects.create(tier=MINUTES.name, until=datetime.now(UTC))
    began, used = time.monotonic(), processor_s()
    made = pack_for(3600)
    took_s, used_s = ((now - then) * SERIES / made for now, then in ((time.monotonic(), began), (processor_s(), used)))
    (size,) = query(
        "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits "
        "WHERE inhparent = 'monitoring_finepack'::regclass"
    )
    values = sum(len(COLUMNS[key.kind]) for key in list_keys(series)) * 360
    print(f"packing an hour of {SERIES} series: {used_s:.0f} s of processor, {took_s:.0f} s (measured with {made})")
    print(f"bytes a value, with index: {size / values:.2f}")
    fill_packs(series, last, days, noise)
    return [used_s <= PACK_S, size / values <= BYTES]


def measure_charts(days: int, rounds: int) -> list[bool]:
    end = datetime.now(UTC)
    shares, cards = [Key(Kind.SHARE, i, i) for i in range(JOB_CARDS)], [Key(Kind.CARD, i) for i in range(CARDS)]
    asked = {
        f"job of {JOB_CARDS} cards, 24 h, each 4 min": (shares, 240, JOB_MS),
        f"job of {JOB_CARDS} cards, 24 h, each minute": (shares, 60, JOB_MS),
        "machine of 8 cards, 24 h": (cards, 240, NODE_MS),
        "pool, 24 h": ([Key(Kind.POOL, 1)], 240, NODE_MS),
    }
    met = []
    for words, (keys, step_s, goal_ms) in asked.items():
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            load_frame(keys, end - timedelta(days=1), end, step_s)
            times.append(1000 * (time.perf_counter() - began))
        p95 = sorted(times)[int(0.95 * (len(times) - 1))]
        print(f"{words}: median {statistics.median(times):.0f} ms, p95 {p95:.0f} ms (goal {goal_ms})")
        met.append(p95 <= goal_ms)
    return met


def list_keys(series: int) -> list[Key]:
    """As many shares as cards and tasks together, and some pools."""
    half = series // 4
    keys = [Key(Kind.SHARE, i, i) for i in range(2 * half)] + [Key(Kind.CARD, i) for i in range(half)]
    return [*keys, *(Key(Kind.TASK, i) for i in range(half - 10)), *(Key(Kind.POOL, i) for i in range(1, 11))]


def make_trace(kind: Kind, slots: int, noise: np.random.Generator) -> np.ndarray:
    """Something like training: noisy, with plateaus and drifts."""
    busy = noise.normal(9000, 400, slots).clip(0, 10_000)
    level = 20_000 + np.repeat(noise.integers(0, 500, slots // 60 + 1), 60)[:slots]
    drift = 60 + np.cumsum(noise.integers(-1, 2, slots)) % 30
    return np.array([busy, level, drift, noise.normal(250, 8, slots), noise.integers(0, 90, slots)])[
        : len(COLUMNS[kind])
    ]


def fill_raw(series: int, start: datetime, noise: np.random.Generator) -> None:
    moment = [start + timedelta(seconds=10 * (i + 1)) for i in range(360)]
    with (
        connection.cursor() as cursor,
        cursor.copy(  # type: ignore[attr-defined]
            'COPY monitoring_sample (kind, subject, card, at, span_ms, source, "values") FROM STDIN'
        ) as copy,
    ):
        for key in list_keys(series):
            rows = make_trace(key.kind, 360, noise).astype(int).T.tolist()
            for at, values in zip(moment, rows, strict=True):
                copy.write_row((key.kind, key.subject, key.card, at, 10_000, "simulated", values))
    query("ANALYZE monitoring_sample")


def fill_packs(series: int, last: datetime, days: int, noise: np.random.Generator) -> None:
    """Fill the days before the hour that was packed, and the hours after it until now."""
    hours = [last + timedelta(hours=h) for h in range(1, int((datetime.now(UTC) - last) / timedelta(hours=1)))]
    for hour in [last - timedelta(hours=h + 1) for h in range(24 * (days - 1))] + hours:
        write_blocks(FINE, {key: block(key, 360, noise) for key in list_keys(series)}, hour)
    for day in range(days):
        write_blocks(MINUTES, {k: block(k, 1440, noise) for k in list_keys(series)}, last - timedelta(days=day))
    PackedUntil.objects.update_or_create(tier=FINE.name, defaults={"until": hours[-1] + timedelta(hours=1)})
    PackedUntil.objects.update_or_create(tier=MINUTES.name, defaults={"until": last + timedelta(days=1)})
    print(f"packs: {FinePack.objects.count()} of hours, {MinutePack.objects.count()} of days")
    query("ANALYZE monitoring_finepack, monitoring_minutepack")


_traces: dict[tuple[Kind, int], list[np.ndarray]] = {}


def block(key: Key, slots: int, noise: np.random.Generator) -> Block:
    known = _traces.setdefault((key.kind, slots), [make_trace(key.kind, slots, noise) for _ in range(20)])
    means = random.choice(known)
    return Block(means, means, "simulated")


def processor_s() -> float:
    """Return the processor's time of this process, and of the database's that serves it."""
    return time.process_time() + database_ms() / 1000


def query(text: str) -> tuple:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchone() if cursor.description else ()


def p99(values: list[float]) -> float:
    return sorted(values)[max(round(0.99 * len(values)) - 1, 0)]


if __name__ == "__main__":
    sys.exit(main())
