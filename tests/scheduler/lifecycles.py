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
from jobs.models import Task
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
from scheduler.deeds import to_message
from scheduler.inventory import record_inventory
from scheduler.management.commands.watch import EXPIRES_S
from scheduler.watching import Watch
from tests.runtimes.kubernetes.world import IMAGE, pod_path

WORKERS = 2
STOPPED, STOPPED_AT_ONCE = 0.25, 0.05
"""Of all jobs, by their owner."""
ENDLESS = "endless"
STAMPS = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
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
        loops = [
            self._watch,
            self._cycle,
            self._inventory,
            self._stop,
            *[lambda n=n: self._work(n) for n in range(WORKERS)],
        ]
        self.threads = [threading.Thread(target=self._guarded, args=(loop,), daemon=True) for loop in loops]
        for thread in [self.witness, *self.threads]:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.witness.ended.set()
        for thread in self.threads:
            thread.join(60)

    def place(self, nodes: int, besides: tuple[str, ...] = ()) -> None:
        """Fake nodes of its own, in the cluster and in the rows. besides: nodes of others that it may use, too."""
        name, _, value = self.label.partition("=")
        for each in besides:
            self._label(each, value)
        for number in range(nodes):
            node = build_node(f"{self.install}-{number}")
            node["metadata"]["labels"][name] = value
            self.api.call("POST", ALL_NODES, node, handles=("exists",))
        count = nodes + len(besides)
        until(lambda: sum(view.ready for view in self.clean.list_nodes()) == count, 60, "its nodes are not ready")
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
            if node["metadata"]["name"].startswith(f"{self.install}-"):
                self.api.call("DELETE", f"{ALL_NODES}/{node['metadata']['name']}", handles=("gone",))
            else:
                self._label(node["metadata"]["name"], None)
        self.api.close()

    def _label(self, node: str, value: str | None) -> None:
        body = {"metadata": {"labels": {self.label.partition("=")[0]: value}}}
        self.api.call("PATCH", f"{ALL_NODES}/{node}", body, content=MERGE_PATCH)

    def tell(self, uuids: set[str]) -> str:
        """What rows, view and cluster know of these tasks."""
        seen = {each.uuid: each for each in self.view.list_containers()}
        pods = {task_of(pod): pod for pod in self.api.list_all(ALL_PODS, labels=self.clean.selector).items}
        rows = Task.objects.filter(uuid__in=uuids)
        return str([(task, task.state, seen.get(task.uuid.hex), pods.get(task.uuid.hex)) for task in rows])

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
            self.watch = Watch(view, lambda orders: self.deeds.put((time.monotonic(), orders)), self.ended)
            self.watch.run()

    def _cycle(self) -> None:
        while not self.ended.wait(0.3):
            tasks.cycle()

    def _inventory(self) -> None:
        self.mine.runtime = self.runtimes[1]
        while not self.ended.wait(30):
            tasks.take_inventory()

    def _stop(self) -> None:
        """The owner, who ends what would run for ever."""
        running = Task.objects.filter(state=T.RUNNING, job__name__startswith=ENDLESS, job__stop_requested_at=None)
        while not self.ended.wait(0.5):
            for task in running.select_related("job__user", "job__team"):
                stop_job(actor=task.job.user, job=task.job)

    def _work(self, number: int) -> None:
        """As a worker of Celery does: what waited longer than its message lives is dropped, what raises is logged."""
        self.mine.runtime = self.runtimes[1 + number]
        while not self.ended.is_set():
            try:
                at, orders = self.deeds.get(timeout=0.2)
            except queue.Empty:
                continue
            if time.monotonic() - at < EXPIRES_S:
                try:
                    tasks.act([to_message(order) for order in orders])
                except Exception as error:
                    self.errors.append(f"{orders[0]}: {type(error).__name__}: {error}")


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
    last: dict = field(default_factory=dict)


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
            seen.last = {name: pod["metadata"].get(name) for name in STAMPS} | pod.get("status", {})
            if pod.get("status", {}).get("containerStatuses"):
                seen.ran.add(uid)


def submit_all(person, count: int, dice: random.Random, over_s: float) -> dict[int, Wanted]:
    """Short jobs of one card each, spread over a time. Some are stopped at once, and some run until they are stopped:
    by _stop, as soon as they run.
    """
    wanted = {}
    for number in range(count):
        code, chance = number % 4, dice.random()
        endless = chance < STOPPED
        env = {"RUNS_FOR": "3600s" if endless else f"{dice.uniform(1, 8):.1f}s", "EXIT_CODE": str(code)}
        asks = {"pool": "train", "gpu": "1", "cpu": "100m", "memory": "64MiB", "retry": 0}
        run = "sleep ${RUNS_FOR%s}; exit $EXIT_CODE"  # on a node with a kubelet
        job = make.job(person, name=f"{ENDLESS if endless else 'life'} {number}", run=run, env=env, **asks)
        wanted[job.pk] = Wanted(code, stopped=chance < STOPPED + STOPPED_AT_ONCE)
        if STOPPED <= chance < STOPPED + STOPPED_AT_ONCE:
            stop_job(actor=person, job=job)
        time.sleep(over_s / count)
    return wanted


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
        seen = installation.witness.of.get(task.uuid.hex, Seen())
        ends = [(T.SUCCEEDED, "completed", 0) if want.code == 0 else (T.FAILED, "exit_nonzero", want.code)]
        ends += [(T.STOPPED, "stopped_by_user", None)] if want.stopped else []
        ends += [(T.FAILED, "rejected_by_cluster", None)] if names.pod_name(task.uuid.hex) in refused else []
        if not any((task.state, task.reason) == end[:2] and end[2] in (None, task.exit_code) for end in ends):
            last = seen.last
            problems.append(f"job {pk}: {task.state} {task.reason} {task.exit_code} {task.detail}, not {ends}: {last}")
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


def until(is_so, within_s: float, words, look_s: float = 0.3) -> float:
    """Seconds that it took. words: text, or what makes it."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < within_s, words() if callable(words) else words
        time.sleep(look_s)
    return time.monotonic() - began


@contextmanager
def an_installation(
    direct: Connection, through: Connection, install: str, patch, nodes: int, besides: tuple[str, ...] = (), **limits
) -> Iterator[Installation]:
    found = Installation(direct, through, install, patch, **limits)
    try:
        found.place(nodes, besides)
        with found:
            yield found
    finally:
        found.clear()
