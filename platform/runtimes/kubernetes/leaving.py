"""What an installation made in a cluster, and how that goes: its namespaces, with all that is in them.

What the chart or an administrator applied (accounts, roles, rules, the platform's own namespace) is not made by us, and
left to `helm uninstall` or `kubectl delete -f`. It takes an administrator's rights: the platform's own make namespaces
and delete none.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from runtimes.base import Belonging, Unavailable
from runtimes.kubernetes import names
from runtimes.kubernetes.answers import Deed
from runtimes.kubernetes.client import MERGE_PATCH
from runtimes.kubernetes.limiter import Urgency
from runtimes.kubernetes.runtime import KubernetesRuntime
from runtimes.kubernetes.views import is_task, pod_ended

NAMESPACES = "/api/v1/namespaces"

Thing = Mapping[str, Any]


class ClusterBelongings:
    """runtime: with the rights of an administrator of the cluster."""

    def __init__(self, runtime: KubernetesRuntime):
        self.name = runtime.house.install
        self._api = runtime.api

    def list_belongings(self) -> list[Belonging]:
        """Namespaces that are called as we call them, and bear our label: one of these alone is somebody else's."""
        found = self._api.list_all(NAMESPACES, labels=f"{names.LABEL_INSTALL}={self.name}").items
        own = [each for each in found if names.is_own_namespace(self.name, each["metadata"]["name"])]
        return [self._describe(each) for each in sorted(own, key=lambda each: each["metadata"]["name"])]

    def remove(self, one: Belonging) -> None:
        """Ask for it, by its uid: one that was made anew meanwhile stays. Our pods are let go, and stop as they would
        for any stop; whoever else holds something there goes on holding it. Again as often as wanted.
        """
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": one.uid}}
        path = f"{NAMESPACES}/{one.name}"
        handled: tuple[Deed, ...] = ("gone", "again")  # again: it goes already, or is another one by now
        self._api.call("DELETE", path, options, urgency=Urgency.DELETE, handles=handled)
        answer, there = self._api.call("GET", path, handles=("gone",))
        if answer.deed == "done" and there["metadata"]["uid"] == one.uid:
            for pod in self._pods(one.name):
                self._let_go(pod)

    def is_gone(self, one: Belonging) -> bool:
        answer, there = self._api.call("GET", f"{NAMESPACES}/{one.name}", handles=("gone",))
        return answer.deed == "gone" or there["metadata"]["uid"] != one.uid

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
        """With a claim goes its volume, where that is told to: with people's files, and those of all teams."""
        claims = self._api.list_all(f"{NAMESPACES}/{namespace}/persistentvolumeclaims").items
        for volume in (claim["spec"].get("volumeName") for claim in claims):
            if volume:
                path = f"/api/v1/persistentvolumes/{quote(volume, safe='')}"
                answer, found = self._api.call("GET", path, handles=("gone",))
                if answer.deed == "done" and found["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                    return f"its volume {volume} is deleted with its claim, and people's files may be with it"
        return ""

    def _let_go(self, pod: Thing) -> None:
        """No finalizer of ours holds it. Where somebody changed it meanwhile, the next round does it."""
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
