"""Pods that bear our labels and are none of ours: nothing is believed of them, and nothing done to them."""

import pytest

from runtimes.kubernetes.cluster.installation_checks import _check_impostors
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.manifest import build_pod

pytestmark = pytest.mark.kubernetes
BESIDE_OTHERS = True


def pretend(world, namespace: str, name: str, **labels: str) -> dict:
    """A pod that nobody will ever start."""
    ours = {names.LABEL_INSTALL: world.runtime.config.install} | labels
    spec = {
        "schedulingGates": [{"name": "tests/never"}],
        "containers": [{"name": "main", "image": world.options["image"]}],
    }
    pod = {"metadata": {"name": name, "labels": ours}, "spec": spec}
    return world.api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod)[1]


def test_a_pod_that_only_bears_our_labels_is_no_task_and_is_told_of(world, elsewhere):
    spec = world.spec("sleep 60")
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    pretend(world, elsewhere, "without-a-task")
    pretend(world, elsewhere, "another-name", **{names.LABEL_TASK: "e" * 32})
    pretend(world, elsewhere, names.name_pod(spec.uuid), **{names.LABEL_TASK: spec.uuid})
    pretend(world, elsewhere, "forgotten", **{names.LABEL_FORGOTTEN: "0"})
    assert world.view(spec.uuid).phase == "running"
    assert {view.uuid for view in world.runtime.list_containers()} == {spec.uuid}
    (found,) = _check_impostors(world.runtime)
    assert found.tone == "bad" and f"{elsewhere}/another-name" in found.words and "1 more" in found.words

    world.runtime.sweep()
    world.another_runtime().stop(spec.uuid, 0, epoch=spec.epoch)  # that knows no hint where it is
    world.until(spec.uuid, "exited")
    _, left = world.api.call("GET", f"/api/v1/namespaces/{elsewhere}/pods")
    assert not any("deletionTimestamp" in pod["metadata"] for pod in left["items"]) and len(left["items"]) == 4


def test_a_pod_of_our_name_that_was_asked_for_something_else_goes_on_and_is_told_of(world):
    spec = world.spec("sleep 60")
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    world.runtime.start(spec)  # the same again is success
    (before,) = world.pods(spec.uuid)
    for _ in range(2):
        world.runtime.start(world.spec("sleep 61", uuid=spec.uuid))
    (pod,) = world.pods(spec.uuid)
    assert pod["metadata"]["uid"] == before["metadata"]["uid"] and world.view(spec.uuid).phase == "running"
    assert any(names.name_pod(spec.uuid) in one.words and one.tone == "bad" for one in _check_impostors(world.runtime))


def test_a_pod_from_before_its_hash_is_adopted(world):
    spec = world.spec("sleep 60", gid=20000)
    pod = build_pod(spec, world.runtime.config, {})
    del pod["metadata"]["annotations"][names.ANNOTATION_SPEC]
    world.api.call("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
