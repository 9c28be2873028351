"""How a job's end on a real cluster reaches people: the row's reason, the words on its page, and what is left of it.

Kubernetes itself ends these pods: its kubelet, scheduler, taint manager, eviction API and garbage collector.
"""

import html
import time
from collections.abc import Callable
from uuid import uuid4

import pytest

from cluster.models import Node
from dev.cluster.parts.kwok import MARK, build_node
from events.record_and_publish import SYSTEM
from jobs.control import end_job, stop_job
from jobs.models import Job, Task
from jobs.states import REASONS, JobState, TaskState
from quotas.models import Holding
from runtimes.kubernetes.api.client import MERGE_PATCH
from runtimes.kubernetes.pods import names
from scheduler.reconcile.compare import UNASKED
from tests import make
from tests.runtimes.kubernetes.world import TOO_MUCH, pod_path, wait_slowly
from tests.scheduler.cluster_scene import Scene

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db, pytest.mark.timeout(400, func_only=True)]
BESIDE_OTHERS = True  # its fake nodes are its own, and its pods of the real one small
T = TaskState
NODES = "/api/v1/nodes"


@pytest.fixture
def fake(world, cast):
    """A fake node of this test's own, with two cores, and its row."""
    name = f"{world.runtime.config.install}-{uuid4().hex[:6]}"
    node = build_node(name)
    node["status"]["allocatable"] = node["status"]["capacity"] = {"cpu": "2", "memory": "4Gi", "pods": "20"}
    world.api.call("POST", NODES, node)
    wait_slowly(lambda: is_ready(world, name))
    yield make.node(name, pool=cast.dev)
    world.api.call("DELETE", f"{NODES}/{name}", handles=("gone",))


def is_ready(world, name: str) -> bool:
    _, node = world.api.call("GET", f"{NODES}/{name}")
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    ready = any(told["type"] == "Ready" and told["status"] == "True" for told in node["status"].get("conditions", ()))
    return ready and taints == {MARK}


@pytest.fixture
def page(client):
    """page(task) → what the page of its job says, for the one whose job it is."""

    def read(task: Task) -> str:
        client.force_login(task.job.user)
        return html.unescape(client.get(f"/j/{task.job.public_id}/").content.decode())

    return read


def beside(world, image: str) -> str:
    """In the registry of the image that tests use."""
    return f"{world.options['image'].rpartition('/')[0]}/{image}"


def pod_of(scene: Scene, task: Task) -> dict:
    (pod,) = scene.world.pods(task.uuid.hex)
    return pod


def is_forgotten(scene: Scene, task: Task) -> bool:
    return task.uuid.hex not in {view.uuid for view in scene.view.list_containers()}


def check_end(scene: Scene, task: Task, page: Callable, reason: str, detail: str = "") -> None:
    """Its reason is in the rows of task and job, its words are on the page, and it holds nothing any more."""
    job = Job.objects.get(pk=task.job_id)
    assert (task.reason, job.reason) == (reason, reason), task.detail
    told = page(task)
    assert detail in task.detail and task.detail in told
    assert reason == "completed" or str(REASONS[reason].words) in told
    assert not Holding.objects.live().exists()
    wait_slowly(lambda: scene.watch.round(scene.epoch) or is_forgotten(scene, task))


# its own doing: run, state, reason, what the row tells of it
ITS_OWN = {
    "an exit code": ({"run": "exit 3"}, T.FAILED, "exit_nonzero", (3, None)),
    "an end by a signal": ({"run": "kill -SEGV $$"}, T.FAILED, "exit_nonzero", (None, 11)),
    "no memory": ({"run": TOO_MUCH}, T.FAILED, "out_of_memory", (None, 9)),
    "no time": ({"run": "sleep 600", "max_time": "2s"}, T.FAILED, "time_limit", (None, 15)),
    "an image without a shell": ({"run": "true", "image": "pause:1"}, T.FAILED, "start_failed", (128, None)),
    "a good end": ({"run": "true"}, T.SUCCEEDED, "completed", (0, None)),
}


@pytest.mark.parametrize("name", ITS_OWN)
def test_a_program_ends_by_itself(scene, placed, kubelet, page, name):
    spec, state, reason, told = ITS_OWN[name]
    if "image" in spec:
        spec = spec | {"image": beside(scene.world, spec["image"])}
    task = scene.until(placed(**spec), T.SUCCEEDED, T.FAILED)
    assert (task.state, task.exit_code, task.exit_signal) == (state, *told)
    check_end(scene, task, page, reason)


# by a wish of somebody or something of ours
WISHES = {
    "stopped_by_user": lambda job: stop_job(actor=job.user, job=job),
    "idle": lambda job: end_job(by=SYSTEM, job=job, reason="idle"),
}


@pytest.mark.parametrize("reason", WISHES)
def test_it_is_stopped_as_somebody_wished(scene, placed, page, reason):
    task = scene.until(placed("sleep 600"), T.RUNNING)
    WISHES[reason](task.job)
    scene.until(task, T.STOPPED)
    check_end(scene, task, page, reason)


# by others, beside the platform


def delete(scene: Scene, task: Task, **options) -> None:
    scene.world.api.call("DELETE", pod_path(pod_of(scene, task)), options)


def evict(scene: Scene, task: Task) -> None:
    meta = {name: pod_of(scene, task)["metadata"][name] for name in ("name", "namespace")}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    scene.world.api.call("POST", f"{pod_path(pod_of(scene, task))}/eviction", body)


BY_OTHERS = {
    "deleted": (delete, "container_lost", UNASKED),
    "deleted by force": (lambda scene, task: delete(scene, task, gracePeriodSeconds=0), "container_lost", ""),
    "its node is emptied": (evict, "evicted", "EvictionByEvictionAPI: "),
}


@pytest.mark.parametrize("name", BY_OTHERS)
def test_somebody_ends_it_beside_the_platform(scene, placed, kubelet, page, name):
    act, reason, words = BY_OTHERS[name]
    task = scene.until(placed("sleep 600"), T.RUNNING)
    act(scene, task)
    scene.until(task, T.FAILED)
    check_end(scene, task, page, reason, words)


def test_an_image_that_is_not_there_is_given_up_with_the_registrys_own_words(scene, placed, kubelet, page):
    image = beside(scene.world, "nothing:1")
    began = time.monotonic()
    task = scene.until(placed("true", image=image), T.FAILED, deadline_s=150)
    took = time.monotonic() - began
    check_end(scene, task, page, "image_pull", "not found")
    assert image in task.detail and 60 < took < 120
    print(f"given up after {took:.0f} s: {task.detail}")


def taint(scene: Scene, node: Node, task: Task) -> None:
    taints = [{"key": "example.org/broken", "effect": "NoExecute"}]
    patch(scene, node, {"spec": {"taints": taints}})


def patch(scene: Scene, node: Node, body: dict) -> None:
    scene.world.api.call("PATCH", f"{NODES}/{node.name}", body, content=MERGE_PATCH)


def test_a_taint_that_drives_everybody_off_its_node(scene, placed, fake, page):
    task = scene.until(placed("sleep 600", node=fake), T.RUNNING)
    taint(scene, fake, task)
    scene.until(task, T.FAILED)
    check_end(scene, task, page, "evicted", "DeletionByTaintManager: ")


def foreign_pod(scene: Scene, node: Node, cpu: str, **more) -> dict:
    """Of somebody else, in nobody's namespace, on this node."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}
    spec = {"containers": [container], "tolerations": [{"operator": "Exists"}], "affinity": {"nodeAffinity": required}}
    meta = {"name": f"other-{uuid4().hex[:8]}", "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec | more}
    scene.world.api.call("POST", "/api/v1/namespaces/default/pods", pod)
    wait_slowly(lambda: scene.world.api.call("GET", pod_path(pod))[1]["spec"].get("nodeName"))
    return pod


@pytest.fixture
def foreign(scene):
    """foreign(node, "1500m") → a pod of somebody else, gone after the test."""
    made = []
    yield lambda node, cpu, **more: made.append(foreign_pod(scene, node, cpu, **more))
    for pod in made:
        scene.world.api.call("DELETE", pod_path(pod), {"gracePeriodSeconds": 0}, handles=("gone",))


@pytest.fixture
def urgent(world):
    """The name of a class of pods that go before others."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    name = f"{world.runtime.config.install}-urgent"
    world.api.call("POST", path, {"metadata": {"name": name}, "value": 1000})
    yield name
    world.api.call("DELETE", f"{path}/{name}", handles=("gone",))


def test_a_pod_of_somebody_else_with_more_right_takes_its_place(scene, placed, fake, page, foreign, urgent):
    task = scene.until(placed("sleep 600", node=fake, cpu="1500m"), T.RUNNING)
    foreign(fake, "1500m", priorityClassName=urgent)
    scene.until(task, T.FAILED)
    check_end(scene, task, page, "evicted", "PreemptionByScheduler: ")


# refused: it never ran, so its job goes on


def check_queued_again(scene: Scene, task: Task, words: str) -> None:
    job = Job.objects.get(pk=task.job_id)
    assert (task.reason, job.state, job.attempt) == ("refused_by_node", JobState.QUEUED, 2), task.detail
    assert words in task.detail and job.not_before is not None and not Holding.objects.live().exists()
    wait_slowly(lambda: scene.watch.round(scene.epoch) or is_forgotten(scene, task))


def test_a_node_whose_room_somebody_else_took(scene, placed, fake, foreign, page):
    foreign(fake, "1500m")
    task = scene.until(placed("sleep 600", node=fake, cpu="1"), T.FAILED)
    check_queued_again(scene, task, "Insufficient cpu")
    assert "queued" in page(task).lower()


def test_a_node_that_was_tainted_meanwhile(scene, placed, fake):
    patch(scene, fake, {"spec": {"taints": [{"key": "example.org/later", "effect": "NoSchedule"}]}})
    task = scene.until(placed("sleep 600", node=fake), T.FAILED)
    check_queued_again(scene, task, "untolerated taint")


def test_a_node_that_is_gone_before_the_start(scene, placed, fake):
    scene.world.api.call("DELETE", f"{NODES}/{fake.name}")
    task = scene.until(placed("sleep 600", node=fake), T.FAILED)
    check_queued_again(scene, task, f"There is no node {fake.name}.")


def test_a_kubelet_that_refuses_what_was_bound_to_it(scene, placed, kubelet, cast):
    """The scheduler would not: somebody binds it past the scheduler, as races do."""
    Node.objects.update(cpu_milli=1_000_000)
    task = placed("sleep 600", cpu="900")
    scene.watch.round(scene.epoch)
    pod = wait_slowly(lambda: scene.world.pods(task.uuid.hex))[0]
    target = {"apiVersion": "v1", "kind": "Node", "name": scene.world.node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": target}
    scene.world.api.call("POST", f"{pod_path(pod)}/binding", body)
    scene.until(task, T.FAILED)
    check_queued_again(scene, task, "OutOfcpu: ")


def test_a_gang_that_cannot_start_whole_leaves_nothing_and_is_queued_again(scene, cast, fake, foreign):
    foreign(fake, "1500m")
    roles = {"here": {"run": "sleep 600", "cpu": "50m", "memory": "64MiB"}}
    roles["there"] = roles["here"] | {"cpu": "1"}
    job = make.job(cast.ada, roles=roles, retry=0)
    make.start(job, state=T.ASSIGNED)
    here, there = job.newest_tasks.order_by("rank")
    Task.objects.filter(pk=there.pk).update(node=fake)
    scene.until(there, T.FAILED)
    scene.until(here, T.STOPPED)
    assert here.reason == "gang_broken"
    check_queued_again(scene, there, "Insufficient cpu")
    wait_slowly(lambda: scene.watch.round(scene.epoch) or is_forgotten(scene, here))
    pods = [pod for task in (here, there) for pod in scene.world.pods(task.uuid.hex)]
    assert all(names.LABEL_FORGOTTEN in pod["metadata"]["labels"] for pod in pods)


# lost: nobody can say


def silence(scene: Scene, node: Node) -> None:
    """Nobody plays its kubelet any more, and its condition is what the node controller writes then."""
    patch(scene, node, {"metadata": {"annotations": {MARK: None}}})
    told = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting."}
    path = f"{NODES}/{node.name}/status"
    scene.world.api.call("PATCH", path, {"status": {"conditions": [told]}}, content=MERGE_PATCH)


def test_a_silent_node_keeps_what_it_holds_until_somebody_takes_it_out_of_the_cluster(scene, placed, fake, page):
    task = scene.until(placed("sleep 600", node=fake), T.RUNNING)
    silence(scene, fake)
    scene.until(task, T.LOST, deadline_s=120)
    assert Holding.objects.live().exists() and pod_of(scene, task)["status"]["phase"] == "Running"
    scene.world.api.call("DELETE", f"{NODES}/{fake.name}")
    scene.until(task, T.FAILED, deadline_s=180)
    check_end(scene, task, page, "node_lost", "PodGC: node no longer exists")
