"""Many short jobs on fake nodes of a real cluster, by the product's own processes, and a witness of it all.

Celery's worker and beat and `manage.py watch` run as in production, on the tests' database; between them and the API
server lies a proxy. The witness and whoever cleans up have a connection of their own.
"""

import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.db import connections

from accounts.models import User
from bench.shared.fleet import cpu_s, descendants
from cluster.models import Node, Pool
from config.embedded import on_cluster
from config.embedded.start import CELERY, ROOT
from config.embedded.supervisor import Child, Program, stop_all
from dev.cluster.parts.kwok import MARK, build_node
from events.models import Event
from jobs.control import stop_job
from jobs.models import Task
from jobs.states import TASK_FINAL, TaskState
from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.client import MERGE_PATCH, ApiServer
from runtimes.kubernetes.api.credentials import CredentialSource
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.views import has_ended, has_run, is_tombstone, read_task_uuid
from runtimes.kubernetes.runtime import ALL_NODES, ALL_PODS, KubernetesRuntime
from scheduler.inventory.nodes import record_inventory
from tests import make
from tests.fault_proxy import FaultProxy, clock
from tests.runtimes.kubernetes.world import IMAGE, pod_path

WORKERS = 4
STOPPED, STOPPED_AT_ONCE = 0.35, 0.05
"""Of all jobs, by their owner."""
MOST_OPEN = 120
ENDLESS = "endless"
STAMPS = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
WRONG = re.compile(r"raised unexpected: (?!.*TimeLimit)|CRITICAL|CommandError")  # a loaded machine outlasts time limits
UNSURE = "failed to start containerd task"
"""What the engine says where its kubelet was killed as it started the program: it may have run."""
T = TaskState


@dataclass
class Wanted:
    """How a job has to end. stopped: somebody asked for its end meanwhile, so that either is right."""

    code: int
    stopped: bool = False


class Installation:
    """One whose nodes carry its name as a label. A context manager: in it its processes run, and an owner who stops
    what would run for ever.
    """

    def __init__(self, direct: CredentialSource, kubeconfig: Path, install: str, home: Path):
        self.install, self.home = install, home
        self.api = ApiServer(direct, per_s=500, burst=500)
        self.label = f"{names.DOMAIN}/nodes={install}"
        self.clean = KubernetesRuntime(install=install, image=IMAGE, tolerated=(MARK,), nodes=self.label, api=self.api)
        self.ended = threading.Event()
        self.errors: list[str] = []
        self.witness = Witness(self.api, f"{names.LABEL_INSTALL}={install}")
        self.owner = threading.Thread(target=self._own, daemon=True)
        self.children = [Child(program) for program in self._programs(kubeconfig)]

    def __enter__(self) -> "Installation":
        self.witness.start()
        self.owner.start()
        for child in self.children:
            child.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.witness.ended.set()
        stop_all(self.children, within_s=10)
        self.owner.join(60)

    def _programs(self, kubeconfig: Path) -> list[Program]:
        environment = {
            "PGDATABASE": str(connections["default"].settings_dict["NAME"]),
            "TESSERA_SECRET_KEY": settings.SECRET_KEY,
            "TESSERA_RUNTIME": on_cluster.RUNTIME,
            "TESSERA_INSTALL": self.install,
            "TESSERA_NODES": self.label,
            "TESSERA_TOLERATED": MARK,
            "TESSERA_IMAGE": IMAGE,
            "TESSERA_IMAGE_PULL": "IfNotPresent",
            "TESSERA_STORAGE_CLASS": "",
            "TESSERA_LOGS": str(self.home / "logs"),
            "TESSERA_ROLE": "worker",
            "KUBECONFIG": str(kubeconfig),
        }
        worker = ["worker", "-c", str(WORKERS), "-Q", "scheduler,default", "--without-gossip", "--without-mingle"]
        commands = {
            "worker": [*CELERY, *worker],
            "beat": [*CELERY, "beat"],
            "watch": [sys.executable, str(ROOT / "manage.py"), "watch"],
        }
        return [Program(name, argv, self.log(name), environment) for name, argv in commands.items()]

    def log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def cpu_s(self) -> float:
        """That its processes have used, without those of the database."""
        return sum(cpu_s(pid) for child in self.children for pid in descendants(child.pid))

    def find_errors(self) -> list[str]:
        """What its processes said that they never should, and who of them is gone."""
        gone = [f"{child.program.name} ended" for child in self.children if not child.is_running()]
        said = [
            f"{child.program.name}: {line[:300]}"
            for child in self.children
            for line in child.program.log.read_text(errors="replace").splitlines()
            if WRONG.search(line)
        ]
        return [*gone, *said, *self.errors]

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
        Node.objects.filter(name__startswith=self.install).update(pool=Pool.objects.get(name="train"))

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

    def explain(self, uuids: set[str], proxy: FaultProxy) -> str:
        """All that befell these tasks, in order: their history, their pods, what was asked about them."""
        told = ["of all:", *list(proxy.story[""])[-40:]]
        for task in Task.objects.filter(uuid__in=uuids):
            uuid = task.uuid.hex
            moves = Event.objects.filter(kind=Task.KIND, object_id=task.pk)
            lines = [f"{clock(event.at.timestamp())} row: {event.to_state} {event.reason}" for event in moves]
            lines += [*proxy.story[uuid], *self.witness.of[uuid].story, *self._said_of(uuid)]
            told += [f"task {uuid} is {task.state}:", *sorted(lines)]
        return "\n".join(told)

    def _said_of(self, uuid: str) -> list[str]:
        logs = [child.program.log.read_text(errors="replace") for child in self.children]
        return [line[:200] for text in logs for line in text.splitlines() if uuid in line]

    def _own(self) -> None:
        running = Task.objects.filter(state=T.RUNNING, job__name__startswith=ENDLESS, job__stop_requested_at=None)
        try:
            while not self.ended.wait(0.5):
                for task in running.select_related("job__user", "job__team"):
                    stop_job(actor=task.job.user, job=task.job)
        except Exception as error:
            self.errors.append(f"owner: {type(error).__name__}: {error}")
            raise
        finally:
            connections.close_all()


def make_short(pod: dict) -> dict:
    """How long it runs and how it ends, as the fake kubelet reads it: annotations that its environment tells."""
    told = {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0].get("env", ())}
    if "RUNS_FOR" in told:
        notes = {"fake.tessera.sh/runs-for": told["RUNS_FOR"], "fake.tessera.sh/exit-code": told["EXIT_CODE"]}
        pod["metadata"]["annotations"] = pod["metadata"].get("annotations", {}) | notes
    return pod


@dataclass
class Seen:
    pods: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    last: dict = field(default_factory=dict)
    story: deque[str] = field(default_factory=lambda: deque(maxlen=50))


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
                        self.note(event["object"], event["type"])
                    if self.ended.is_set():
                        return
            except Unavailable:
                self.ended.wait(0.5)

    def note(self, pod: dict, kind: str = "LISTED") -> None:
        phase, going = pod.get("status", {}).get("phase"), "deletionTimestamp" in pod["metadata"]
        words = f"{phase}{', going' * going}{', a mark' * is_tombstone(pod)}"
        self.of[read_task_uuid(pod)].story.append(
            f"{clock(time.time())} pod {kind}: {words}, {pod['metadata'].get('labels')}"
        )
        if not is_tombstone(pod):
            seen, uid = self.of[read_task_uuid(pod)], pod["metadata"]["uid"]
            seen.pods.add(uid)
            seen.last = {name: pod["metadata"].get(name) for name in STAMPS} | pod.get("status", {})
            if has_run(pod):
                seen.ran.add(uid)


def submit_all(
    people: Sequence[User],
    count: int,
    dice: random.Random,
    per_s: float,
    enough: Callable[[], bool] = lambda: True,
    real_every: int = 0,
) -> dict[int, Wanted]:
    """Short jobs of one card each, and every so many one without for the node with a kubelet, whose home is another
    pool: so many, and more until it is enough, but never thrice as many. Never more at once
    than MOST_OPEN, however slow the machine is, so that nearly all of them end while it lasts.
    """
    wanted: dict[int, Wanted] = {}
    unfinished = Task.objects.exclude(state__in=TASK_FINAL)
    due = time.monotonic()
    while len(wanted) < count or (not enough() and len(wanted) < 3 * count):
        real = real_every > 0 and len(wanted) % real_every == 0
        wanted |= submit(people[len(wanted) % len(people)], len(wanted), dice, real)
        if len(wanted) % 10 == 0:
            until(lambda: unfinished.count() < MOST_OPEN, 900, "nothing ends any more", look_s=1)
        due = max(due + 1 / per_s, time.monotonic() - 10)
        time.sleep(max(due - time.monotonic(), 0))
    return wanted


def submit(person: User, number: int, dice: random.Random, real: bool) -> dict[int, Wanted]:
    """One job. Some are stopped at once, and some run until they are stopped: as soon as they run."""
    code, chance = number % 4, dice.random()
    endless = chance < STOPPED
    env = {"RUNS_FOR": "3600s" if endless else f"{dice.uniform(1, 8):.1f}s", "EXIT_CODE": str(code)}
    asks = {"cpu": "50m", "memory": "64MiB", "retry": 0} | ({"pool": "dev"} if real else {"pool": "train", "gpu": "1"})
    run = "sleep ${RUNS_FOR%s}; exit $EXIT_CODE"  # on a node with a kubelet
    job = make.job(person, name=f"{ENDLESS if endless else 'life'} {number}", run=run, env=env, **asks)
    if STOPPED <= chance < STOPPED + STOPPED_AT_ONCE:
        stop_job(actor=person, job=job)
    return {job.pk: Wanted(code, stopped=chance < STOPPED + STOPPED_AT_ONCE)}


def judge(installation: Installation, wanted: dict[int, Wanted], refused: set[str]) -> dict[str, list[str]]:
    """What is wrong: jobs lost, or ended otherwise than they should; jobs that ran or ended twice. refused: names of
    pods of which the server said that they can never be made. A start that its kubelet broke off is made once more.
    """
    lost, double = [], twice_ended(wanted)
    by_job = defaultdict(list)
    for task in Task.objects.filter(job__in=wanted).order_by("attempt"):
        by_job[task.job_id].append(task)
    for pk, want in wanted.items():
        *before, task = by_job[pk] or [Task()]
        broken_off = all(each.reason == "refused_by_node" and not _seen(installation, each).ran for each in before)
        if not broken_off or task.state not in TASK_FINAL:
            lost.append(f"job {pk} has {[(each.state, each.reason, each.detail) for each in by_job[pk]]}")
            continue
        seen = _seen(installation, task)
        ends = [(T.SUCCEEDED, "completed", 0) if want.code == 0 else (T.FAILED, "exit_nonzero", want.code)]
        ends += [(T.STOPPED, "stopped_by_user", None)] if want.stopped else []
        ends += [(T.FAILED, "rejected_by_cluster", None)] if names.name_pod(task.uuid.hex) in refused else []
        ends += [(T.FAILED, "container_lost", None)] if UNSURE in task.detail else []
        if not any((task.state, task.reason) == end[:2] and end[2] in (None, task.exit_code) for end in ends):
            last = seen.last
            lost.append(f"job {pk}: {task.state} {task.reason} {task.exit_code} {task.detail}, not {ends}: {last}")
        if task.state == T.SUCCEEDED and not seen.ran:
            lost.append(f"job {pk} succeeded and never ran")
        if len(seen.pods) > 1 or len(seen.ran) > 1:
            double.append(f"job {pk} had {len(seen.pods)} pods, of which {len(seen.ran)} ran")
    return {"lost": lost, "double": double}


def _seen(installation: Installation, task: Task) -> Seen:
    return installation.witness.of.get(task.uuid.hex, Seen())


def twice_ended(wanted: dict[int, Wanted]) -> list[str]:
    """By the history: each task's ends."""
    ids = Task.objects.filter(job__in=wanted).values("pk")
    ended = Event.objects.filter(kind=Task.KIND, object_id__in=ids, to_state__in=TASK_FINAL)
    ends = Counter(ended.values_list("object_id", flat=True))
    return [f"task {task} ended {times} times" for task, times in ends.items() if times > 1]


def backlog(installation: Installation) -> set[str]:
    """Tasks of which the rows do not say yet what is so: ended in the cluster, or placed and without a pod."""
    pods = installation.api.list_all(ALL_PODS, labels=installation.clean.selector).items
    over = {read_task_uuid(pod) for pod in pods if has_ended(pod)}
    rows = {task.uuid.hex: task.state for task in Task.objects.holding()}
    made = {read_task_uuid(pod) for pod in pods}
    return (over & rows.keys()) | {uuid for uuid, state in rows.items() if state == T.ASSIGNED and uuid not in made}


def lag_of(installation: Installation, behind: set[str], most_s: float, explain: Callable[[set[str]], str]) -> float:
    """Seconds until the rows say what is so of all of these. Says what befell those that are late after most_s."""
    began, late = time.monotonic(), False

    def is_so() -> bool:
        nonlocal late
        left = behind & backlog(installation)
        if left and not late and time.monotonic() - began > most_s:
            print(explain(left), flush=True)
            late = True
        return not left

    return until(is_so, 10 * most_s, "ends are never seen")


def until(is_so: Callable[[], bool], within_s: float, words: str, look_s: float = 0.3) -> float:
    """Seconds that it took. A server that is away for the moment tells nothing."""
    began = time.monotonic()
    while True:
        with suppress(Unavailable):
            if is_so():
                return time.monotonic() - began
        assert time.monotonic() - began < within_s, words
        time.sleep(look_s)


@contextmanager
def an_installation(
    direct: CredentialSource, kubeconfig: Path, install: str, nodes: int, besides: tuple[str, ...] = ()
) -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="lifecycles-") as home:
        found = Installation(direct, kubeconfig, install, Path(home))
        try:
            found.place(nodes, besides)
            with found:
                yield found
        finally:
            found.clear()
