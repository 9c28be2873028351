"""The Kubernetes runtime: one bare pod per task, whose spec never changes.

All state is in the cluster. A task's uuid names its pod, so the API server refuses duplicates; the name stays taken an
hour or two after the end, so that a late start fails.
"""

import json
import logging
import os
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn
from urllib.parse import quote

from common.steady_clock import steady_now, steady_time
from runtimes.contract.container import ContainerView
from runtimes.contract.errors import NodeRefused, Rejected, Unavailable
from runtimes.contract.node import NodeView
from runtimes.contract.runtime import Capabilities
from runtimes.contract.task import TaskSpec
from runtimes.images.names import RegistryLogin
from runtimes.kubernetes.api.client import MERGE_PATCH, ApiServer, Thing
from runtimes.kubernetes.api.credentials import CredentialSource
from runtimes.kubernetes.api.limiter import Urgency
from runtimes.kubernetes.api.response_handling import NextStep
from runtimes.kubernetes.cluster.namespaces import apply_logins, ensure_namespace
from runtimes.kubernetes.cluster.nodes import build_node_view, is_silent, sum_foreign_requests
from runtimes.kubernetes.pods import names, secret_volume, views
from runtimes.kubernetes.pods.causes import Pod, find_start_failure
from runtimes.kubernetes.pods.files_volume import name_report, prepare_files, read_storage
from runtimes.kubernetes.pods.manifest import InstallConfig, build_pod, build_tombstone, check_install_config, hash_spec
from runtimes.kubernetes.watch.image_pulls import ImagePulls
from runtimes.kubernetes.watch.log_fallback import fetch_log
from runtimes.log_masking import NO_MASK, LogMask
from runtimes.log_store import LogStore
from runtimes.report_file import open_report_file, remove_report_file

log = logging.getLogger("tessera.kubernetes")

ALL_PODS, ALL_NODES = "/api/v1/pods", "/api/v1/nodes"
READ_NODES_EVERY_S = 10.0
ROOM_FIRST_S, ROOM_MOST_S = 30.0, 600.0
"""Pauses of a task that its namespace's quota refused: first and longest."""
LOCK_MOST_S = 10.0
"""Seconds that a thread waits for another one that checks the same object."""
FRESH_S = 3.0
"""Seconds for which the database's word that a task is not stopped, or the lookup of its tombstone, allows a start.

Ends are forgotten seconds later than that (`WatchLoop.is_due`), as the name of a stopped pod is free then.
"""
SETTLED = ("running", "exited")
"""Phases in which an unchanged pod's view is reused, as long as its node reports."""
TRIES = 4
KEPT_HOURS, AHEAD_HOURS = 1, 2
"""Whole hours that an ended task's name stays taken at least; hours that another clock may be ahead."""


class KubernetesRuntime:
    capabilities = Capabilities(
        True,
        "kubernetes",
        view="runtimes.kubernetes.watch.reflectors.ClusterView",
        own_addresses=True,
        late_logs=True,
        examine="runtimes.kubernetes.cluster.installation_checks.examine",
        belongings="runtimes.kubernetes.cluster.uninstall.ClusterBelongings",
    )

    def __init__(
        self,
        *,
        kubeconfig: str | os.PathLike | None = None,
        context: str = "",
        nodes: str = "",
        switch_labels: Sequence[str] = (),
        per_s: float = 20.0,
        burst: int = 40,
        storage: Mapping[str, Any] | None = None,
        log_dir: str | os.PathLike | None = None,
        api: ApiServer | None = None,
        **config: Any,
    ):
        """Connect. nodes: a label selector. switch_labels: of nodes, that name a network switch. per_s, burst: request
        limits. storage: `Storage` as a mapping. log_dir: for logs that no agent brought. api: replaces the connection.
        config: what else `InstallConfig` has.
        """
        self.config = check_install_config(InstallConfig(**config, storage=read_storage(storage)))
        self.api = api or ApiServer(CredentialSource(kubeconfig, context), per_s=per_s, burst=burst)
        self.node_labels, self.switch_labels = nodes, switch_labels
        self.logs = LogStore(log_dir) if log_dir is not None else None
        self._namespaces: dict[str, str] = {}  # {task: namespace}, a lookup hint
        self._ensured: set[str] = set()  # namespaces set up by this process
        self._nodes: dict[str, float] = {}  # {node: last seen}
        self._logins: dict[str, tuple[RegistryLogin, ...]] = {}  # last written
        self._silent: tuple[float, frozenset[str]] = (0.0, frozenset())
        self._pulls = ImagePulls(self.api)
        self._settled: dict[str, tuple[Pod, ContainerView]] = {}  # {uid: (pod, view)}
        self._locks: dict[str, threading.Lock] = {}
        self._no_room: dict[str, tuple[float, float]] = {}  # {task: (not before, last pause)}

    # the runtime contract

    def list_nodes(self) -> list[NodeView]:
        found = self._read_nodes()
        others = self.api.list_all(ALL_PODS, labels=f"{names.LABEL_INSTALL}!={self.config.install}").items
        asked, tolerated = sum_foreign_requests(others), self.config.tolerated
        return [
            build_node_view(each, asked.get(each["metadata"]["name"], (0, 0)), tolerated, self.switch_labels)
            for each in found
        ]

    def list_containers(self) -> list[ContainerView]:
        pods = self.api.list_all(ALL_PODS, labels=self.selector).items
        return self.build_views(pods, self._silent_nodes())

    def start(self, spec: TaskSpec) -> None:
        """Create the task's pod. A refusal counts only if no pod exists: an earlier answer may have been lost."""
        self._check_node(spec.node)
        pod = build_pod(spec, self.config, {share.uuid: share.card for share in spec.gpus if share.card})
        self._wait_for_room(spec.uuid)
        namespace = self._ensure_namespace(spec.gid, spec.logins)
        if self.config.storage is not None:
            prepare_files(spec, self.config.storage)
        looked_at = spec.looked_at
        if looked_at is None or time.monotonic() - looked_at > FRESH_S:
            looked_at = time.monotonic()
            if self._get_pod(self._ensure_namespace(), spec.uuid) is not None:
                return
        if spec.secrets:
            self._create_secret(spec, namespace)
        path = f"/api/v1/namespaces/{namespace}/pods"
        handled: tuple[NextStep, ...] = ("exists", "gone", "no_room", "reject")
        answer, made = self.api.call(
            "POST", path, pod, urgency=Urgency.CREATE, handles=handled, not_after=looked_at + FRESH_S
        )
        if answer.next_step == "gone":
            self._drop_namespace(namespace, answer.words)
        if answer.next_step == "exists":
            there = self._check_existing(spec, namespace)
            if spec.secrets and not secret_volume.has_secrets(there):  # a tombstone, which came before us
                self._delete_secret(namespace, spec.uuid)
        elif answer.next_step == "done" and spec.secrets:
            self._give_secret(made)
        elif answer.next_step in ("reject", "no_room") and self._get_pod(namespace, spec.uuid) is None:
            if spec.secrets:
                self._delete_secret(namespace, spec.uuid)
            raise (self._defer(spec.uuid, answer.words) if answer.next_step == "no_room" else Rejected(answer.words))
        self._no_room.pop(spec.uuid, None)
        self._namespaces[spec.uuid] = namespace

    def stop(self, uuid: str, grace_s: int, *, epoch: int, gid: int | None = None, unless_ran: bool = False) -> None:
        """Delete the task's pod, or leave a tombstone whose name stops a concurrent start.

        unless_ran: spare a task whose kubelet reported a start.
        """
        pods = self._find_pods(names.check_uuid(uuid))
        if not pods and not self._create_tombstone(uuid, epoch=epoch, gid=gid):
            pods = self._find_pods(uuid)
        for pod in pods:
            if views.has_ended(pod) or _is_forgotten(pod) or epoch < views.read_epoch(pod):
                continue
            if not unless_ran:
                self._stop_pod(pod, grace_s)
            elif not views.has_run(pod) and views.read_node(pod) not in self._silent_nodes():
                self._delete(pod, 1, version=pod["metadata"]["resourceVersion"])

    def resize(self, uuid: str, limits_mib: Mapping[str, int], *, serial: int) -> None:
        """Refuse: the kubelet accounts a container's original units until it ends."""
        raise Rejected("On Kubernetes a slice keeps the size that its container was given.")

    def open_report(self, uuid: str) -> int | None:
        storage = self.config.storage
        return None if storage is None else open_report_file(storage.reports, name_report(names.check_uuid(uuid)))

    def forget(self, uuid: str, *, mask: LogMask | None = None) -> None:
        for _ in range(TRIES):  # the kubelet may still update it
            pods = [pod for pod in self._find_pods(names.check_uuid(uuid)) if not _is_forgotten(pod)]
            if any(not views.has_ended(pod) for pod in pods):
                return
            if self.logs is not None:
                for pod in pods:
                    if over := mask or (None if secret_volume.has_secrets(pod) else NO_MASK):
                        fetch_log(self.api, pod, self.logs, over)
            for pod in pods:
                # One without a pod is left where a start was cut off, and a tombstone came before the next.
                if secret_volume.has_secrets(pod) or views.is_tombstone(pod):
                    self._delete_secret(pod["metadata"]["namespace"], uuid)
            if all(self._forget_pod(pod) for pod in pods):
                self._namespaces.pop(uuid, None)
                if self.config.storage is not None:
                    remove_report_file(self.config.storage.reports / name_report(uuid))
                return
        raise Unavailable(f"The pod {names.name_pod(uuid)} is changed by others all the time.")

    # beyond the contract

    @property
    def selector(self) -> str:
        return f"{names.LABEL_INSTALL}={self.config.install},!{names.LABEL_FORGOTTEN}"

    def build_views(self, pods: Iterable[Pod], silent: frozenset[str]) -> list[ContainerView]:
        """Return one view per task; pods override tombstones."""
        now, found, pods = steady_now(), {}, self._tasks_of(pods)
        pulls, known, self._settled = self._pulls.list_pulls(pods, now), self._settled, {}
        for pod in sorted(pods, key=lambda pod: not views.is_tombstone(pod)):
            uid = pod["metadata"]["uid"]
            before, view = known.get(uid, (None, None))
            if view is None or before is not pod or view.node in silent:
                since, asked = pulls.get(uid), uid in pulls
                may_fetch = not asked or since is not None
                view = views.build_view(pod, silent=silent, now=now, fetching_since=since, may_fetch=may_fetch)
                if not views.is_tombstone(pod):
                    self._namespaces[view.uuid] = pod["metadata"]["namespace"]
            if view.phase in SETTLED:
                self._settled[uid] = pod, view
            found[view.uuid] = view
        return list(found.values())

    def remove_finalizer(self, pod: Pod, labels: Mapping[str, str | None] = {}) -> bool:
        """Remove our finalizer from a pod, and set labels. False on a conflict."""
        kept = [each for each in pod["metadata"].get("finalizers", ()) if each != names.FINALIZER]
        return self._patch(pod, {"finalizers": kept, "labels": labels})

    def is_there(self, uuid: str) -> bool:
        return any(not _is_forgotten(pod) for pod in self._find_pods(names.check_uuid(uuid)))

    def sweep(self) -> int:
        """Delete pods forgotten long ago; return their groups' count."""
        install, now = f"{names.LABEL_INSTALL}={self.config.install}", _current_hour()
        kept = ",".join(map(str, range(now - KEPT_HOURS, now + AHEAD_HOURS + 1)))
        labels = f"{install},{names.LABEL_FORGOTTEN},{names.LABEL_FORGOTTEN} notin ({kept})"
        old = {
            (pod["metadata"]["namespace"], pod["metadata"]["labels"][names.LABEL_FORGOTTEN])
            for pod in self._tasks_of(self.api.list_all(ALL_PODS, labels=labels).items)
        }
        for namespace, hour in sorted(old):
            mark = f"{install},{names.LABEL_FORGOTTEN}={hour}"
            path = f"/api/v1/namespaces/{namespace}/pods"
            self.api.call("DELETE", path, query={"labelSelector": mark}, urgency=Urgency.DELETE, handles=("gone",))
        return len(old)

    # parts of start and stop

    def _ensure_namespace(self, gid: int | None = None, logins: tuple[RegistryLogin, ...] | None = None) -> str:
        """Set up and return a team's namespace, without gid the tombstones'. logins: of registries; None keeps them."""
        install = self.config.install
        namespace = names.name_tombstone_namespace(install) if gid is None else names.name_team_namespace(install, gid)
        with self._lock(namespace):
            if namespace not in self._ensured:
                ensure_namespace(self.api, self.config, gid)
                self._ensured.add(namespace)
            if gid is not None and logins is not None and self._logins.get(namespace) != logins:
                apply_logins(self.api, self.config, gid, logins)
                self._logins[namespace] = logins
        return namespace

    @contextmanager
    def _lock(self, what: str) -> Iterator[None]:
        """Lock by name. Raises Unavailable after LOCK_MOST_S."""
        lock = self._locks.setdefault(what, threading.Lock())
        if not lock.acquire(timeout=LOCK_MOST_S):
            raise Unavailable(f"Somebody else looks at {what}.")
        try:
            yield
        finally:
            lock.release()

    def _create_secret(self, spec: TaskSpec, namespace: str) -> None:
        """Create the task's Secret before its pod, which would wait for it. An earlier start may have done so."""
        secret = secret_volume.build_secret(spec, namespace, self.config.labels)
        path = f"/api/v1/namespaces/{namespace}/secrets"
        answer, _ = self.api.call("POST", path, secret, urgency=Urgency.CREATE, handles=("exists", "gone"))
        if answer.next_step == "gone":
            self._drop_namespace(namespace, answer.words)

    def _give_secret(self, pod: Pod) -> None:
        """Let the Secret go with its pod, should nobody forget it."""
        namespace = pod["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/secrets/{names.name_secret(views.read_task_uuid(pod))}"
        self.api.call("PATCH", path, secret_volume.build_owner(pod), content=MERGE_PATCH, handles=("gone",))

    def _delete_secret(self, namespace: str, uuid: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/secrets/{names.name_secret(uuid)}"
        self.api.call("DELETE", path, urgency=Urgency.DELETE, handles=("gone", "again", "no_right"))

    def _drop_namespace(self, namespace: str, words: str) -> NoReturn:
        """Forget a namespace that is gone, so that the next start makes it again."""
        self._ensured.discard(namespace)
        self._logins.pop(namespace, None)
        raise Unavailable(words)

    def _check_existing(self, spec: TaskSpec, namespace: str) -> Pod:
        """Handle a taken name: refuse a foreign pod; keep and return ours, marked if its spec differs."""
        name, asked = names.name_pod(spec.uuid), hash_spec(spec)
        for _ in range(TRIES):
            pod = self._get_pod(namespace, spec.uuid)
            if pod is None:
                raise Unavailable("A pod of this name was there a moment ago.")
            labels, notes = pod["metadata"].get("labels", {}), views.read_annotations(pod)
            if (labels.get(names.LABEL_TASK), labels.get(names.LABEL_INSTALL)) != (spec.uuid, self.config.install):
                log.error("the pod %s/%s is not ours and has a task's name", namespace, name)
                raise Rejected(f"Another pod is called {name} in {namespace}.")
            if notes.get(names.ANNOTATION_SPEC, asked) == asked or notes.get(names.ANNOTATION_DIFFERS) == asked:
                return pod  # or an older one without hash
            log.error("the pod %s/%s has a task's name and was asked to be something else", namespace, name)
            if self._patch(pod, {"annotations": {names.ANNOTATION_DIFFERS: asked}}):
                return pod
        raise Unavailable(f"The pod {name} in {namespace} is changed by others all the time.")

    def _stop_pod(self, pod: Pod, grace_s: int) -> None:
        cause, words = find_start_failure(pod, steady_now())
        if cause and not (cause == "refused_by_node" and self._pulls.is_pulling(pod)):
            note = json.dumps({"cause": cause, "detail": words})
            if not self._patch(pod, {"annotations": {names.ANNOTATION_END: note}}):
                raise Unavailable(f"The pod {pod['metadata']['name']} was changed by somebody else.")
        grace = grace_s + views.read_checkpoint_s(pod) if grace_s > 0 else 1  # 0 would not wait for the kubelet
        if views.is_terminating(pod) and pod["metadata"].get("deletionGracePeriodSeconds", 0) <= grace:
            return
        self._delete(pod, grace)

    def _delete(self, pod: Pod, grace_s: int, *, version: str = "") -> None:
        """version: delete only this resourceVersion."""
        fixed = {"uid": pod["metadata"]["uid"]} | ({"resourceVersion": version} if version else {})
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace_s, "preconditions": fixed}
        # "again": replaced or changed meanwhile
        self.api.call("DELETE", views.build_pod_path(pod), options, urgency=Urgency.DELETE, handles=("gone", "again"))

    def _create_tombstone(self, uuid: str, *, epoch: int, hour: str = "", gid: int | None = None) -> bool:
        """Create a tombstone, in the team's namespace if known. False if the name is taken."""
        end = {"cause": "never_started", "detail": ""}
        for namespace in [self._ensure_namespace(each) for each in dict.fromkeys((gid, None))]:
            tombstone = build_tombstone(uuid, self.config, namespace, epoch=epoch, end=end, hour=hour)
            path = f"/api/v1/namespaces/{namespace}/pods"
            own: tuple[NextStep, ...] = ("gone", "no_room", "reject") if gid is not None else ()
            answer, _ = self.api.call("POST", path, tombstone, urgency=Urgency.DELETE, handles=("exists", *own))
            if answer.next_step in ("done", "exists"):
                return answer.next_step == "done"
            if answer.next_step == "gone":
                self._ensured.discard(namespace)
        raise Unavailable(answer.words)

    def _forget_pod(self, pod: Pod) -> bool:
        """Forget a recorded pod. False on a conflict."""
        if views.is_terminating(pod):  # removing the finalizer frees its name
            self._create_tombstone(views.read_task_uuid(pod), epoch=views.read_epoch(pod), hour=str(_current_hour()))
        # without the gang label, as its DNS name would point to a reused address
        labels = {names.LABEL_FORGOTTEN: str(_current_hour()), names.LABEL_GANG: None}
        return self.remove_finalizer(pod, labels)

    def _patch(self, pod: Pod, meta: Mapping[str, Any]) -> bool:
        fixed = {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]}
        path, body = views.build_pod_path(pod), {"metadata": {**fixed, **meta}}
        answer, _ = self.api.call(
            "PATCH", path, body, content=MERGE_PATCH, urgency=Urgency.DELETE, handles=("gone", "again")
        )
        return answer.next_step != "again"

    def _find_pods(self, uuid: str) -> list[Pod]:
        hint = self._namespaces.get(uuid)
        if hint is not None and (pod := self._get_pod(hint, uuid)) is not None:
            return [pod]
        labels = f"{names.LABEL_INSTALL}={self.config.install},{names.LABEL_TASK}={uuid}"
        return self._tasks_of(self.api.list_all(ALL_PODS, labels=labels).items)

    def _tasks_of(self, pods: Iterable[Pod]) -> list[Pod]:
        return [pod for pod in pods if views.is_task(pod, self.config.install)]

    def _get_pod(self, namespace: str, uuid: str) -> Thing | None:
        path = f"/api/v1/namespaces/{namespace}/pods/{names.name_pod(uuid)}"
        answer, pod = self.api.call("GET", path, handles=("gone",))
        return pod if answer.next_step == "done" else None

    # nodes, cached for seconds

    def _check_node(self, node: str) -> None:
        """Raise NodeRefused if the node is missing; a list must confirm a 404."""
        with self._lock(f"the node {node}"):
            if time.monotonic() - self._nodes.get(node, float("-inf")) > READ_NODES_EVERY_S:
                answer, _ = self.api.call("GET", f"{ALL_NODES}/{quote(node, safe='')}", handles=("gone",))
                if answer.next_step == "gone" and node not in (each["metadata"]["name"] for each in self._read_nodes()):
                    raise NodeRefused(f"There is no node {node}.")
                self._nodes[node] = time.monotonic()

    def _read_nodes(self) -> list[Thing]:
        return self.api.list_all(ALL_NODES, labels=self.node_labels).items

    def _silent_nodes(self) -> frozenset[str]:
        at, silent = self._silent
        if time.monotonic() - at > READ_NODES_EVERY_S or not at:
            silent = frozenset(node["metadata"]["name"] for node in self._read_nodes() if is_silent(node))
            self._silent = (time.monotonic(), silent)
        return silent

    # quotas

    def _wait_for_room(self, uuid: str) -> None:
        not_before, _ = self._no_room.get(uuid, (0.0, 0.0))
        if time.monotonic() < not_before:
            raise Unavailable("The quota of its namespace refused this task lately.")

    def _defer(self, uuid: str, words: str) -> Unavailable:
        _, waited = self._no_room.get(uuid, (0.0, 0.0))
        rest = min(max(waited * 2, ROOM_FIRST_S), ROOM_MOST_S)
        self._no_room[uuid] = (time.monotonic() + rest * random.uniform(0.8, 1.2), rest)  # noqa: S311 - jitter
        return Unavailable(words)


def _is_forgotten(pod: Pod) -> bool:
    return names.LABEL_FORGOTTEN in pod["metadata"].get("labels", {})


def _current_hour() -> int:
    return int(steady_time() // 3600)
