"""Reflectors of pods and nodes, and the view of all tasks built from their caches.

Each watches forever and only reports its age: the user decides when it is stale. Periodic lists in another thread find
missed events.
"""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.client import ApiServer, Expired, Listed
from runtimes.kubernetes.cluster.nodes import is_silent
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.views import read_annotations
from runtimes.kubernetes.runtime import ALL_NODES, ALL_PODS, KubernetesRuntime
from runtimes.kubernetes.watch.checkpoint_watch import CheckpointWatch
from runtimes.kubernetes.watch.informer_cache import Backoff, InformerCache, Thing

log = logging.getLogger("tessera.kubernetes")

CHECK_EVERY_S = 300.0
WATCH_LEAST_S, WATCH_MOST_S = 12, 18
SILENCE_S = 22.0
"""Seconds of silence after which a watch counts as broken; the server sends a bookmark shortly before it ends one.
Nothing is missed: the next watch continues from the same version.
"""
BEHIND_S = 60.0
"""Seconds that events may lag a list made beside them; bookmarks alone come four times as often."""
LOOK_S = 0.1
SHORT_S = 1.0
"""A watch that ends sooner without an event is a failure."""


class Reflector:
    """Keeps one informer cache current in threads of its own."""

    def __init__(
        self,
        kind: str,
        api: ApiServer,
        path: str,
        labels: str,
        trim: Callable[[Thing], Thing],
        changed: threading.Event,
        *,
        dice: random.Random | None = None,
        check_every_s: float = CHECK_EVERY_S,
        behind_s: float = BEHIND_S,
        silence_s: float = SILENCE_S,
    ):
        self.kind, self.restarts = kind, Counter[str]()
        self._api, self._path, self._labels = api, path, labels
        self._cache, self._changed = InformerCache(trim), changed
        self._dice = dice or random.Random()  # noqa: S311 - jitter is no secret
        self._backoff = Backoff(self._dice)
        self._check_every_s, self._behind_s, self._silence_s = check_every_s, behind_s, silence_s
        self._contact_at = time.monotonic()
        self._listed = False
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._threads = [
            threading.Thread(target=act, name=f"{name}-{kind}", daemon=True)
            for name, act in (("follow", self._run), ("check", self._check))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop without waiting: a read may hang."""

        self._ended.set()

    def age_s(self) -> float:
        return time.monotonic() - self._contact_at

    def list_objects(self) -> list[Thing]:
        """Raise Unavailable before the first list."""
        with self._lock:
            if not self._cache.synced:
                raise Unavailable(f"The {self.kind} of the cluster are not known yet.")
            return list(self._cache.things.values())

    def _run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                if not self._listed:
                    self._list()
                self._watch()
                continue
            except Expired as words:
                self._listed, reason = False, "expired"
                log.info("the version of %s is too old: %s", self.kind, words)
            except Unavailable as away:
                reason = "unavailable"
                log.warning("%s are not followed for the moment: %s", self.kind, away)
            except Exception:
                # An unreadable answer must not end this thread.
                self._listed, reason = False, "unreadable"
                log.exception("%s cannot be followed", self.kind)
            self.restarts[reason] += 1
            self._ended.wait(self._backoff.failed(time.monotonic() - began))

    def _list(self) -> None:
        listed = self._api.list_all(self._path, labels=self._labels, trim=self._cache.trim)
        with self._lock:
            known = self._cache.synced
            changed = self._cache.replace(listed)
        if known and changed:
            self.restarts["missed"] += len(changed)
        self._listed = True
        self._record_contact()
        self._changed.set()

    def _watch(self) -> None:
        began, has_events = time.monotonic(), False
        seconds = round(self._dice.uniform(WATCH_LEAST_S, WATCH_MOST_S))
        events = self._api.watch(
            self._path, labels=self._labels, version=self._cache.version, seconds=seconds, silence_s=self._silence_s
        )
        for event in events:
            with self._lock:
                changed = self._cache.apply(event)
            has_events = True
            self._record_contact()
            if changed:
                self._changed.set()
            if self._ended.is_set():
                return
        self.restarts["ended"] += 1
        if not has_events and time.monotonic() - began < SHORT_S:
            raise Unavailable("The watch ended at once.")

    def _check(self) -> None:
        while not self._ended.wait(self._check_every_s):
            try:
                if not self._is_complete():
                    self._listed = False  # the open watch ends within seconds
            except Unavailable as away:
                log.info("%s are not checked for the moment: %s", self.kind, away)
            except Exception:
                log.exception("%s cannot be checked", self.kind)

    def _is_complete(self) -> bool:
        """Return whether a fresh list holds nothing that events missed. Raises Unavailable."""
        with self._lock:
            if not self._cache.synced:
                return True
            self._cache.begin_check()
        listed = self._api.list_versions(self._path, labels=self._labels)
        until = time.monotonic() + self._behind_s
        while self._is_behind(listed):
            if self._ended.wait(LOOK_S):
                return True
            if time.monotonic() > until:
                log.warning("%s are behind a list of %.0f s ago: they are listed anew", self.kind, self._behind_s)
                return False
        with self._lock:
            missed = self._cache.find_missed(listed)
        if missed:
            log.warning("of %d %s no event told, such as %s: they are listed anew", len(missed), self.kind, min(missed))
        return not missed

    def _is_behind(self, listed: Listed) -> bool:
        with self._lock:
            return self._cache.is_behind(listed)

    def _record_contact(self) -> None:
        self._contact_at = time.monotonic()
        self._backoff.succeeded()


class ClusterView:
    """The current state of an installation's tasks in its cluster. A context manager."""

    def __init__(self, runtime: KubernetesRuntime):
        self._runtime, self._changed = runtime, threading.Event()
        api = runtime.api
        self.pods = Reflector("pods", api, ALL_PODS, runtime.selector, trim_pod, self._changed)
        self.nodes = Reflector("nodes", api, ALL_NODES, runtime.node_labels, trim_node, self._changed)
        storage, list_pods = runtime.config.storage, self.pods.list_objects
        self.checkpoints = CheckpointWatch(storage.files / "home", list_pods, self._changed) if storage else None

    def __enter__(self) -> "ClusterView":
        for reflector in self._reflectors():
            reflector.start()
        return self

    def __exit__(self, *_: object) -> None:
        for reflector in self._reflectors():
            reflector.end()

    def _reflectors(self) -> list[Reflector | CheckpointWatch]:
        return [self.pods, self.nodes, *([self.checkpoints] if self.checkpoints else [])]

    def list_containers(self) -> list[ContainerView]:
        """Raise Unavailable before the first lists."""
        silent = frozenset(node["metadata"]["name"] for node in self.nodes.list_objects() if is_silent(node))
        views, checkpoints = self._runtime.build_views(self.pods.list_objects(), silent), self.checkpoints
        if checkpoints is None:
            return views
        saved = {
            one.uuid: at for one in views if one.checkpointed_at is None and (at := checkpoints.newest_of(one.uuid))
        }
        return [replace(one, checkpointed_at=saved[one.uuid]) if one.uuid in saved else one for one in views]

    def is_there(self, uuid: str) -> bool:
        return self._runtime.is_there(uuid)

    def wait(self, seconds: float) -> bool:
        changed = self._changed.wait(seconds)
        self._changed.clear()
        return changed

    def age_s(self) -> float:
        return max(self.pods.age_s(), self.nodes.age_s())

    def tidy(self) -> None:
        self._runtime.sweep()

    def measures(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for reflector in (self.pods, self.nodes):
            kind = f'kind="{reflector.kind}"'
            found[f"tessera_view_age_seconds{{{kind}}}"] = reflector.age_s()
            for reason, count in reflector.restarts.items():
                found[f'tessera_watch_restarts_total{{{kind},reason="{reason}"}}'] = count
        with self._runtime.api.counts.lock:
            for (verb, status), count in self._runtime.api.counts.requests.items():
                found[f'tessera_kube_requests_total{{verb="{verb}",code="{status}"}}'] = count
        return found


META = (
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "finalizers", "labels",
)  # fmt: skip
STATUS = ("phase", "reason", "message", "startTime", "podIP")
CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")


def trim_pod(pod: Thing) -> Thing:
    """Keep only fields that are read, since ten thousand pods are cached."""
    status, notes = pod.get("status", {}), read_annotations(pod)
    own = {name: text for name, text in notes.items() if not name.startswith(names.ANNOTATION_FILE)}
    conditions = [_pick(each, CONDITION) for each in status.get("conditions", ())]
    states = [_pick(each, ("state",)) for each in status.get("containerStatuses", ())]
    return {
        "metadata": {**_pick(pod["metadata"], META), "annotations": own},
        "spec": _pick(pod["spec"], ("nodeName", "schedulingGates")),
        "status": {**_pick(status, STATUS), "conditions": conditions, "containerStatuses": states},
    }


def trim_node(node: Thing) -> Thing:
    conditions = [each for each in node["status"].get("conditions", ()) if each["type"] == "Ready"]
    meta = {name: node["metadata"][name] for name in ("name", "uid", "resourceVersion")}
    return {"metadata": meta, "spec": {}, "status": {"conditions": conditions}}


def _pick(thing: Thing, wanted: Iterable[str]) -> Thing:
    return {name: thing[name] for name in wanted if name in thing}
