"""Why a pod will never run, or ended without its program: what the cluster's words mean for its task. Pure.

Sources: kubelet's images/types.go, container/sync_result.go, lifecycle/predicate.go, eviction/helpers.go and
nodeshutdown (Kubernetes 1.34); the condition DisruptionTarget (KEP-3329).
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

Pod = Mapping[str, Any]

FAILING = {
    "ErrImagePull": "image_pull",
    "ImagePullBackOff": "image_pull",
    "InvalidImageName": "image_pull",
    "ErrImageNeverPull": "image_pull",
    "RegistryUnavailable": "image_pull",
    "SignatureValidationFailed": "image_pull",
    "CreateContainerConfigError": "start_failed",
    "CreateContainerError": "start_failed",
    "RunContainerError": "start_failed",
}
"""Why a container waits, where that is an error: the cause of its end if it goes on."""
AROUND = re.compile(
    r'Back-off pulling image "[^"]*"(: )?|ErrImagePull: |rpc error: code = \w+ desc = '
    r'|failed to pull and unpack image "[^"]*": |failed to resolve (image|reference "[^"]*"): |failed to do request: '
)
"""What kubelet and engine say around the words of the registry."""
NODES_FAULT = re.compile(r"CDI devices|apply-cuda-memory-limits|NRI")
"""What an engine says where a node lacks what its cards need: another node may have it."""
INTERRUPTED = re.compile(r"context canceled|context deadline exceeded")
"""What an engine says where its kubelet ended, or had no more patience, while it made or started a container."""
UNMADE = re.compile(r"^failed to create ")
"""What containerd says first where it was no further than making it (container_start.go): nothing of it ran."""
TRIES_S = 60
"""So long after it came to its node a pod may fail to start, for the kubelet tries again."""
PLACE_S = 30
"""So long the cluster may find that the node of a pod has no room: our ledger and the cluster disagree."""
SETUP_S = 600
"""So long a node may take to make a pod's volumes and network. While it fetches the image after that, it says the same
as before: only its events tell the two apart (pulls.py).
"""

DISRUPTED = {
    "PreemptionByScheduler": "evicted",
    "DeletionByTaintManager": "evicted",
    "EvictionByEvictionAPI": "evicted",
    "TerminationByKubelet": "evicted",
    "DeletionByPodGC": "node_lost",
}
"""Who ended a pod from outside, by the condition that Kubernetes itself puts on it."""
ENDED_BY_NODE = {"Evicted": "evicted", "Preempting": "evicted", "Terminated": "node_lost", "NodeLost": "node_lost"}
"""The same by the pod's own reason, where the kubelet gave one."""


def failing_start(pod: Pod, now: datetime, *, may_fetch: bool = False) -> tuple[str, str]:
    """(cause, the engine's words) where it failed to start for so long that it will go on; ("", words) where it may
    still come up. may_fetch: its image is being fetched, or nobody has asked.
    """
    looks = (_has_no_place, _has_no_container) if may_fetch else (_has_no_place, _is_not_set_up, _has_no_container)
    for look in looks:
        cause, words, hopeless = look(pod, now)
        if cause:
            return (cause if hopeless else ""), words
    return "", ""


def refused_start(pod: Pod) -> tuple[str, str]:
    """(cause, words) of a pod that failed before its container began, or whose container nobody saw end."""
    reason, words = pod.get("status", {}).get("reason", ""), status_words(pod)
    if cause := disruption(pod)[0] or ENDED_BY_NODE.get(reason, ""):
        return cause, disruption(pod)[1] or words
    return ("refused_by_node" if reason else "container_lost"), words


def broken_start(words: str) -> str:
    """The cause where the engine did not bring its container up, by the engine's words."""
    if not INTERRUPTED.search(words):
        return "start_failed"
    return "refused_by_node" if UNMADE.search(words) else "container_lost"


def disruption(pod: Pod) -> tuple[str, str]:
    """(cause, words) where Kubernetes, and neither its program nor we, ended it."""
    told = _condition(pod, "DisruptionTarget")
    if told.get("status") != "True":
        return "", ""
    words = f"{told.get('reason', '')}: {told.get('message', '')}".strip(": ")
    return DISRUPTED.get(told.get("reason", ""), "evicted"), words


def pull_words(message: str) -> str:
    """The registry's own words out of the kubelet's: `10.88.0.1:5000/none:1: not found`."""
    return AROUND.sub("", message).strip() or message


def status_words(pod: Pod) -> str:
    status = pod.get("status", {})
    return f"{status.get('reason', '')}: {status.get('message', '')}".strip(": ")


def container_state(pod: Pod) -> Mapping[str, Any]:
    return next((each.get("state", {}) for each in pod.get("status", {}).get("containerStatuses", ())), {})


def read_time(text: str | None) -> datetime | None:
    """None for what is not there, and for the year 1970: the kubelet's way to say that it does not know."""
    if not text:
        return None
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return at if at.year > 1970 else None


def _has_no_place(pod: Pod, now: datetime) -> tuple[str, str, bool]:
    told = _condition(pod, "PodScheduled")
    if pod["spec"].get("nodeName") or (told.get("status"), told.get("reason")) != ("False", "Unschedulable"):
        return "", "", False
    return "refused_by_node", told.get("message", ""), _age_s(told.get("lastTransitionTime"), now) > PLACE_S


def _is_not_set_up(pod: Pod, now: datetime) -> tuple[str, str, bool]:
    told = _condition(pod, "PodReadyToStartContainers")
    if told.get("status") != "False" or container_state(pod).get("waiting", {}).get("reason") in FAILING:
        return "", "", False
    hopeless = _age_s(told.get("lastTransitionTime"), now) > SETUP_S
    words = f"Its node has not made its volumes and its network in {SETUP_S} s."
    return ("refused_by_node", words, True) if hopeless else ("", "", False)


def _has_no_container(pod: Pod, now: datetime) -> tuple[str, str, bool]:
    waiting = container_state(pod).get("waiting", {})
    reason = waiting.get("reason", "")
    cause, message = FAILING.get(reason, ""), waiting.get("message", "")
    words = (pull_words(message) if cause == "image_pull" else f"{reason}: {message}".strip(": ")) or reason
    if cause == "start_failed" and NODES_FAULT.search(words):
        cause = "refused_by_node"
    old = _age_s(pod.get("status", {}).get("startTime"), now) > TRIES_S
    return cause, words, old or reason == "InvalidImageName"


def _condition(pod: Pod, kind: str) -> Mapping[str, Any]:
    told = pod.get("status", {}).get("conditions", ())
    return next((each for each in told if each["type"] == kind), {})


def _age_s(since: str | None, now: datetime) -> float:
    """0 where it is not told: who knows no age is young."""
    at = read_time(since)
    return (now - at).total_seconds() if at else 0.0
