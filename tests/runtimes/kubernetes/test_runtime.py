"""What the runtime does about a pod that it finds, where another one changes that at the worst moment: on a double of
the API server that keeps pods, and versions of them as the real one does. Everything else: test_on_cluster.py.
"""

import itertools

import pytest

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.task import TaskSecret
from runtimes.kubernetes.api.client import Listed
from runtimes.kubernetes.api.response_handling import Answer
from runtimes.kubernetes.cluster.installation_checks import _check_impostors
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.manifest import build_pod, build_tombstone
from runtimes.kubernetes.runtime import ALL_PODS, KubernetesRuntime
from tests.runtimes.kubernetes.specs import CONFIG, UUID, task

TASK_EPOCH = task().epoch


class Pods:
    """between: functions of the pod that happen after each time that it was read, in turn."""

    def __init__(self, *between):
        self.pods, self.between, self.versions = {}, list(between), itertools.count(1)
        self.deleted = []
        self.elsewhere: list[tuple[str, str]] = []

    def put(self, pod):
        meta = pod["metadata"] | {"resourceVersion": str(next(self.versions))}
        self.pods[f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"] = pod | {"metadata": meta}

    def call(self, verb, path, body=None, *, handles=(), **_):
        answer, found = self._answer(verb, path, body)
        if answer.next_step not in ("done", *handles):
            raise Unavailable(answer.next_step)
        return answer, found

    def list_all(self, path, *, labels=""):
        return Listed([self._read(each) for each in list(self.pods)] if path == ALL_PODS else [], "1")

    def _answer(self, verb, path, body):
        if "/pods" not in path:
            self.elsewhere.append((verb, path))
            return Answer("done"), {"metadata": {"labels": {names.LABEL_INSTALL: CONFIG.install}}}
        if verb == "POST":
            return Answer("exists"), {}
        if path not in self.pods:
            return Answer("gone"), {}
        if verb == "GET":
            return Answer("done"), self._read(path)
        asked = (body or {}).get("preconditions" if verb == "DELETE" else "metadata", {})
        meta = self.pods[path]["metadata"]
        if any(asked.get(name, meta[name]) != meta[name] for name in ("uid", "resourceVersion")):
            return Answer("again"), {}
        if verb == "DELETE":
            self.deleted.append(path)
        else:
            notes = meta.get("annotations", {}) | body["metadata"].get("annotations", {})
            self.put(self.pods[path] | {"metadata": meta | {"annotations": notes}})
        return Answer("done"), {}

    def _read(self, path):
        pod = self.pods[path]
        if self.between:
            self.put(self.between.pop(0)(pod))
        return pod


def pod_of(spec):
    pod = build_pod(spec, CONFIG, {})
    return pod | {"metadata": pod["metadata"] | {"uid": "u1"}, "status": {"phase": "Pending"}}


def runtime_on(api) -> KubernetesRuntime:
    return KubernetesRuntime(install=CONFIG.install, image=CONFIG.image, api=api)


def touched(pod):
    return pod


def runs(pod):
    state = {"running": {"startedAt": "2026-01-01T12:00:00Z"}}
    return pod | {"status": {"phase": "Running", "containerStatuses": [{"state": state}]}}


def test_a_pod_that_was_asked_to_be_something_else_goes_on_as_the_task_and_admins_are_told():
    api = Pods()
    api.put(pod_of(task("sleep 60")))
    runtime = runtime_on(api)
    runtime.start(task("sleep 60"))
    assert list(_check_impostors(runtime)) == []
    runtime.start(task("sleep 61"))
    (found,) = _check_impostors(runtime)
    assert found.tone == "bad" and f"{names.name_pod(UUID)} (job-412 main.0)" in found.words and found.remedy
    assert [view.uuid for view in runtime.list_containers()] == [UUID] and api.deleted == []


def test_the_alarm_is_left_although_somebody_changes_the_pod_meanwhile():
    api = Pods(touched, touched)
    api.put(pod_of(task("sleep 60")))
    runtime = runtime_on(api)
    runtime.start(task("sleep 61"))
    assert len(list(_check_impostors(runtime))) == 1


def test_what_begins_to_run_between_a_look_and_its_deletion_is_not_ended():
    """By a stop of what never ran, as a timer gives it to what no row knows."""
    for between in ((runs,), ()):
        api = Pods(*between)
        api.put(pod_of(task()))
        if not between:
            api.put(runs(pod_of(task())))
        runtime_on(api).stop(UUID, 1, epoch=TASK_EPOCH, unless_ran=True)
        assert api.deleted == []


def test_what_never_ran_is_deleted_as_it_was_seen():
    api = Pods()
    api.put(pod_of(task()))
    runtime_on(api).stop(UUID, 1, epoch=TASK_EPOCH, unless_ran=True)
    assert len(api.deleted) == 1


def test_a_pod_of_others_in_the_way_ends_the_task_and_is_left_alone():
    api, pod = Pods(), pod_of(task())
    pod["metadata"]["labels"] = {}
    api.put(pod)
    with pytest.raises(Rejected, match="Another pod"):
        runtime_on(api).start(task())
    assert api.deleted == []


@pytest.mark.parametrize("first", ["a start", "a stop"])
def test_secrets_stay_with_the_pod_that_has_them_and_with_no_tombstone(first):
    spec, api = task(secrets=(TaskSecret("HUB_TOKEN", "c4nary"),)), Pods()
    namespace = names.name_team_namespace(CONFIG.install, spec.gid)
    api.put(pod_of(spec) if first == "a start" else build_tombstone(UUID, CONFIG, namespace, epoch=1, end={}))
    runtime_on(api).start(spec)
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    asked = [each for each in api.elsewhere if each[1].startswith(secrets) and names.LOGINS not in each[1]]
    taken = [] if first == "a start" else [("DELETE", f"{secrets}/s-{UUID}")]
    assert asked == [("POST", secrets), *taken]
