"""Pods a second on one cluster, side by side: plain Jobs, bare pods, and Tessera from the POST on.

bin/bench b7 [--nodes 1000] [--pods 5000] [--qps 1000] [--default-pods 500] [--churn MINUTES] [--csv FILE], with
KUBECONFIG of a cluster that has kwok (bin/cluster up --kwok 1). Fake nodes of 8 cards are made for it, and go again.
Every pod asks for one card. First kwok's own ceiling, with pods that are bound already; then (a) Jobs and (b) bare pods
through kube-scheduler, then (c) jobs posted to a portal of our own: its web process, worker, beat and watch, PostgreSQL
and Valkey, with quota, order and explanations, and (d) as arrays of a thousand. The rate is from the first POST to the
last pod bound, and to the last one Running. Controllers, kube-scheduler and Tessera may all send --qps requests a
second and twice as many at once, and (c) is told with our own default limits besides. Where (a) reaches 90 % of the
ceiling the run does not count.
With --churn: ten thousand jobs wait for eight thousand cards (less, in proportion to --nodes), and pods end and jobs
come for so many minutes: the times of cycles and of what is seen, memory, and requests for each pod.
Exits 1 where (c) is less than 1.2 times (a), or (d) takes more of processors than its goals, 2 where the run does not
count.
"""

import argparse
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.shared.churn import churn
from bench.shared.fleet import MARK, Fleet, Witness, a_fleet, cpu_s, descendants, in_threads
from bench.shared.options import parser_of, some_of
from bench.shared.rows import Row, write_rows
from bench.shared.waiting import wait
from bench.stack import Stack, free_port
from jobs.jobfile.array_values import MOST_AT_ONCE

GOAL, CEILING = 1.2, 0.9
GOAL_OWN_MS, GOAL_CLUSTER = 15, 1.1
"""Of (d): the platform's own processors for each pod, and the cluster's against (a)."""
HEADS = {"bound/s": 9, "running/s": 11, "requests": 10, "cluster": 9, "own": 9}
POSTERS = 8
WITHIN_S = 3600
SET_UP = """
from cluster.models import Gpu, Node, Pool
from quotas.models import Quota, UserLimit
from quotas.services import ensure_user_limit
from accounts.models import User
train = Pool.objects.get(name="train")
Gpu.objects.update(pool=train)
Node.objects.update(pool=train)
Quota.objects.filter(pool=train).update(gpu_milli_guarantee=0)
for user in User.objects.all():
    ensure_user_limit(user)
UserLimit.objects.update(jobs_waiting=None, jobs_running=None, gpu_milli=None, cpu_milli=None, memory_mib=None)
"""


@dataclass
class Figures:
    """Of one way: pods a second until bound and until running, and seconds of processors for each pod."""

    name: str
    bound_per_s: float
    running_per_s: float
    requests: float
    cluster_cpu_s: float | None = None
    own_cpu_s: float | None = None

    def row(self) -> str:
        cpu = [
            f"{1000 * each:9.1f}" if each is not None else f"{'?':>9}" for each in (self.cluster_cpu_s, self.own_cpu_s)
        ]
        return f"{self.name:34}{self.bound_per_s:9.1f}{self.running_per_s:11.1f}{self.requests:10.1f}" + "".join(cpu)


def main() -> int:
    options = parse()
    name = f"b7-{uuid4().hex[:6]}"
    with a_fleet(name, options.nodes, options.qps) as fleet:
        heads = "".join(f"{head:>{width}}" for head, width in HEADS.items())
        print(f"{'':34}{heads}   (the last three for each pod; ms of processors)")
        found, in_churn = [], {}
        for run in (each for name, each in WAYS.items() if name in options.ways):
            found.append(run(fleet, options.pods))
            print(found[-1].row(), flush=True)
        ours = [(run_ours, options.qps), (run_arrays, options.qps)] + [(run_ours, 0.0)] * bool(options.default_pods)
        for way, limits in ours:
            with a_portal(fleet, limits) as stack:
                found.append(way(fleet, stack, options.pods if limits else options.default_pods, limits))
                print(found[-1].row(), flush=True)
                if way is run_ours and limits and options.churn:
                    in_churn = churn(fleet, stack, Poster(stack), 60 * options.churn, options.churn_per_s)
    write_rows(options.csv, list(rows(found, in_churn, options)))
    return judge(*found[:5]) if set(options.ways) == WAYS.keys() else 0


def parse() -> argparse.Namespace:
    parser = parser_of("b7", "nothing")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--ways", type=some_of(WAYS), default=list(WAYS), help="beside ours; fewer compare nothing")
    parser.add_argument("--qps", type=float, default=1000.0)
    parser.add_argument(
        "--default-pods", type=int, default=500, help="jobs for the run with default limits; 0 = no run"
    )
    parser.add_argument("--churn", type=float, default=0.0, metavar="MINUTES")
    parser.add_argument("--churn-per-s", type=float, default=10.0, help="jobs that come and pods that end in a second")
    return parser.parse_args()


def run_bound(fleet: Fleet, count: int) -> Figures:
    def post(number: int) -> None:
        node = fleet.names[number % fleet.count]
        fleet.post(f"/api/v1/namespaces/{fleet.name}/pods", fleet.pod(f"bound-{number}", {"b7": "bound"}, node))

    return measure(fleet, "kwok's ceiling (bound already)", "b7=bound", count, post)


def run_jobs(fleet: Fleet, count: int) -> Figures:
    path = f"/apis/batch/v1/namespaces/{fleet.name}/jobs"

    def post(number: int) -> None:
        pod = fleet.pod("", {"b7": "job"})
        template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
        spec = {"template": template, "backoffLimit": 0}
        fleet.post(path, {"metadata": {"name": f"job-{number}", "labels": {"b7": "job"}}, "spec": spec})

    figures = measure(fleet, "(a) Jobs, kube-scheduler", "b7=job", count, post, clear=False)
    fleet.delete_all(path, "b7=job", {"propagationPolicy": "Background"})
    fleet.free("b7=job")  # their controller would take minutes to let go of them
    return figures


def run_bare(fleet: Fleet, count: int) -> Figures:
    def post(number: int) -> None:
        fleet.post(f"/api/v1/namespaces/{fleet.name}/pods", fleet.pod(f"bare-{number}", {"b7": "bare"}))

    return measure(fleet, "(b) bare pods, kube-scheduler", "b7=bare", count, post)


def run_ours(fleet: Fleet, stack: Stack, count: int, qps: float) -> Figures:
    words = f"(c) Tessera, QPS {qps:.0f}" if qps else "    Tessera, our default limits"
    return measure_ours(fleet, stack, words, count, Poster(stack))


def run_arrays(fleet: Fleet, stack: Stack, count: int, qps: float) -> Figures:
    poster, sizes = Poster(stack), [min(MOST_AT_ONCE, count - begin) for begin in range(0, count, MOST_AT_ONCE)]

    def post(number: int) -> None:
        if number < len(sizes):
            poster(number, array={"i": f"1..{sizes[number]}", "at_once": sizes[number]})

    return measure_ours(fleet, stack, f"(d) Tessera as arrays, QPS {qps:.0f}", count, post)


def measure_ours(fleet: Fleet, stack: Stack, words: str, count: int, post: Callable[[int], None]) -> Figures:
    before = {pid: cpu_s(pid) for pid in descendants(stack.process.pid)}
    labels = f"tessera.sh/install={fleet.name}"
    figures = measure(fleet, words, labels, count, post, clear=False, threads=POSTERS)
    figures.own_cpu_s = sum(cpu_s(pid) - before.get(pid, 0.0) for pid in descendants(stack.process.pid)) / count
    return figures


WAYS = {"bound": run_bound, "jobs": run_jobs, "bare": run_bare}


class Poster:
    """Posts jobs, or arrays of them, as a program would: each thread on a connection that it keeps."""

    def __init__(self, stack: Stack):
        self.stack, self.prefix, self.free = stack, uuid4().hex[:6], list[http.client.HTTPConnection]()

    def __call__(self, number: int, **keys: Any) -> None:
        """A connection that rested too long is closed by the server: then once more, with the same key."""
        for last in (False, True):
            connection = self.free.pop() if self.free and not last else self._connect()
            try:
                status, said = self._ask(connection, number, keys)
            except (http.client.RemoteDisconnected, ConnectionError):
                connection.close()
                if last:
                    raise
                continue
            if status != http.client.CREATED:
                raise RuntimeError(f"{status}: {said[:500]!r}")
            self.free.append(connection)
            return

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=60)

    def _ask(self, connection: http.client.HTTPConnection, number: int, keys: dict[str, Any]) -> tuple[int, bytes]:
        asks = {"gpu": "1", "pool": "train", "cpu": "100m", "memory": "64MiB", "retry": 0}
        headers = {
            "Host": f"localhost:{self.stack.port}",
            "Authorization": f"Bearer {self.stack.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": f"{self.prefix}-{number}",
        }
        body = json.dumps({"name": f"job {number}", "run": "true", **asks, **keys})
        connection.request("POST", "/api/v1/jobs", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def measure(
    fleet: Fleet, name: str, labels: str, count: int, post: Callable[[int], None], clear: bool = True, threads: int = 16
) -> Figures:
    with Witness(fleet.api, labels) as witness:
        requests, cpu, began = fleet.requests(), fleet.cluster_cpu_s(), time.time()
        in_threads(post, range(count), threads)
        wait(lambda: len(witness.running) >= count, WITHIN_S, f"{name}: only {len(witness.running)} run", 0.2)
        after, used = fleet.cluster_cpu_s(), fleet.requests() - requests
    if clear:
        fleet.clear(labels, fleet.name)
    bound_s, running_s = max(witness.bound.values()) - began, max(witness.running.values()) - began
    spent = (after - cpu) / count if after is not None and cpu is not None else None
    return Figures(name, count / bound_s, count / running_s, used / count, spent)


@contextmanager
def a_portal(fleet: Fleet, qps: float) -> Iterator[Stack]:
    """Ours, in a folder of its own, whose nodes are the fleet's. qps: 0 leaves the limits as they are by default."""
    limits = {"TESSERA_KUBERNETES_QPS": f"{qps:.0f}", "TESSERA_KUBERNETES_BURST": f"{2 * qps:.0f}"} if qps else {}
    settings = {
        "TESSERA_INSTALL": fleet.name,
        "TESSERA_NODES": f"tessera.sh/bench={fleet.name}",
        "TESSERA_TOLERATED": MARK,
        "TESSERA_RATE_CALLS": "0",
        "TESSERA_RATE_SUBMITS": "0",
        **limits,
    }
    with tempfile.TemporaryDirectory(prefix="tessera-b7-") as home:
        stack = Stack(Path(home) / "data", free_port(), cluster=settings)
        try:
            stack.start()
            stack.manage("shell", "-v", "0", "-c", SET_UP)
            yield stack
        finally:
            stack.stop()
            mark = f"tessera.sh/install={fleet.name}"
            fleet.free(mark)
            for space in fleet.api.list_all("/api/v1/namespaces", labels=mark).items:
                fleet.api.call("DELETE", f"/api/v1/namespaces/{space['metadata']['name']}", handles=("gone", "again"))
            wait(lambda: not fleet.api.list_all("/api/v1/namespaces", labels=mark).items, 900, "namespaces stay")


def rows(found: list[Figures], in_churn: dict[str, float], options: argparse.Namespace) -> Iterator[Row]:
    for metric, number in in_churn.items():
        yield "b7", f"{options.nodes}x8", 0, "churn", metric, number
    for figures in found:
        for metric in ("bound_per_s", "running_per_s", "requests", "cluster_cpu_s", "own_cpu_s"):
            if (value := getattr(figures, metric)) is not None:
                yield "b7", f"{options.nodes}x8", options.pods, figures.name, metric, value


def judge(ceiling: Figures, jobs: Figures, bare: Figures, ours: Figures, arrays: Figures) -> int:
    if jobs.running_per_s >= CEILING * ceiling.running_per_s:
        part = jobs.running_per_s / ceiling.running_per_s
        print(f"The run does not count: (a) reaches {part:.0%} of kwok's own ceiling.")
        return 2
    times = ours.bound_per_s / jobs.bound_per_s
    print(f"(c) is {times:.2f} times (a), the goal is {GOAL}; {ours.bound_per_s / bare.bound_per_s:.2f} times (b)")
    met = times >= GOAL
    if arrays.own_cpu_s is not None and arrays.cluster_cpu_s and jobs.cluster_cpu_s:
        own_ms, cluster = 1000 * arrays.own_cpu_s, arrays.cluster_cpu_s / jobs.cluster_cpu_s
        print(f"(d) takes {own_ms:.1f} ms of our processors for each pod, the goal is {GOAL_OWN_MS}; of the cluster's")
        print(f"    {cluster:.2f} times what (a) does, the goal is {GOAL_CLUSTER}")
        met &= own_ms <= GOAL_OWN_MS and cluster <= GOAL_CLUSTER
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
