"""Uninstall: delete the namespaces that an installation made. Needs an administrator's rights.

What the chart or an administrator applied stays.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import Belonging
from runtimes.kubernetes.api.answers import NextStep
from runtimes.kubernetes.api.client import MERGE_PATCH
from runtimes.kubernetes.api.limiter import Urgency
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.views import is_task, pod_ended
from runtimes.kubernetes.runtime import KubernetesRuntime

NAMESPACES = "/api/v1/namespaces"

Thing = Mapping[str, Any]


class ClusterBelongings:
    """The namespaces of an installation. runtime: with an administrator's rights."""

    def __init__(self, runtime: KubernetesRuntime):
        self.name = runtime.install_config.install
        self._api = runtime.api

    def list_belongings(self) -> list[Belonging]:
        """List namespaces that have both our name and our label."""
        found = self._api.list_all(NAMESPACES, labels=f"{names.LABEL_INSTALL}={self.name}").items
        own = [each for each in found if names.is_own_namespace(self.name, each["metadata"]["name"])]
        return [self._describe(each) for each in sorted(own, key=lambda each: each["metadata"]["name"])]

    def remove(self, one: Belonging) -> None:
        """Delete the namespace if its uid still matches, and our finalizers in it. Idempotent.

        Pods stop with their usual grace; other owners' finalizers stay.
        """
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": one.uid}}
        path = f"{NAMESPACES}/{one.name}"
        handled: tuple[NextStep, ...] = ("gone", "again")  # again: already ending, or recreated
        self._api.call("DELETE", path, options, urgency=Urgency.DELETE, handles=handled)
        answer, there = self._api.call("GET", path, handles=("gone",))
        if answer.next_step == "done" and there["metadata"]["uid"] == one.uid:
            for pod in self._pods(one.name):
                self._remove_finalizer(pod)

    def is_gone(self, one: Belonging) -> bool:
        answer, there = self._api.call("GET", f"{NAMESPACES}/{one.name}", handles=("gone",))
        return answer.next_step == "gone" or there["metadata"]["uid"] != one.uid

    def _describe(self, namespace: Thing) -> Belonging:
        name = namespace["metadata"]["name"]
        pods = self._pods(name)
        ours = [pod for pod in pods if is_task(pod, self.name)]
        alive = sum(not pod_ended(pod) for pod in ours)
        words = [f"{alive} tasks that run or start", f"{len(ours) - alive} that have ended"]
        if others := [pod["metadata"]["name"] for pod in pods if pod not in ours]:
            words.append(f"{len(others)} pods of others ({', '.join(others[:3])})")
        return Belonging(f"{name}", namespace["metadata"]["uid"], ", ".join(words), self._risk(name))

    def _pods(self, namespace: str) -> list[Thing]:
        return list(self._api.list_all(f"{NAMESPACES}/{namespace}/pods").items)

    def _risk(self, namespace: str) -> str:
        """Return a warning if deleting the claims deletes a volume with people's files, else ""."""
        claims = self._api.list_all(f"{NAMESPACES}/{namespace}/persistentvolumeclaims").items
        for volume in (claim["spec"].get("volumeName") for claim in claims):
            if volume:
                path = f"/api/v1/persistentvolumes/{quote(volume, safe='')}"
                answer, found = self._api.call("GET", path, handles=("gone",))
                if answer.next_step == "done" and found["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                    return f"its volume {volume} is deleted with its claim, and people's files may be with it"
        return ""

    def _remove_finalizer(self, pod: Thing) -> None:
        meta = pod["metadata"]
        if names.FINALIZER in meta.get("finalizers", ()):
            kept = [each for each in meta["finalizers"] if each != names.FINALIZER]
            body = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "finalizers": kept}
            path = f"{NAMESPACES}/{meta['namespace']}/pods/{meta['name']}"
            try:
                self._api.call(
                    "PATCH", path, {"metadata": body}, content=MERGE_PATCH, urgency=Urgency.DELETE, handles=("gone",)
                )
            except Unavailable:
                return
