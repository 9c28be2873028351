"""A world on a real cluster: a runtime of an installation of its own, on one real node, and how tests look at it."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dev.cluster.parts.storage import CLASS, PROVISIONER
from runtimes.contract.container import ContainerView
from runtimes.contract.task import Checkpoint, TaskSpec
from runtimes.kubernetes.access.pod_access import KubernetesAccess
from runtimes.kubernetes.api.client import MERGE_PATCH, ApiServer
from runtimes.kubernetes.api.credentials import CredentialSource
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.runtime import ALL_NODES, ALL_PODS, KubernetesRuntime
from tests.local_cluster import local_place
from tests.runtimes.worlds import World, wait_for

IMAGE = os.environ.get("TESSERA_TEST_IMAGE", "10.88.0.1:5000/busybox:1.35")  # has sh, find and stat
PYTHON = os.environ.get("TESSERA_TEST_PYTHON_IMAGE", "10.88.0.1:5000/python:3.11")
REAL_NODE, FAKE = "tessera.sh/real", "kwok.x-k8s.io/node"
DEADLINE_S = 180
"""Not a guess about speed: on a busy machine the controllers of the cluster back off for a minute and more."""
TOO_MUCH = "exec dd if=/dev/zero of=/dev/null bs=200M count=1"
"""Ends for want of memory in one read. A shell that reads as much takes a minute of a small task's processor."""


class KubernetesWorld(World):
    def __init__(self, kubeconfig: Path, **options):
        install = f"t{uuid4().hex[:10]}"
        known = {"image": IMAGE, "kubeconfig": kubeconfig, "per_s": 200, "burst": 400, "tolerated": (FAKE,)}
        self.options = {"install": install, **known, **options}
        self.runtime = self.another_runtime()
        self.api = self.runtime.api
        self.node, self.has_kubelet = self.find_node()
        self.files = self.code = Path()  # world_with_files has them

    def another_runtime(self, **options) -> KubernetesRuntime:
        return KubernetesRuntime(**{**self.options, **options})

    def find_node(self) -> tuple[str, bool]:
        """(name, whether a kubelet is there): bin/cluster's real one, else any that is no kwok node, else any."""
        found = self.api.list_all(ALL_NODES).items
        fakes = [node for node in found if FAKE in node["metadata"].get("annotations", {})]
        real = [node for node in found if node not in fakes]
        marked = [node for node in real if REAL_NODE in node["metadata"]["labels"]]
        chosen = [*marked, *real, *fakes][0]
        return chosen["metadata"]["name"], bool(real)

    def spec(self, run: str, **fields) -> TaskSpec:
        """Small, for the sleepers of tests before it still hold their cores."""
        return super().spec(run, **{"cpu_milli": 50, "memory_mib": 64, **fields})

    def until(self, uuid: str, phase: str) -> ContainerView:
        def is_so():
            view = self.view(uuid)
            begun = phase != "running" or self.runs(uuid)
            return view if view is not None and view.phase == phase and begun else None

        return wait_slowly(is_so, lambda: json.dumps([pod["status"] for pod in self.pods(uuid)], indent=1))

    def runs(self, uuid: str) -> int:
        """How often the node's kubelet said that it started the container: pods may go, events stay for an hour."""
        where = f"/api/v1/namespaces/{names.name_team_namespace(self.runtime.config.install, 20000)}/events"
        fields = f"involvedObject.name={names.name_pod(uuid)},reason=Started"
        _, found = self.api.call("GET", where, query={"fieldSelector": fields})
        return sum(event.get("count") or 1 for event in found["items"])

    def saver(self, checkpoint: Checkpoint, *, then_end: bool, **more) -> TaskSpec:
        save = f"mkdir -p {checkpoint.dir}; echo 1 > {checkpoint.dir}/step"
        run = f"trap '{save}; {'exit 0' if then_end else ':'}' USR1; echo listens; while :; do sleep 0.1; done"
        spec = self.spec(run, checkpoint=checkpoint, **more)
        self.runtime.start(spec)
        self.until(spec.uuid, "running")
        self.until_said(spec.uuid, "listens")
        return spec

    def until_said(self, uuid: str, text: str) -> None:
        wait_for(lambda: text.encode() in self.log(uuid))

    def log(self, uuid: str) -> bytes:
        (pod,) = self.pods(uuid)
        return self.api.read_log(f"{pod_path(pod)}/log")

    @property
    def python(self) -> tuple[str, dict]:
        return "python3", {"image": PYTHON, "memory_mib": 96}

    def access(self) -> KubernetesAccess:
        return KubernetesAccess(**self.options)

    @property
    def make_access(self) -> str:
        """Python text for a process of its own."""
        options = {**self.options, "kubeconfig": str(self.options["kubeconfig"])}
        load = "from runtimes.kubernetes.access.pod_access import KubernetesAccess"
        return f"{load}\naccess = lambda: KubernetesAccess(**{options!r})"

    def is_open(self, uuid: str) -> bool:
        return True

    def pods(self, uuid: str) -> list[dict]:
        """All that there is of a task, forgotten or not."""
        install = f"{names.LABEL_INSTALL}={self.runtime.config.install}"
        return self.api.list_all(ALL_PODS, labels=f"{install},{names.LABEL_TASK}={uuid}").items

    def settle(self):
        time.sleep(1)

    def close(self):
        remove(self.api, self.runtime.config.install)
        self.api.close()


@pytest.fixture(scope="module")
def world(kubeconfig) -> Iterator[KubernetesWorld]:
    """An installation of its own in the cluster, for the tests of a file."""
    world = KubernetesWorld(kubeconfig)
    yield world
    world.close()


@pytest.fixture
def kubelet(world) -> None:
    if not world.has_kubelet:
        pytest.skip("NO KUBELET: only fake nodes are there.")


@contextmanager
def world_with_files(kubeconfig: Path) -> Iterator[KubernetesWorld]:
    """Its pods have homes and code, on the volume of bin/cluster, in the folders `files` and `code` of this world."""
    root = local_place().shared
    own = root / f"test-{os.getpid()}"
    storage = {"storage_class": CLASS, "size": "1Gi", "access": "ReadWriteMany", "root": root}
    world = KubernetesWorld(kubeconfig, storage=storage | {"files": own / "files", "code": own / "code"})
    try:
        _, found = world.api.call("GET", f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}", handles=("gone",))
        if not world.has_kubelet or found.get("provisioner") != PROVISIONER:
            pytest.skip("NO VOLUME: the cluster is not bin/cluster's.")
        world.files, world.code = own / "files", own / "code"
        world.code.mkdir(parents=True)
        yield world
    finally:
        world.close()
        shutil.rmtree(own, ignore_errors=True)


def leave_nothing(kubeconfig: Path, install: str, *, within_s: float = 0) -> None:
    """within_s: so long its platform, which runs still, has for its own clearing up: a pod that is held by our mark
    would hold its namespace for ever.
    """
    until = time.monotonic() + within_s
    with ApiServer(CredentialSource(kubeconfig)) as api:
        held = f"{names.LABEL_INSTALL}={install},!{names.LABEL_FORGOTTEN}"
        while time.monotonic() < until and api.list_all(ALL_PODS, labels=held).items:
            time.sleep(0.5)
        remove(api, install)


def remove(api: ApiServer, install: str) -> None:
    """Nothing of this installation stays in the cluster."""
    mark = f"{names.LABEL_INSTALL}={install}"
    for pod in api.list_all(ALL_PODS, labels=mark).items:
        api.call("PATCH", pod_path(pod), {"metadata": {"finalizers": []}}, content=MERGE_PATCH, handles=("gone",))
    for namespace in api.list_all("/api/v1/namespaces", labels=mark).items:
        api.call("DELETE", f"/api/v1/namespaces/{namespace['metadata']['name']}", handles=("gone", "again"))


def pod_path(pod: dict) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def wait_slowly(look: Callable, tell: Callable[[], str] = lambda: "") -> Any:
    """As wait_for, for what takes seconds. tell: words for the failure."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError(f"nothing came of it in {DEADLINE_S} s: {tell()}")
