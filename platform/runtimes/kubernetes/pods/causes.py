"""Why a pod cannot start, or ended without its program: Kubernetes' reasons as causes. Pure.

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
"""{waiting reason that is an error: the task's cause if it persists}."""
AROUND = re.compile(
    r'Back-off pulling image "[^"]*"(: )?|ErrImagePull: |rpc error: code = \w+ desc = '
    r'|failed to pull and unpack image "[^"]*": |failed to resolve (image|reference "[^"]*"): |failed to do request: '
)
"""What the kubelet and the engine wrap around the registry's own message."""
NODES_FAULT = re.compile(r"CDI devices|apply-cuda-memory-limits|NRI")
"""Engine messages about a node that lacks what its cards need; another node may work."""
INTERRUPTED = re.compile(r"context canceled|context deadline exceeded")
"""Engine messages when the kubelet stopped or timed out while it created or started a container."""
UNMADE = re.compile(r"^failed to create ")
"""containerd's first words when creation itself failed (container_start.go): nothing has run."""
TRIES_S = 60
"""Seconds after its pod reached a node during which a start may fail, because the kubelet retries."""
PLACE_S = 30
"""Seconds a pod may stay unschedulable on its node before the task is refused there."""
SETUP_S = 600
"""Seconds a node may take for a pod's volumes and network. During the image pull that follows the status looks the
same; only events tell the two apart (image_pulls.py).
"""

DISRUPTED = {
    "PreemptionByScheduler": "evicted",
    "DeletionByTaintManager": "evicted",
    "EvictionByEvictionAPI": "evicted",
    "TerminationByKubelet": "evicted",
    "DeletionByPodGC": "node_lost",
}
"""{reason of the condition DisruptionTarget: cause}."""
ENDED_BY_NODE = {"Evicted": "evicted", "Preempting": "evicted", "Terminated": "node_lost", "NodeLost": "node_lost"}
"""{the pod's own reason, as the kubelet sets it: cause}."""


def find_start_failure(pod: Pod, now: datetime, *, may_fetch: bool = False) -> tuple[str, str]:
    """Return (cause, message) of a start that failed too long; ("", message) while it may recover.

    may_fetch: the image is being pulled, or its events are unknown.
    """
    looks = (_is_unschedulable, _lacks_container) if may_fetch else (_is_unschedulable, _lacks_setup, _lacks_container)
    for look in looks:
        cause, words, hopeless = look(pod, now)
        if cause:
            return (cause if hopeless else ""), words
    return "", ""


def explain_refused_start(pod: Pod) -> tuple[str, str]:
    """Return (cause, message) of a pod that failed before its container, or whose end nobody saw."""
    reason, words = pod.get("status", {}).get("reason", ""), read_status_message(pod)
    if cause := read_disruption(pod)[0] or ENDED_BY_NODE.get(reason, ""):
        return cause, read_disruption(pod)[1] or words
    return ("refused_by_node" if reason else "container_lost"), words


def explain_broken_start(words: str) -> str:
    """Return the cause for an engine's message about a failed container start."""
    if not INTERRUPTED.search(words):
        return "start_failed"
    return "refused_by_node" if UNMADE.search(words) else "container_lost"


def read_disruption(pod: Pod) -> tuple[str, str]:
    """Return (cause, message) if Kubernetes itself ended the pod."""
    condition = _find_condition(pod, "DisruptionTarget")
    if condition.get("status") != "True":
        return "", ""
    words = f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
    return DISRUPTED.get(condition.get("reason", ""), "evicted"), words


def strip_pull_prefix(message: str) -> str:
    """Strip the kubelet's wrapping from the registry's message."""
    return AROUND.sub("", message).strip() or message


def read_status_message(pod: Pod) -> str:
    status = pod.get("status", {})
    return f"{status.get('reason', '')}: {status.get('message', '')}".strip(": ")


def read_container_state(pod: Pod) -> Mapping[str, Any]:
    return next((each.get("state", {}) for each in pod.get("status", {}).get("containerStatuses", ())), {})


def read_time(text: str | None) -> datetime | None:
    """Parse a timestamp; None if missing or 1970, the kubelet's "unknown"."""
    if not text:
        return None
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return at if at.year > 1970 else None


def _is_unschedulable(pod: Pod, now: datetime) -> tuple[str, str, bool]:
    condition = _find_condition(pod, "PodScheduled")
    if pod["spec"].get("nodeName") or (condition.get("status"), condition.get("reason")) != ("False", "Unschedulable"):
        return "", "", False
    return "refused_by_node", condition.get("message", ""), _age_s(condition.get("lastTransitionTime"), now) > PLACE_S


def _lacks_setup(pod: Pod, now: datetime) -> tuple[str, str, bool]:
    condition = _find_condition(pod, "PodReadyToStartContainers")
    if condition.get("status") != "False" or read_container_state(pod).get("waiting", {}).get("reason") in FAILING:
        return "", "", False
    hopeless = _age_s(condition.get("lastTransitionTime"), now) > SETUP_S
    words = f"Its node has not made its volumes and its network in {SETUP_S} s."
    return ("refused_by_node", words, True) if hopeless else ("", "", False)


def _lacks_container(pod: Pod, now: datetime) -> tuple[str, str, bool]:
    waiting = read_container_state(pod).get("waiting", {})
    reason = waiting.get("reason", "")
    cause, message = FAILING.get(reason, ""), waiting.get("message", "")
    words = (strip_pull_prefix(message) if cause == "image_pull" else f"{reason}: {message}".strip(": ")) or reason
    if cause == "start_failed" and NODES_FAULT.search(words):
        cause = "refused_by_node"
    old = _age_s(pod.get("status", {}).get("startTime"), now) > TRIES_S
    return cause, words, old or reason == "InvalidImageName"


def _find_condition(pod: Pod, kind: str) -> Mapping[str, Any]:
    conditions = pod.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == kind), {})


def _age_s(since: str | None, now: datetime) -> float:
    """Return seconds since a timestamp; 0 if missing, so no patience ends."""
    at = read_time(since)
    return (now - at).total_seconds() if at else 0.0
