"""Since when the image of a starting pod has been pulled.

A pod's status says ContainerCreating throughout; only events show a pull. They are read for slow starts only.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.client import ApiServer
from runtimes.kubernetes.pods.causes import Pod, read_time

log = logging.getLogger("tessera.kubernetes")

ASK_AFTER_S = 4.0
"""Quicker starts are not asked about."""
AGAIN_S = 10.0
AT_ONCE = 4
"""Pods asked about per call, so that a thousand simultaneous starts cause no delay."""
PULL_EVENTS = ("Pulling", "Pulled", "Failed")


class ImagePulls:
    """Caches when each starting pod's pull began."""

    def __init__(self, api: ApiServer):
        self._api = api
        self._known: dict[str, tuple[float, datetime | None]] = {}  # {uid: (asked at, pulling since)}

    def list_pulls(self, pods: Iterable[Pod], now: datetime) -> dict[str, datetime | None]:
        """Return {uid: pulling since, or None} of slow pods with known events. pods: all there are."""
        slow = {pod["metadata"]["uid"]: pod for pod in pods if _is_slow(pod, now)}
        self._known = {uid: known for uid, known in self._known.items() if uid in slow}
        for uid in sorted(slow, key=self._asked_at)[:AT_ONCE]:
            if time.monotonic() - self._asked_at(uid) > AGAIN_S:
                self._read_pull(slow[uid])
        return {uid: since for uid, (_, since) in self._known.items()}

    def is_pulling(self, pod: Pod) -> bool:
        """Return whether events show a pull now."""
        try:
            return find_newest_pull(self._list_events(pod)) is not None
        except Unavailable:
            return False

    def _asked_at(self, uid: str) -> float:
        return self._known.get(uid, (float("-inf"), None))[0]

    def _read_pull(self, pod: Pod) -> None:
        """Read a pod's events. They expire after an hour: without any, the last answer stays."""
        uid = pod["metadata"]["uid"]
        try:
            told = [event for event in self._list_events(pod) if event.get("reason") in PULL_EVENTS]
        except Unavailable as away:
            log.info("nobody tells what %s waits for: %s", pod["metadata"]["name"], away)
            return
        before = self._known.get(uid, (0.0, None))[1]
        self._known[uid] = (time.monotonic(), find_newest_pull(told) if told else before)

    def _list_events(self, pod: Pod) -> list[dict[str, Any]]:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/events"
        _, found = self._api.call("GET", path, query={"fieldSelector": f"involvedObject.uid={meta['uid']}"})
        return found.get("items") or []


def find_newest_pull(events: Iterable[Mapping[str, Any]]) -> datetime | None:
    """Return since when the kubelet pulls; None if it does not."""
    telling = [event for event in events if event.get("reason") in PULL_EVENTS]
    told = [(at, event["reason"]) for event in telling if (at := _read_event_time(event)) is not None]
    at, reason = max(told, default=(None, ""))
    return at if reason == "Pulling" else None


def _is_slow(pod: Pod, now: datetime) -> bool:
    status = pod.get("status", {})
    began = read_time(status.get("startTime"))
    if began is None or "nodeName" not in pod["spec"] or status.get("phase") != "Pending":
        return False
    states = [each.get("state", {}) for each in status.get("containerStatuses", ())]
    waits = all(state.get("waiting", {}).get("reason") == "ContainerCreating" for state in states)
    return waits and (now - began).total_seconds() > ASK_AFTER_S


def _read_event_time(event: Mapping[str, Any]) -> datetime | None:
    return read_time(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
