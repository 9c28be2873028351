"""Fake nodes of a bench in the cluster of KUBECONFIG, pods on them, and who watches when each is bound and runs."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.shared.waiting import wait
from dev.cluster.parts.kwok import MARK, build_node
from dev.cluster.paths import ClusterPaths
from dev.cluster.processes import find_parts
from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.client import MERGE_PATCH, ApiServer
from runtimes.kubernetes.api.credentials import CredentialSource
from runtimes.kubernetes.runtime import ALL_NODES, ALL_PODS

IMAGE = "10.88.0.1:5000/busybox:1.35"  # never pulled: the nodes are fake
CLUSTER = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
THREADS = 16
LABEL = "tessera.sh/bench"
TICKS = os.sysconf("SC_CLK_TCK")


class Fleet:
    """`count` nodes that carry this bench's label, and a namespace."""

    def __init__(self, name: str, count: int, per_s: float):
        self.name, self.count = name, count
        self.api = ApiServer(CredentialSource(os.environ["KUBECONFIG"]), per_s=per_s, burst=round(2 * per_s))
        self.names = [f"{name}-{number}" for number in range(count)]
        self.place = ClusterPaths(Path(os.environ["KUBECONFIG"]).parent, Path())

    def raise_up(self) -> None:
        in_threads(self._add_node, self.names)
        wait(lambda: self.ready() == self.count, 600, "the fake nodes are not ready: does kwok run?")
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.name}})
        account = f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
        wait(lambda: self.api.call("GET", account, handles=("gone",))[0].next_step == "done", 60, "no service account")

    def ready(self) -> int:
        found = self.api.list_all(ALL_NODES, labels=f"{LABEL}={self.name}").items
        conditions = (each for node in found for each in node["status"].get("conditions", ()))
        return sum(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def take_down(self) -> None:
        self.api.call("DELETE", f"/api/v1/namespaces/{self.name}", handles=("gone", "again"))
        in_threads(lambda name: self.api.call("DELETE", f"{ALL_NODES}/{name}", handles=("gone",)), self.names)
        self.api.close()

    def post(self, path: str, body: dict) -> None:
        self.api.call("POST", path, body)

    def pod(self, name: str, labels: dict[str, str], node: str = "") -> dict:
        """One card, and as little else as ours ask for. node: where it is bound already."""
        bound = {"nodeName": node} if node else {"nodeSelector": {LABEL: self.name}}
        asks = {"cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": "1"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.name, "labels": labels},
            "spec": {
                **bound,
                "restartPolicy": "Never",
                "tolerations": [{"key": MARK, "operator": "Exists"}],
                "containers": [{"name": "main", "image": IMAGE, "resources": {"requests": asks, "limits": asks}}],
            },
        }

    def clear(self, labels: str, namespace: str) -> None:
        """Delete these pods, and wait until they are gone."""
        self.delete_all(f"/api/v1/namespaces/{namespace}/pods", labels, {"gracePeriodSeconds": 0})

    def delete_all(self, path: str, labels: str, options: dict) -> None:
        """Each by itself, many at once: asked to delete them all, an API server does so one after the other."""

        def delete(item: dict) -> None:
            if not item["metadata"].get("deletionTimestamp"):
                self.api.call("DELETE", f"{path}/{item['metadata']['name']}", options, handles=("gone", "again"))

        self._until_none(path, labels, delete)

    def free(self, labels: str) -> None:
        """Take these pods away, wherever they are, and the finalizers that nobody is left to take off."""
        self._until_none(ALL_PODS, labels, lambda pod: self._free(pod["metadata"]))

    def _until_none(self, path: str, labels: str, act: Callable[[dict], None]) -> None:
        def are_gone() -> bool:
            with suppress(Unavailable):  # of thousands one takes longer than we wait for an answer: it is asked again
                in_threads(act, self.api.list_all(path, labels=labels).items)
                return not self.api.list_all(path, labels=labels).items
            return False

        wait(are_gone, 900, f"{path} of {labels} are not gone")

    def _free(self, meta: dict) -> None:
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        body = {"metadata": {"finalizers": []}}
        self.api.call("PATCH", path, body, content=MERGE_PATCH, handles=("gone",))
        self.api.call("DELETE", path, {"gracePeriodSeconds": 0}, handles=("gone", "again"))

    def _add_node(self, name: str) -> None:
        node = build_node(name)
        node["metadata"]["labels"][LABEL] = self.name
        self.post(ALL_NODES, node)

    def requests(self) -> float:
        """How many requests the API server has answered so far."""
        lines = self.api.read_log("/metrics").decode().splitlines()  # plain text, as a log is
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("apiserver_request_total{"))

    def cluster_cpu_s(self) -> float | None:
        """Of its control plane's processes; None where they are not on this machine."""
        parts = find_parts(self.place)
        return sum(cpu_s(parts[name]) for name in CLUSTER) if all(name in parts for name in CLUSTER) else None


@dataclass
class Witness:
    """When each pod was made, bound, running and over, by this machine's clock. A context manager: it follows."""

    api: ApiServer
    labels: str
    made: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    over: dict[str, float] = field(default_factory=dict)
    pods: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __enter__(self) -> "Witness":
        self._ended = threading.Event()
        self._version = self.api.list_all(ALL_PODS, labels=self.labels).version
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                for event in self.api.watch(
                    ALL_PODS, labels=self.labels, version=self._version, seconds=600, silence_s=120
                ):
                    self._version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._note(event["object"], time.time())
                    if self._ended.is_set():
                        return
            except Unavailable:
                self._ended.wait(0.5)

    def _note(self, pod: dict, now: float) -> None:
        meta, uid = pod["metadata"], pod["metadata"]["name"]
        self.pods[uid] = meta["namespace"], meta["name"]
        self.made.setdefault(uid, now)
        if pod["spec"].get("nodeName"):
            self.bound.setdefault(uid, now)
        phase = pod.get("status", {}).get("phase")
        if phase == "Running":
            self.running.setdefault(uid, now)
        elif phase in ("Succeeded", "Failed"):
            self.over.setdefault(uid, now)


def in_threads(act: Callable, items: Iterable, threads: int = THREADS) -> None:
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(act, items))


def descendants(pid: int) -> list[int]:
    """It and all that it started, and they."""
    children: dict[int, list[int]] = {}
    for each in filter(str.isdigit, os.listdir("/proc")):
        if stat := _stat(int(each)):
            children.setdefault(int(stat[1]), []).append(int(each))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def cpu_s(pid: int) -> float:
    """That this process has used, and those that it started and that are over. 0 of one that is gone."""
    stat = _stat(pid)
    return sum(map(int, stat[11:15])) / TICKS if stat else 0.0


def rss_mib(pid: int) -> float:
    stat = _stat(pid)
    return int(stat[21]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20) if stat else 0.0


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name: [0] is the state. [] of one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


@contextmanager
def a_fleet(name: str, count: int, per_s: float) -> Iterator[Fleet]:
    fleet = Fleet(name, count, per_s)
    try:
        fleet.raise_up()
        yield fleet
    finally:
        fleet.take_down()
