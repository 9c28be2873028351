"""Since when the image of a pod that starts is fetched.

While a kubelet fetches, the pod's status says ContainerCreating until it is done, as for anything else that may take
time. Only its events say that it fetches. They are asked for, pod by pod, where a start takes longer than usual.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from runtimes.base import Unavailable
from runtimes.kubernetes.causes import read_time
from runtimes.kubernetes.client import ApiServer

log = logging.getLogger("tessera.kubernetes")

Pod = Mapping[str, Any]

LOOK_AFTER_S = 4.0
"""Starts that are quicker tell nothing of fetching."""
AGAIN_S = 10.0
AT_ONCE = 4
"""So many pods at most are asked about by one look: a thousand that start together are no reason to be late."""
TELLING = ("Pulling", "Pulled", "Failed")


class Pulls:
    """Remembers for each pod that starts since when it fetches, as long as it starts."""

    def __init__(self, api: ApiServer):
        self._api = api
        self._known: dict[str, tuple[float, datetime | None]] = {}  # {uid: (asked at, since when it fetches)}

    def look(self, pods: Iterable[Pod], now: datetime) -> dict[str, datetime | None]:
        """{uid of a pod: since when its image is fetched, None where it is not}, of those that are slow to start and
        that were asked about. pods: all that there are.
        """
        slow = {pod["metadata"]["uid"]: pod for pod in pods if _is_slow(pod, now)}
        self._known = {uid: known for uid, known in self._known.items() if uid in slow}
        for uid in sorted(slow, key=self._asked_at)[:AT_ONCE]:
            if time.monotonic() - self._asked_at(uid) > AGAIN_S:
                self._ask(slow[uid])
        return {uid: since for uid, (_, since) in self._known.items()}

    def is_fetched(self, pod: Pod) -> bool:
        """Whether its image is being fetched now, as far as anybody tells."""
        try:
            return newest_pull(self._events(pod)) is not None
        except Unavailable:
            return False

    def _asked_at(self, uid: str) -> float:
        return self._known.get(uid, (float("-inf"), None))[0]

    def _ask(self, pod: Pod) -> None:
        """Events are kept for an hour: what was told before them stands where they tell nothing."""
        uid = pod["metadata"]["uid"]
        try:
            told = [event for event in self._events(pod) if event.get("reason") in TELLING]
        except Unavailable as away:
            log.info("nobody tells what %s waits for: %s", pod["metadata"]["name"], away)
            return
        before = self._known.get(uid, (0.0, None))[1]
        self._known[uid] = (time.monotonic(), newest_pull(told) if told else before)

    def _events(self, pod: Pod) -> list[dict[str, Any]]:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/events"
        _, found = self._api.call("GET", path, query={"fieldSelector": f"involvedObject.uid={meta['uid']}"})
        return found.get("items") or []


def newest_pull(events: Iterable[Mapping[str, Any]]) -> datetime | None:
    """Since when the kubelet fetches, None where it does not, or is done."""
    telling = [event for event in events if event.get("reason") in TELLING]
    told = [(at, event["reason"]) for event in telling if (at := _at(event)) is not None]
    at, reason = max(told, default=(None, ""))
    return at if reason == "Pulling" else None


def _is_slow(pod: Pod, now: datetime) -> bool:
    status = pod.get("status", {})
    began = read_time(status.get("startTime"))
    if began is None or "nodeName" not in pod["spec"] or status.get("phase") != "Pending":
        return False
    states = [each.get("state", {}) for each in status.get("containerStatuses", ())]
    waits = all(state.get("waiting", {}).get("reason") == "ContainerCreating" for state in states)
    return waits and (now - began).total_seconds() > LOOK_AFTER_S


def _at(event: Mapping[str, Any]) -> datetime | None:
    return read_time(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
