"""Of bench b7: a full cluster with a long queue, where for some minutes jobs come and pods end."""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

import numpy as np
import psycopg

from bench.shared.fleet import Fleet, Witness, cpu_s, descendants, in_threads, rss_mib
from bench.shared.waiting import wait
from bench.stack import Stack
from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.client import MERGE_PATCH

CARDS = 8
WAITING_FOR_EACH_CARD = 1.25
FULL_WITHIN_S = 1800
LOOK_S = 0.25
SEEN = """
SELECT replace(task.uuid::text, '-', ''), event.to_state, extract(epoch FROM event.at)::float
FROM events_event event JOIN jobs_task task ON event.kind = 'task' AND event.object_id = task.id
WHERE event.at > to_timestamp(%s) AND event.from_state <> 'LOST'
"""


def churn(fleet: Fleet, stack: Stack, post, seconds: float, per_s: float) -> dict[str, float]:
    """post: posts the n-th job. Returns what is printed, by name."""
    cards = CARDS * fleet.count
    labels = f"tessera.sh/install={fleet.name}"
    with Witness(fleet.api, labels) as witness, psycopg.connect(**place_of(stack), autocommit=True) as database:
        known = running(database)
        jobs = count(10**6)
        in_threads(post, [next(jobs) for _ in range(round(cards * (1 + WAITING_FOR_EACH_CARD)) - len(known))], 8)
        wait(lambda: len(running(database)) >= cards, FULL_WITHIN_S, "the cluster does not become full", 2.0)
        began, requests, spent = time.time(), fleet.requests(), cpu_of(stack)
        cycles = drive(fleet, database, witness, post, jobs, began + seconds, per_s)
        took = time.time() - began
        requests, spent = fleet.requests() - requests, cpu_of(stack) - spent
        ended, lags = lags_of(database, witness, began)
    found = {
        "pods ended": ended,
        "pods ended in a second": ended / took,
        "cycle p50 ms": quantile(cycles, 0.5),
        "cycle p99 ms": quantile(cycles, 0.99),
        "reconcile lag p50 ms": 1000 * quantile(lags, 0.5),
        "reconcile lag p99 ms": 1000 * quantile(lags, 0.99),
        "requests for each pod": requests / max(ended, 1),
        "own CPU ms for each pod": 1000 * spent / max(ended, 1),
        **{f"RSS of {name} MiB": rss_mib(pid) for name, pid in stack.children().items()},
    }
    print("churn: " + "; ".join(f"{name} {value:.1f}" for name, value in found.items()), flush=True)
    return found


def drive(
    fleet: Fleet, database: psycopg.Connection, witness: Witness, post, jobs, until: float, per_s: float
) -> list[int]:
    """As many pods end as jobs come. Returns how long each cycle took, in ms."""
    dice, owed, last, cycles, told = random.Random(1), 0.0, time.time(), [], set()
    while (now := time.time()) < until:
        owed, last = owed + (now - last) * per_s, now
        alive = [name for name in list(witness.running) if name not in witness.over and name not in told]
        chosen = dice.sample(alive, min(int(owed), len(alive)))
        owed -= len(chosen)
        told.update(chosen)
        in_threads(lambda name: let_end(fleet, *witness.pods[name]), chosen, 4)
        in_threads(post, [next(jobs) for _ in chosen], 4)
        row = database.execute("SELECT last_ok_at, last_ms FROM scheduler_lease WHERE name = 'cycle'").fetchone()
        if row and (not cycles or cycles[-1] != row):
            cycles.append(row)
        time.sleep(max(LOOK_S - (time.time() - now), 0))
    return [ms for _, ms in cycles if ms is not None]


def let_end(fleet: Fleet, namespace: str, name: str) -> None:
    """The fake kubelet ends it within a second; where the answer is late it goes on, and another one is chosen."""
    body = {"metadata": {"annotations": {"fake.tessera.sh/runs-for": "100ms", "fake.tessera.sh/exit-code": "0"}}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    with suppress(Unavailable):
        fleet.api.call("PATCH", path, body, content=MERGE_PATCH, handles=("gone",))


def lags_of(database: psycopg.Connection, witness: Witness, since: float) -> tuple[int, list[float]]:
    """(pods that ended, seconds between what happened in the cluster and its line in the history)."""
    at = {"RUNNING": witness.running, "SUCCEEDED": witness.over}
    ended, lags = 0, []
    for uuid, state, seen_at in database.execute(SEEN, [since]).fetchall():
        happened = at.get(state, {}).get(f"t-{uuid}")
        ended += state == "SUCCEEDED"
        if happened is not None:
            lags.append(max(seen_at - happened, 0.0))
    return ended, lags


def running(database: psycopg.Connection) -> list[tuple]:
    return database.execute("SELECT id FROM jobs_task WHERE state = 'RUNNING'").fetchall()


def place_of(stack: Stack) -> dict[str, str]:
    settings = stack.environment()
    return {"host": settings["PGHOST"], "user": settings["PGUSER"], "dbname": settings["PGDATABASE"]}


def cpu_of(stack: Stack) -> float:
    assert stack.process
    return sum(map(cpu_s, descendants(stack.process.pid)))


def quantile(values: Sequence[float], q: float) -> float:
    return float(np.quantile(values, q)) if values else float("nan")
