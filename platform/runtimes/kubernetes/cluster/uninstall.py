"""Uninstall: delete the namespaces that an installation made. Needs an administrator's rights.

What the chart or an administrator applied stays.
"""

from contextlib import suppress

from kubernetes.client import CoreV1Api, V1DeleteOptions, V1Preconditions

from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import Belonging
from runtimes.kubernetes.api.client import Conflict, Gone, Thing
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.views import has_ended, is_task
from runtimes.kubernetes.runtime import KubernetesRuntime


class ClusterBelongings:
    """The namespaces of an installation. runtime: with an administrator's rights."""

    def __init__(self, runtime: KubernetesRuntime):
        self.name = runtime.config.install
        self._runtime = runtime

    @property
    def _core(self) -> CoreV1Api:
        return self._runtime.api.typed(CoreV1Api)

    def list_belongings(self) -> list[Belonging]:
        """List namespaces that have both our name and our label."""
        found = self._core.list_namespace(label_selector=f"{names.LABEL_INSTALL}={self.name}").items
        own = [each.metadata for each in found if names.is_installation_namespace(self.name, each.metadata.name)]
        return [self._describe(each.name, each.uid) for each in sorted(own, key=lambda each: each.name)]

    def remove(self, one: Belonging) -> None:
        """Delete the namespace if its uid still matches, and our finalizers in it. Idempotent.

        Pods stop with their usual grace; other owners' finalizers stay.
        """
        options = V1DeleteOptions(preconditions=V1Preconditions(uid=one.uid))
        with suppress(Gone, Conflict):  # a conflict: it is ending already, or was made anew
            self._core.delete_namespace(one.name, body=options, _preload_content=False)  # a namespace, and no V1Status
        if not self.is_gone(one):
            for pod in self._pods(one.name):
                if names.FINALIZER in pod["metadata"].get("finalizers", ()):
                    with suppress(Unavailable):
                        self._runtime.remove_finalizer(pod)

    def is_gone(self, one: Belonging) -> bool:
        try:
            return self._core.read_namespace(one.name).metadata.uid != one.uid
        except Gone:
            return True

    def _describe(self, name: str, uid: str) -> Belonging:
        pods = self._pods(name)
        ours = [pod for pod in pods if is_task(pod, self.name)]
        alive = sum(not has_ended(pod) for pod in ours)
        words = [f"{alive} tasks that run or start", f"{len(ours) - alive} that have ended"]
        if others := [pod["metadata"]["name"] for pod in pods if pod not in ours]:
            words.append(f"{len(others)} pods of others ({', '.join(others[:3])})")
        return Belonging(name, uid, ", ".join(words), self._risk(name))

    def _pods(self, namespace: str) -> list[Thing]:
        return self._runtime.api.list_all(f"/api/v1/namespaces/{namespace}/pods").items

    def _risk(self, namespace: str) -> str:
        """Return a warning if deleting the claims deletes a volume with people's files, else ""."""
        for claim in self._core.list_namespaced_persistent_volume_claim(namespace).items:
            if volume := claim.spec.volume_name:
                with suppress(Gone):
                    found = self._core.read_persistent_volume(volume)
                    if found.spec.persistent_volume_reclaim_policy == "Delete":
                        return f"its volume {volume} is deleted with its claim, and people's files may be with it"
        return ""
