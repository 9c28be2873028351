"""Translate a pod into its task's ContainerView. Pure.

`exited` proves that no process is left: kubelets report a final phase only when all containers ended (1.27+).
"""

import json
import re
import signal
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from runtimes.contract.container import ContainerView, Phase
from runtimes.kubernetes.pods import causes, names
from runtimes.kubernetes.pods.causes import Pod

MESSAGE = re.compile(r"tessera cause=(|stopped|time_limit|start_failed) saved=(\d{0,12})\s*")
STARTERS = {"StartError", "ContainerCannotRun"}
NOT_FOUND = "ContainerStatusUnknown"
NO_CODE = {"never_started", "image_pull", "container_lost", "refused_by_node", "evicted", "node_lost"}
"""Causes that make the exit code meaningless."""


def build_view(
    pod: Pod,
    *,
    silent: Collection[str] = (),
    now: datetime,
    fetching_since: datetime | None = None,
    may_fetch: bool = False,
) -> ContainerView:
    """Build the view. silent: nodes without contact. may_fetch: see causes.find_start_failure."""
    if has_ended(pod):
        return _build_ended_view(pod)
    state, node = causes.read_container_state(pod), read_node(pod)
    running = state.get("running")
    phase: Phase = "lost" if node in silent and node else "running" if running else "starting"
    words = f"Nothing is heard of its node {node}." if phase == "lost" else ""
    cause, trouble = causes.find_start_failure(pod, now, may_fetch=may_fetch) if phase == "starting" else ("", "")
    return ContainerView(
        read_task_uuid(pod),
        node,
        phase,
        cause=cause,
        detail=words or trouble,
        started_at=causes.read_time(running.get("startedAt")) if running else None,
        address=pod.get("status", {}).get("podIP", ""),
        epoch=read_epoch(pod),
        fetching_since=fetching_since if phase == "starting" else None,
    )


def is_task(pod: Pod, install: str) -> bool:
    """Return whether name and namespace are ours too: anybody may copy our labels."""
    meta = pod["metadata"]
    uuid = meta.get("labels", {}).get(names.LABEL_TASK, "")
    named = bool(names.UUID.fullmatch(uuid)) and meta["name"] == names.name_pod(uuid)
    return named and names.is_installation_namespace(install, meta["namespace"])


def read_task_uuid(pod: Pod) -> str:
    return pod["metadata"]["labels"][names.LABEL_TASK]


def build_pod_path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def read_node(pod: Pod) -> str:
    return pod["spec"].get("nodeName", "")


def read_annotations(pod: Pod) -> Mapping[str, str]:
    return pod["metadata"].get("annotations", {})


def read_epoch(pod: Pod) -> int:
    text = read_annotations(pod).get(names.ANNOTATION_EPOCH, "")
    return int(text) if text.isdecimal() else 0


def read_checkpoint_s(pod: Pod) -> int:
    text = read_annotations(pod).get(names.ANNOTATION_CHECKPOINT_S, "")
    return int(text) if text.isdecimal() else 0


def is_tombstone(pod: Pod) -> bool:
    return any(gate["name"] == f"{names.DOMAIN}/never" for gate in pod["spec"].get("schedulingGates", ()))


def is_terminating(pod: Pod) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def has_ended(pod: Pod) -> bool:
    if is_tombstone(pod) or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return is_terminating(pod) and not read_node(pod)


def is_running(pod: Pod) -> bool:
    return "running" in causes.read_container_state(pod)


def has_run(pod: Pod) -> bool:
    """Return whether its kubelet has reported a start."""
    state = causes.read_container_state(pod)
    return "running" in state or causes.read_time(state.get("terminated", {}).get("startedAt")) is not None


def _build_ended_view(pod: Pod) -> ContainerView:
    done = causes.read_container_state(pod).get("terminated") or {}
    cause, detail, saved = _read_cause(pod, done)
    started = causes.read_time(done.get("startedAt"))
    code, number = _read_exit(done)
    if cause in NO_CODE:
        code, number = None, None
    return ContainerView(
        read_task_uuid(pod),
        read_node(pod),
        "exited",
        exit_code=code,
        signal=number,
        cause=cause,
        detail=detail,
        started_at=started,
        ended_at=causes.read_time(done.get("finishedAt")) or _read_deletion_time(pod) or _read_creation_time(pod),
        address=pod.get("status", {}).get("podIP", ""),
        epoch=read_epoch(pod),
        checkpointed_at=saved,
    )


def _read_cause(pod: Pod, done: Mapping[str, Any]) -> tuple[str, str, datetime | None]:
    """Return (cause, detail, last checkpoint)."""
    told, saved = _read_message(done)
    reason, why = done.get("reason", ""), causes.read_status_message(pod)
    if end := _read_recorded_end(pod):
        return end[0], end[1], saved
    if not done or (causes.read_time(done.get("startedAt")) is None and reason not in STARTERS):
        never = is_terminating(pod) and not why and not causes.read_disruption(pod)[0]
        return ("never_started", "", saved) if never else (*causes.explain_refused_start(pod), saved)
    if reason in STARTERS:
        words = done.get("message", "")
        return causes.explain_broken_start(words), words, saved
    if reason == "OOMKilled":
        return "out_of_memory", why, saved
    if pod["status"].get("reason") == "DeadlineExceeded":
        return "time_limit", why, saved
    by_cluster, words = causes.read_disruption(pod)
    by_cluster = by_cluster or causes.ENDED_BY_NODE.get(pod["status"].get("reason", ""), "")
    if by_cluster and (told or _read_exit(done) != (0, None)):
        return by_cluster, why or words, saved
    if reason == NOT_FOUND:
        return "container_lost", why or done.get("message", ""), saved
    if told:
        return told, "", saved
    if why:
        return "container_lost", why, saved
    return ("stopped" if _was_killed(pod, done) else ""), "", saved


def _was_killed(pod: Pod, done: Mapping[str, Any]) -> bool:
    """Return whether its deletion ended it.

    A kubelet's final deletion, without grace, overwrites the timestamp; then only the signal can tell.
    """
    number = _read_exit(done)[1]
    if number is None or not is_terminating(pod):
        return False
    if not pod["metadata"].get("deletionGracePeriodSeconds"):
        return number in (signal.SIGTERM, signal.SIGKILL)
    asked, ended = _read_deletion_time(pod), causes.read_time(done.get("finishedAt"))
    return asked is not None and ended is not None and ended >= asked


def _read_message(done: Mapping[str, Any]) -> tuple[str, datetime | None]:
    """Parse supervisor.sh's (cause, last checkpoint). The task could forge it, but only about itself."""
    found = MESSAGE.fullmatch(done.get("message", ""))
    if not found:
        return "", None
    return found[1], datetime.fromtimestamp(int(found[2]), UTC) if found[2] else None


def _read_recorded_end(pod: Pod) -> tuple[str, str] | None:
    try:
        end = json.loads(read_annotations(pod)[names.ANNOTATION_END])
        return end["cause"], end["detail"]
    except (KeyError, ValueError, TypeError):
        return None


def _read_exit(done: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return (exit code, signal); engines report signals as 128 + number."""
    code = done.get("exitCode")
    if code is not None and 128 < code <= 128 + 31:
        return None, code - 128
    return code, None


def _read_deletion_time(pod: Pod) -> datetime | None:
    """Return when deletion was requested: the timestamp minus the grace."""
    at = causes.read_time(pod["metadata"].get("deletionTimestamp"))
    if at is None:
        return None
    return datetime.fromtimestamp(at.timestamp() - pod["metadata"].get("deletionGracePeriodSeconds", 0), UTC)


def _read_creation_time(pod: Pod) -> datetime | None:
    return causes.read_time(pod["metadata"].get("creationTimestamp"))
