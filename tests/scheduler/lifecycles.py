"""Many short jobs on fake nodes of a real cluster, by the product's own loops in threads, and a witness of it all.

As in life, the one that watches and each worker have a client of their own towards the cluster; what lies between them
and the API server is the caller's.
"""

import queue
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import make
from django.db import connections

from deploy.cluster.kwok import MARK, build_node
from events.models import Event
from jobs.control import stop_job
from jobs.models import Job, Task
from jobs.states import TASK_FINAL, TaskState
from runtimes.base import TaskSpec, Unavailable
from runtimes.kubernetes import manifest, names
from runtimes.kubernetes import runtime as kubernetes
from runtimes.kubernetes.client import MERGE_PATCH, ApiServer
from runtimes.kubernetes.connection import Connection
from runtimes.kubernetes.following import ClusterView
from runtimes.kubernetes.runtime import ALL_NODES, ALL_PODS, KubernetesRuntime
from runtimes.kubernetes.views import is_tombstone, pod_ended, task_of
from scheduler import tasks
from scheduler.inventory import record_inventory
from scheduler.management.commands.watch import EXPIRES_S
from scheduler.watching import Watch, to_message
from tests.runtimes.kubernetes.world import IMAGE, pod_path

WORKERS = 2
STOPPED = 0.25
"""Of all jobs, by their owner."""
T = TaskState


@dataclass
class Wanted:
    """How a job has to end. stopped: somebody asked for its end meanwhile, so that either is right."""

    code: int
    stopped: bool = False


class Installation:
    """The loops of an installation whose nodes carry its name as a label. A context manager."""

    def __init__(self, direct: Connection, through: Connection, install: str, patch, **limits):
        self.install, self.patch = install, patch
        self.api = ApiServer(direct, per_s=500, burst=500)
        self.label = f"{names.DOMAIN}/nodes={install}"
        options = {"install": install, "image": IMAGE, "tolerated": (MARK,), "nodes": self.label}
        clients = [ApiServer(through, **limits) for _ in range(1 + WORKERS)]
        self.runtimes = [KubernetesRuntime(**options, api=client) for client in clients]
        self.clean = KubernetesRuntime(**options, api=self.api)
        self.deeds: queue.Queue = queue.Queue()
        self.ended = threading.Event()
        self.errors: list[str] = []
        self.mine = threading.local()
        self.witness = Witness(self.api, f"{names.LABEL_INSTALL}={install}")
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> "Installation":
        self.patch.setattr(kubernetes, "build_pod", build_short_pod)
        self.patch.setattr(tasks, "the_runtime", lambda: self.mine.runtime)
        loops = [self._watch, self._cycle, self._inventory, *[lambda n=n: self._work(n) for n in range(WORKERS)]]
        self.threads = [threading.Thread(target=self._guarded, args=(loop,), daemon=True) for loop in loops]
        for thread in [self.witness, *self.threads]:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.witness.ended.set()
        for thread in self.threads:
            thread.join(60)

    def place(self, nodes: int) -> None:
        """Fake nodes of its own, in the cluster and in the rows."""
        name, _, value = self.label.partition("=")
        for number in range(nodes):
            node = build_node(f"{self.install}-{number}")
            node["metadata"]["labels"][name] = value
            self.api.call("POST", ALL_NODES, node, handles=("exists",))
        until(lambda: sum(view.ready for view in self.clean.list_nodes()) == nodes, 60, "its nodes are not ready")
        record_inventory(self.clean.list_nodes())

    def clear(self) -> None:
        """Nothing of it stays in the cluster."""
        mark = f"{names.LABEL_INSTALL}={self.install}"
        for pod in self.api.list_all(ALL_PODS, labels=mark).items:
            self.api.call(
                "PATCH", pod_path(pod), {"metadata": {"finalizers": []}}, content=MERGE_PATCH, handles=("gone",)
            )
        for namespace in self.api.list_all("/api/v1/namespaces", labels=mark).items:
            self.api.call("DELETE", f"/api/v1/namespaces/{namespace['metadata']['name']}", handles=("gone", "again"))
        for node in self.api.list_all(ALL_NODES, labels=self.label).items:
            self.api.call("DELETE", f"{ALL_NODES}/{node['metadata']['name']}", handles=("gone",))
        self.api.close()

    # its loops, as the processes have them

    def _guarded(self, loop) -> None:
        try:
            loop()
        except BaseException as error:  # a process would have ended
            self.errors.append(f"{type(error).__name__}: {error}")
            raise
        finally:
            connections.close_all()

    def _watch(self) -> None:
        with ClusterView(self.runtimes[0]) as view:
            self.view = view
            self.watch = Watch(view, lambda deed, epoch: self.deeds.put((time.monotonic(), deed, epoch)), self.ended)
            self.watch.run()

    def _cycle(self) -> None:
        while not self.ended.wait(0.3):
            tasks.cycle()

    def _inventory(self) -> None:
        self.mine.runtime = self.runtimes[1]
        while not self.ended.wait(30):
            tasks.take_inventory()

    def _work(self, number: int) -> None:
        """As a worker of Celery does: what waited longer than its message lives is dropped, what raises is logged."""
        self.mine.runtime = self.runtimes[1 + number]
        while not self.ended.is_set():
            try:
                at, deed, epoch = self.deeds.get(timeout=0.2)
            except queue.Empty:
                continue
            if time.monotonic() - at < EXPIRES_S:
                try:
                    tasks.act(to_message(deed), epoch)
                except Exception as error:
                    self.errors.append(f"{type(deed).__name__}: {type(error).__name__}: {error}")


def build_short_pod(spec: TaskSpec, house, cards) -> dict:
    """Ours, and how long it runs and how it ends as the fake kubelet reads it."""
    pod = manifest.build_pod(spec, house, cards)
    told = {"fake.tessera.sh/runs-for": spec.env["RUNS_FOR"], "fake.tessera.sh/exit-code": spec.env["EXIT_CODE"]}
    pod["metadata"]["annotations"] |= told
    return pod


@dataclass
class Seen:
    pods: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)


class Witness(threading.Thread):
    """Sees every pod of an installation by a connection that nobody disturbs. of: by task, the uids of its pods."""

    def __init__(self, api: ApiServer, labels: str):
        super().__init__(daemon=True)
        self.api, self.labels = api, labels
        self.ended, self.of = threading.Event(), defaultdict[str, Seen](Seen)

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                listed = self.api.list_all(ALL_PODS, labels=self.labels)
                for pod in listed.items:
                    self.note(pod)
                watched = self.api.watch(
                    ALL_PODS, labels=self.labels, version=listed.version, seconds=300, silence_s=300
                )
                for event in watched:
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        self.note(event["object"])
                    if self.ended.is_set():
                        return
            except Unavailable:
                self.ended.wait(0.5)

    def note(self, pod: dict) -> None:
        if not is_tombstone(pod):
            seen, uid = self.of[task_of(pod)], pod["metadata"]["uid"]
            seen.pods.add(uid)
            if pod.get("status", {}).get("containerStatuses"):
                seen.ran.add(uid)


def submit_all(person, count: int, dice: random.Random, over_s: float) -> dict[int, Wanted]:
    """Short jobs of one card each, spread over a time; some of them are stopped by their owner later."""
    wanted, to_stop = {}, []
    for number in range(count):
        code = number % 4
        env = {"RUNS_FOR": f"{dice.uniform(1, 8):.1f}s", "EXIT_CODE": str(code)}
        job = make.job(
            person, name=f"life {number}", pool="train", gpu="1", cpu="100m", memory="64MiB", env=env, retry=0
        )
        wanted[job.pk] = Wanted(code)
        if dice.random() < STOPPED:
            to_stop.append((time.monotonic() + dice.uniform(0, 8), job.pk))
        time.sleep(over_s / count)
        while to_stop and to_stop[0][0] < time.monotonic():
            ask_to_stop(to_stop.pop(0)[1], wanted)
    for _, pk in to_stop:
        ask_to_stop(pk, wanted)
    return wanted


def ask_to_stop(pk: int, wanted: dict[int, Wanted]) -> None:
    job = Job.objects.select_related("user", "team").get(pk=pk)
    if not job.newest_tasks.filter(state__in=TASK_FINAL).exists():
        wanted[pk].stopped = True
        stop_job(actor=job.user, job=job)


def judge(installation: Installation, wanted: dict[int, Wanted], refused: set[str]) -> list[str]:
    """What is wrong: jobs lost, ended twice or wrongly, tasks with two pods. refused: names of pods of which the
    server said that they can never be made.
    """
    problems = []
    by_job = defaultdict(list)
    for task in Task.objects.filter(job__in=wanted):
        by_job[task.job_id].append(task)
    for pk, want in wanted.items():
        if len(by_job[pk]) != 1 or by_job[pk][0].state not in TASK_FINAL:
            problems.append(f"job {pk} has {[(task.attempt, task.state) for task in by_job[pk]]}")
            continue
        task = by_job[pk][0]
        ends = [(T.SUCCEEDED, "completed", 0) if want.code == 0 else (T.FAILED, "exit_nonzero", want.code)]
        ends += [(T.STOPPED, "stopped_by_user", None)] if want.stopped else []
        ends += [(T.FAILED, "rejected_by_cluster", None)] if names.pod_name(task.uuid.hex) in refused else []
        if not any((task.state, task.reason) == end[:2] and end[2] in (None, task.exit_code) for end in ends):
            problems.append(f"job {pk}: {task.state} {task.reason} {task.exit_code} {task.detail}, not {ends}")
        seen = installation.witness.of.get(task.uuid.hex, Seen())
        if len(seen.pods) > 1 or len(seen.ran) > 1:
            problems.append(f"job {pk} had {len(seen.pods)} pods, of which {len(seen.ran)} ran")
        if task.state == T.SUCCEEDED and not seen.ran:
            problems.append(f"job {pk} succeeded and never ran")
    return [*problems, *twice_ended(wanted)]


def twice_ended(wanted: dict[int, Wanted]) -> list[str]:
    """By the history: each task's ends."""
    ids = Task.objects.filter(job__in=wanted).values("pk")
    ended = Event.objects.filter(kind=Task.KIND, object_id__in=ids, to_state__in=TASK_FINAL)
    ends = Counter(ended.values_list("object_id", flat=True))
    return [f"task {task} ended {times} times" for task, times in ends.items() if times > 1]


def backlog(installation: Installation) -> set[str]:
    """Tasks of which the rows do not say yet what is so: ended in the cluster, or placed and without a pod."""
    pods = installation.api.list_all(ALL_PODS, labels=installation.clean.selector).items
    over = {task_of(pod) for pod in pods if pod_ended(pod)}
    rows = {task.uuid.hex: task.state for task in Task.objects.holding()}
    made = {task_of(pod) for pod in pods}
    return (over & rows.keys()) | {uuid for uuid, state in rows.items() if state == T.ASSIGNED and uuid not in made}


def until(is_so, within_s: float, words: str, look_s: float = 0.3) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < within_s, words
        time.sleep(look_s)
    return time.monotonic() - began


@contextmanager
def an_installation(
    direct: Connection, through: Connection, install: str, patch, nodes: int, **limits
) -> Iterator[Installation]:
    found = Installation(direct, through, install, patch, **limits)
    try:
        found.place(nodes)
        with found:
            yield found
    finally:
        found.clear()
