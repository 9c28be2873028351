"""A local runtime with two simulated cards, its inventory taken, and people with quota; the same on a real cluster."""

import tempfile
from pathlib import Path

import pytest

from cluster.models import Node, Pool
from jobs.models import Task
from jobs.states import TaskState
from runtimes.kubernetes.watch.reflectors import ClusterView
from runtimes.local.runtime import LocalRuntime
from scheduler import tasks
from scheduler.inventory.nodes import record_inventory
from tests import make
from tests.runtimes.kubernetes import world as on_cluster
from tests.runtimes.worlds import end_tasks
from tests.scheduler.cluster_scene import Scene

world, kubelet = on_cluster.world, on_cluster.kubelet
SMALL = {"cpu": "50m", "memory": "64MiB", "retry": 0}
"""The cluster's node has little to offer."""


@pytest.fixture
def new_runtime(tmp_path):
    """Makes runtimes on the same data. Sockets and task mounts lie where another uid may pass, as in life."""
    with tempfile.TemporaryDirectory(prefix="tessera-test-") as place:
        Path(place).chmod(0o755)
        yield lambda: LocalRuntime(
            tmp_path / "data", tmp_path / "logs", Path(place) / "run", "2xV100-32GB", node_name="here"
        )
        end_tasks(tmp_path / "data")


@pytest.fixture
def local(new_runtime, monkeypatch):
    """A local runtime on this machine with two simulated cards, its inventory taken, and ada's team with quota."""
    runtime = new_runtime()
    monkeypatch.setattr(tasks, "get_runtime", lambda: runtime)
    record_inventory(runtime.list_nodes())
    Pool.objects.update(high_priority="free", batch_is_preemptible=False)
    nlp = make.team("nlp")
    for name in ("dev", "train"):
        make.quota(nlp, make.pool(name))
    make.user("ada", nlp)
    return runtime


@pytest.fixture
def ada(local):
    return make.User.objects.get(username="ada")


@pytest.fixture
def bob(db):
    """Of a team with quota on eight machines of four cards; nobody asked anything yet."""
    train, nlp = make.pool("train"), make.team("nlp")
    for number in range(8):
        node = make.node(f"n{number}", pool=train)
        for _ in range(4):
            make.gpu(node)
    make.quota(nlp, train)
    return make.user("bob", nlp)


@pytest.fixture
def scene(world, db, monkeypatch, settings, tmp_path):
    settings.TESSERA_LOGS = tmp_path
    monkeypatch.setattr(tasks, "get_runtime", lambda: world.runtime)
    with ClusterView(world.runtime) as view:
        yield Scene(world, view)


@pytest.fixture
def cast(world, db):
    """Their node is the cluster's."""
    cast = make.cast()
    Node.objects.filter(pk=cast.node.pk).update(name=world.node)
    return cast


@pytest.fixture
def placed(cast):
    """placed("sleep 5") → a task of ada's on the cluster's node, or on another, that nobody has started."""

    def place(run: str, *, node: Node | None = None, **spec) -> Task:
        job = make.job(cast.ada, run=run, **SMALL | spec)
        make.start(job, state=TaskState.ASSIGNED, node=node)
        return job.newest_tasks.get()

    return place
