"""What a pod means for its task: pods as API servers tell of them, in every shape that decides something."""

import json
from datetime import UTC, datetime

import pytest

from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.causes import DISRUPTED, find_start_failure
from runtimes.kubernetes.pods.views import build_view, has_ended
from runtimes.kubernetes.watch.reflectors import trim_pod
from tests.runtimes.kubernetes.specs import UUID

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def at(minute: int, second: int = 0) -> str:
    return f"2026-01-01T11:{minute:02d}:{second:02d}Z"


def pod(state=None, *, phase="Running", node="n1", notes=(), status=(), **metadata):
    labels = {names.LABEL_TASK: UUID}
    meta = {"labels": labels, "annotations": {names.ANNOTATION_EPOCH: "7", **dict(notes)}, "creationTimestamp": at(0)}
    containers = [{"name": "main", "state": state}] if state else []
    told = {"phase": phase, "startTime": at(1), "podIP": "10.0.0.7", "containerStatuses": containers, **dict(status)}
    return {"metadata": meta | metadata, "spec": {"nodeName": node} if node else {}, "status": told}


def done(code, reason="Error", message="", *, started="2026-01-01T11:10:00Z"):
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": started,
            "finishedAt": at(20),
        }
    }


def view(given, **more):
    """Of what is kept of it."""
    return build_view(trim_pod(given), now=NOW, **more)


def asked(minute: int, grace: int = 10) -> dict:
    return {"deletionTimestamp": at(minute, grace), "deletionGracePeriodSeconds": grace}


def test_a_pod_that_runs():
    seen = view(pod({"running": {"startedAt": at(10)}}))
    assert (seen.uuid, seen.phase, seen.node, seen.epoch, seen.address) == (UUID, "running", "n1", 7, "10.0.0.7")
    assert seen.started_at == datetime(2026, 1, 1, 11, 10, tzinfo=UTC) and seen.ended_at is None


UNMADE = "failed to create containerd task: failed to create shim task"
UNSTARTED = 'failed to start containerd task "main"'
STOPPED, DEADLINE = "tessera cause=stopped saved=", {"reason": "DeadlineExceeded"}
ENDS = {
    "it succeeded": (pod(done(0, "Completed"), phase="Succeeded"), (0, None, "")),
    "it failed": (pod(done(3), phase="Failed"), (3, None, "")),
    "it was killed": (pod(done(139), phase="Failed"), (None, 11, "")),
    "no memory": (pod(done(137, "OOMKilled"), phase="Failed"), (None, 9, "out_of_memory")),
    "stopped": (pod(done(143, message=STOPPED), phase="Failed", **asked(15)), (None, 15, "stopped")),
    "killed after a stop": (pod(done(137), phase="Failed", **asked(15)), (None, 9, "stopped")),
    "ended before a stop": (pod(done(137), phase="Failed", **asked(25)), (None, 9, "")),
    "killed, the stamp moved": (pod(done(143), phase="Failed", **asked(25, 0)), (None, 15, "stopped")),
    "crashed, then deleted": (pod(done(139), phase="Failed", **asked(25, 0)), (None, 11, "")),
    "ended by itself in a stop": (pod(done(0, "Completed"), phase="Succeeded", **asked(15)), (0, None, "")),
    "time": (pod(done(143, message="tessera cause=time_limit saved="), phase="Failed"), (None, 15, "time_limit")),
    "the kubelet's time": (pod(done(137), phase="Failed", status=DEADLINE), (None, 9, "time_limit")),
    "no such program": (pod(done(128, "StartError", started=None), phase="Failed"), (128, None, "start_failed")),
    "its kubelet was killed": (
        pod(done(128, "StartError", f"{UNMADE}: context canceled", started=None), phase="Failed"),
        (None, None, "refused_by_node"),
    ),
    "its kubelet was killed a moment later": (
        pod(done(128, "StartError", f"{UNSTARTED}: context canceled", started=None), phase="Failed"),
        (None, None, "container_lost"),
    ),
    "evicted": (pod(done(137), phase="Failed", status={"reason": "Evicted"}), (None, None, "evicted")),
    "for a critical pod": (pod(done(137), phase="Failed", status={"reason": "Preempting"}), (None, None, "evicted")),
    "its machine ends": (pod(done(143), phase="Failed", status={"reason": "Terminated"}), (None, None, "node_lost")),
    "unknown to its node": (pod(done(137, "ContainerStatusUnknown"), phase="Failed"), (None, None, "container_lost")),
    "nobody knows": (pod(phase="Failed"), (None, None, "container_lost")),
    "stopped before a node": (pod(phase="Pending", node="", **asked(15)), (None, None, "never_started")),
    "stopped before its start": (pod(phase="Failed", **asked(15)), (None, None, "never_started")),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_how_a_task_ended(name):
    given, expected = ENDS[name]
    seen = view(given)
    assert (seen.phase, seen.exit_code, seen.signal, seen.cause) == ("exited", *expected)
    assert seen.ended_at is not None


def test_the_engines_words_are_kept():
    words = {"reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
    assert view(pod(phase="Failed", status=words)).detail == "OutOfcpu: Node didn't have enough resource: cpu"


def test_when_the_newest_checkpoint_was_written():
    saved = datetime(2026, 1, 1, 11, 19, tzinfo=UTC)
    message = f"tessera cause=stopped saved={int(saved.timestamp())}"
    assert view(pod(done(0, message=message), phase="Failed", **asked(15))).checkpointed_at == saved


@pytest.mark.parametrize(
    "forged", ["tessera cause=preempted saved=", "tessera cause=stopped saved=x", "\n", "x" * 4096]
)
def test_a_task_cannot_invent_an_end(forged):
    seen = view(pod(done(1, message=forged), phase="Failed"))
    assert (seen.cause, seen.exit_code, seen.checkpointed_at) == ("", 1, None)


def test_a_pod_that_is_being_deleted_has_not_ended_while_its_node_says_nothing():
    going = pod({"running": {"startedAt": at(10)}}, **asked(15))
    assert not has_ended(going)
    assert view(going).phase == "running" and view(going, silent={"n1"}).phase == "lost"


def test_a_silent_node_loses_nothing_that_has_ended():
    assert view(pod(done(0), phase="Succeeded"), silent={"n1"}).phase == "exited"


def test_why_a_pod_has_no_node_is_told():
    why = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: cpu"}]
    seen = view(pod(phase="Pending", node="", status={"conditions": why}))
    assert (seen.phase, seen.detail) == ("starting", "0/3 nodes: cpu")


def test_a_pull_may_fail_for_a_while():
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "registry says no"}}
    young = pod(waiting, phase="Pending", status={"startTime": at(59, 30)})
    old = pod(waiting, phase="Pending")
    assert find_start_failure(young, NOW) == ("", "registry says no")
    assert find_start_failure(old, NOW) == ("image_pull", "registry says no")
    assert (view(old).phase, view(old).cause) == ("starting", "image_pull")


def test_a_noted_end_wins():
    note = {names.ANNOTATION_END: json.dumps({"cause": "image_pull", "detail": "registry says no"})}
    seen = view(pod(done(137, "ContainerStatusUnknown"), phase="Failed", notes=note, **asked(15)))
    assert (seen.cause, seen.detail, seen.exit_code) == ("image_pull", "registry says no", None)


@pytest.mark.parametrize("broken", [{}, {"status": {}}, {"status": {"phase": "Pending"}}])
def test_a_pod_of_which_little_is_told_is_starting(broken):
    little = {"metadata": {"labels": {names.LABEL_TASK: UUID}}, "spec": {}} | broken
    assert view(little).phase == "starting"


# As kubelets and controllers of Kubernetes 1.34 write them.
REFUSALS = {
    "OutOfcpu": "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 1800, capacity: 2000",
    "OutOfmemory": "Pod was rejected: Node didn't have enough resource: memory, requested: 1, used: 2, capacity: 2",
    "OutOfpods": "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
    "OutOftessera.sh/g-0": "Pod was rejected: Node didn't have enough resource: tessera.sh/g-0, requested: 80",
    "NodeAffinity": "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity",
    "UnexpectedAdmissionError": "Pod was rejected: Allocate failed due to requested number of devices unavailable",
    "TopologyAffinityError": "Pod was rejected: Resources cannot be allocated with Topology locality",
    "SMTAlignmentError": "Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
    "NodeShutdown": "Pod was rejected as the node is shutting down.",
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_what_a_kubelet_refuses_never_ran_and_may_elsewhere(reason):
    seen = view(pod(phase="Failed", status={"reason": reason, "message": REFUSALS[reason], "containerStatuses": []}))
    assert (seen.cause, seen.detail) == ("refused_by_node", f"{reason}: {REFUSALS[reason]}")
    assert seen.exit_code is None and seen.signal is None


DISRUPTIONS = {
    "PreemptionByScheduler": "default-scheduler: preempting to accommodate a higher priority pod",
    "DeletionByTaintManager": "Taint manager: deleting due to NoExecute taint",
    "EvictionByEvictionAPI": "Eviction API: evicting",
    "TerminationByKubelet": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 12Ki. ",
    "DeletionByPodGC": "PodGC: node no longer exists",
}


def disrupted(reason: str, **fields) -> dict:
    told = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": DISRUPTIONS[reason]}
    return {"conditions": [told], **fields}


@pytest.mark.parametrize("reason", DISRUPTIONS)
def test_who_was_ended_by_the_cluster_was_not_stopped_by_anybody(reason):
    killed = done(143, message=STOPPED)
    for state in (killed, {"running": {"startedAt": at(10)}}, None):
        given = pod(state, phase="Failed", status=disrupted(reason), **asked(15))
        if state is None:
            given["status"]["containerStatuses"] = []
        seen = view(given)
        assert (seen.cause, seen.exit_code, seen.signal) == (DISRUPTED[reason], None, None)
        assert seen.detail == f"{reason}: {DISRUPTIONS[reason]}".strip()


def test_who_ends_well_while_its_node_is_emptied_has_ended_well():
    given = pod(done(0, "Completed"), phase="Succeeded", status=disrupted("EvictionByEvictionAPI"), **asked(15))
    assert (view(given).cause, view(given).exit_code) == ("", 0)


def test_a_node_that_says_after_its_own_restart_that_a_pod_does_not_fit_tells_of_it_as_refused():
    """The row knows that it ran (scheduler.reconcile.compare)."""
    told = {"reason": "UnexpectedAdmissionError", "message": "no healthy devices present"}
    assert view(pod({"running": {"startedAt": at(10)}}, phase="Failed", status=told)).cause == "refused_by_node"


NO_ROOM = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."


def unplaced(since: str, reason: str = "Unschedulable") -> dict:
    why = {"type": "PodScheduled", "status": "False", "reason": reason, "message": NO_ROOM, "lastTransitionTime": since}
    return pod(phase="Pending", node="", status={"conditions": [why], "startTime": None})


def test_a_pod_that_finds_no_room_at_its_node_is_given_up_after_a_while():
    assert find_start_failure(unplaced(at(59, 45)), NOW) == ("", NO_ROOM)
    assert find_start_failure(unplaced(at(59, 20)), NOW) == ("refused_by_node", NO_ROOM)
    assert (view(unplaced(at(0))).phase, view(unplaced(at(0))).cause) == ("starting", "refused_by_node")
    for reason in ("SchedulingGated", "SchedulerError"):
        assert find_start_failure(unplaced(at(0), reason), NOW) == ("", "")


def test_a_node_that_cannot_make_a_pods_network_is_given_up_after_a_while():
    def unready(since):
        told = {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": since}
        waiting = {"waiting": {"reason": "ContainerCreating"}}
        return pod(waiting, phase="Pending", status={"conditions": [told], "startTime": since})

    assert find_start_failure(unready(at(55)), NOW) == ("", "")
    assert find_start_failure(unready(at(45)), NOW)[0] == "refused_by_node"


def test_a_node_that_lacks_what_a_card_needs_is_to_blame_and_not_the_program():
    words = (
        "failed to create containerd container: CDI device injection failed: unresolvable CDI devices tessera.sh/gpu=0"
    )
    waiting = {"waiting": {"reason": "CreateContainerError", "message": words}}
    assert find_start_failure(pod(waiting, phase="Pending"), NOW)[0] == "refused_by_node"
    other = {"waiting": {"reason": "CreateContainerError", "message": "no such workdir"}}
    assert find_start_failure(pod(other, phase="Pending"), NOW)[0] == "start_failed"
