"""Doctor's checks of a cluster: version, rights, admission, storage, network."""

import os
import re
import socket
import time
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

from kubernetes.client import (
    AuthenticationV1Api,
    AuthorizationV1Api,
    StorageV1Api,
    V1ResourceAttributes,
    V1SelfSubjectAccessReview,
    V1SelfSubjectAccessReviewSpec,
    V1SelfSubjectReview,
    VersionApi,
)
from ruamel.yaml import YAML

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.runtime import Finding, Tone
from runtimes.kubernetes.api.client import JSON, MERGE_PATCH, Gone, NoRight, Thing
from runtimes.kubernetes.cluster.nodes import is_ready
from runtimes.kubernetes.cluster.probe_pod import build_probe, run_probe
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.causes import read_time
from runtimes.kubernetes.pods.files_volume import Storage
from runtimes.kubernetes.pods.views import is_task, read_annotations
from runtimes.kubernetes.runtime import ALL_NODES, ALL_PODS, KubernetesRuntime
from runtimes.kubernetes.watch.informer_cache import build_key

RIGHTS = Path(__file__).resolve().parents[4] / "deploy/kubernetes/rights.yaml"
APPLY = "Apply deploy/kubernetes/rights.yaml and admission.yaml, or upgrade the Helm release."
OLDEST = (1, 30)
"""Oldest API server: ValidatingAdmissionPolicy is on by default since then."""
CDI_SURE, CDI_MAYBE = (2, 0), (1, 7)
"""containerd versions: CDI on by default, and CDI behind a setting."""
CLOCK_NOTE_S, CLOCK_BAD_S = 5, 60
VERSION = re.compile(r"v?(\d+)\.(\d+)")


def examine(runtime: KubernetesRuntime, teams: Iterable[int], probe: bool) -> Iterator[Finding]:
    """Yield findings in order of dependency until the cluster fails to answer.

    teams: gids whose namespaces are checked. probe: may start a pod in one.
    """
    try:
        team = _find_namespace(runtime, (names.name_team_namespace(runtime.config.install, gid) for gid in teams))
        yield _check_server(runtime)
        yield _check_account(runtime)
        yield from _check_nodes(runtime)
        yield _check_clock(runtime)
        yield from _check_rights(runtime, team)
        yield _check_admission(runtime, team)
        yield _check_files(runtime.config.storage)
        if runtime.config.storage is not None:
            yield _check_storage_class(runtime, runtime.config.storage.storage_class)
        yield from _check_impostors(runtime)
        yield from _check_dns()
        yield from _check_network(runtime, team, probe)
    except (Unavailable, Rejected) as away:
        words = f"It does not answer as it should: {away}"
        yield Finding("cluster", "bad", words, "Look at KUBECONFIG and the network.")


def _check_server(runtime: KubernetesRuntime) -> Finding:
    version = runtime.api.typed(VersionApi).get_code().git_version
    words = f"The API server is {version}."
    if _version(version) < OLDEST:
        return Finding("server", "bad", words, f"Upgrade it to {OLDEST[0]}.{OLDEST[1]} or newer.")
    return Finding("server", "ok", words)


def _check_account(runtime: KubernetesRuntime) -> Finding:
    review = runtime.api.typed(AuthenticationV1Api).create_self_subject_review(V1SelfSubjectReview())
    name = review.status.user_info.username
    if not runtime.config.account:
        remedy = "For production run it as the account of rights.yaml and set TESSERA_KUBERNETES_ACCOUNT."
        return Finding("account", "note", f"We are {name}, and give ourselves no rights of our own.", remedy)
    if name != f"system:serviceaccount:{runtime.config.account}":
        remedy = "Set TESSERA_KUBERNETES_ACCOUNT to the namespace:name of the account that we run as."
        return Finding("account", "bad", f"We are {name} and not {runtime.config.account}.", remedy)
    return Finding("account", "ok", f"We are {name}.")


def _check_nodes(runtime: KubernetesRuntime) -> Iterator[Finding]:
    found = runtime.api.list_all(ALL_NODES, labels=runtime.node_labels).items
    ready = [node for node in found if is_ready(node)]
    words = f"{len(ready)} of {len(found)} machines are ready."
    remedy = "" if ready else "Look at `kubectl get nodes`, and at TESSERA_NODES, which selects ours."
    yield Finding("nodes", "ok" if ready else "bad", words, remedy)
    serving = [node for node in ready if _serves_cards(node)]
    if serving:
        yield Finding("cards", "ok", f"{len(serving)} machines serve their cards one by one.")
        yield _check_cdi(serving)
    else:
        words = "No machine serves its cards one by one (tessera.sh/g-0), so no job gets one."
        yield Finding("cards", "note", words, "Run the agent on each machine with GPUs: docs/install.md.")


def _check_cdi(serving: list[Thing]) -> Finding:
    """Check for CDI, which injects cards; no runtime class or NRI is needed."""
    told = {node["metadata"]["name"]: node["status"]["nodeInfo"]["containerRuntimeVersion"] for node in serving}
    versions = {name: _version(text) for name, text in told.items() if text.startswith("containerd://")}
    old = [name for name, version in versions.items() if version < CDI_MAYBE]
    unsure = [name for name, version in versions.items() if CDI_MAYBE <= version < CDI_SURE]
    if old:
        return Finding("cdi", "bad", f"containerd is too old for CDI on {_join(old)}.", "Upgrade it to 2.0 or newer.")
    if unsure:
        words = f"containerd on {_join(unsure)} reads CDI only where its settings say so."
        remedy = "In its settings set enable_cdi = true, or upgrade it to 2.0, and restart it."
        return Finding("cdi", "note", words, remedy)
    return Finding("cdi", "ok", "The machines' container runtimes read CDI. No runtime class and no NRI is needed.")


def _check_clock(runtime: KubernetesRuntime) -> Finding:
    """Compare clocks by a dry-run namespace's creation time (whole seconds)."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    thing = {"metadata": {"name": names.name_team_namespace(runtime.config.install, 0), "labels": labels}}
    answer, told = runtime.api.call("POST", "/api/v1/namespaces", thing, query={"dryRun": "All"}, handles=("no_right",))
    there = read_time(told["metadata"]["creationTimestamp"]) if answer.next_step == "done" else None
    if there is None:
        return Finding("clock", "note", "The clocks could not be compared without the right to make namespaces.", APPLY)
    apart = abs(time.time() - there.timestamp())
    remedy = "" if apart < CLOCK_NOTE_S else "Let a time service (chrony) set the clocks of all machines."
    tone: Tone = "ok" if apart < CLOCK_NOTE_S else "note" if apart < CLOCK_BAD_S else "bad"
    return Finding("clock", tone, f"The API server's clock and ours are {apart:.0f} s apart.", remedy)


def _check_rights(runtime: KubernetesRuntime, team: str | None) -> Iterator[Finding]:
    """Check rights cluster-wide and in a team's namespace, or else in the tombstones'."""
    place = team or _find_namespace(runtime, [names.name_tombstone_namespace(runtime.config.install)])
    yield _check_rights_in(runtime, "everywhere", "", "everywhere")
    if place is None:
        yield Finding("rights", "note", "The rights in a team's namespace can be looked at when a team has run a job.")
    else:
        yield _check_rights_in(runtime, "team", place, f"in {place}")


def _check_rights_in(runtime: KubernetesRuntime, role: str, namespace: str, where: str) -> Finding:
    asks = list(_list_rights(runtime.config.install, role))
    inside = {"namespace": namespace} if namespace else {}
    if missing := [words for words, ask in asks if not _has_right(runtime, ask | inside)]:
        return Finding("rights", "bad", f"We may not {', '.join(missing)} {where}.", APPLY)
    return Finding("rights", "ok", f"We may do all that we need {where} ({len(asks)} rights).")


def _list_rights(install: str, role: str) -> Iterator[tuple[str, dict[str, str]]]:
    for thing in YAML(typ="safe").load_all(RIGHTS):
        if thing and thing["kind"] == "ClusterRole" and thing["metadata"]["name"] == f"tessera-{role}":
            for rule in thing["rules"]:
                for group, full, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                    resource, _, part = full.partition("/")
                    ask = {"verb": verb, "group": group, "resource": resource, "subresource": part}
                    if named := rule.get("resourceNames"):
                        ask["name"] = named[0].replace("tessera", install)
                    yield f"{verb} {full}", ask


def _has_right(runtime: KubernetesRuntime, ask: dict[str, str]) -> bool:
    asked = V1SelfSubjectAccessReviewSpec(resource_attributes=V1ResourceAttributes(**ask))
    reviews = runtime.api.typed(AuthorizationV1Api)
    return reviews.create_self_subject_access_review(V1SelfSubjectAccessReview(spec=asked)).status.allowed


def _check_admission(runtime: KubernetesRuntime, team: str | None) -> Finding:
    """Check that admission policies refuse us forbidden changes (dry runs); they bind only our account."""
    if not runtime.config.account:
        return Finding("admission", "note", "The rules of admission are for our own account: not looked at.")
    change: Thing = {"metadata": {"labels": {}}}
    found = {"change the namespaces of others": _is_refused(runtime, "PATCH", "/api/v1/namespaces/default", change)}
    if team:
        hostile = build_probe(runtime.config, team)
        hostile["spec"]["schedulerName"] = "another"
        path = f"/api/v1/namespaces/{team}/pods"
        found["make a task that no job may be"] = _is_refused(runtime, "POST", path, hostile)
    if allowed := [what for what, is_refused in found.items() if not is_refused]:
        return Finding("admission", "bad", f"The API server would let us {' and '.join(allowed)}.", APPLY)
    return Finding("admission", "ok", f"The API server does not let us {' or '.join(found)}.")


def _is_refused(runtime: KubernetesRuntime, verb: str, path: str, body: Thing) -> bool:
    content, dry = MERGE_PATCH if verb == "PATCH" else JSON, {"dryRun": "All"}
    answer, _ = runtime.api.call(verb, path, body, query=dry, content=content, handles=("reject", "no_right"))
    return answer.next_step != "done"


def _check_impostors(runtime: KubernetesRuntime) -> Iterator[Finding]:
    """Report pods with our labels that are no tasks, and tasks whose pod has another spec."""
    install = runtime.config.install
    pods = runtime.api.list_all(ALL_PODS, labels=f"{names.LABEL_INSTALL}={install}").items
    if found := sorted(build_key(pod) for pod in pods if not is_task(pod, install)):
        words = f"{_join(found)} bear our label {names.LABEL_INSTALL}={install} and are no tasks: they are left alone."
        remedy = "Find out who made them. Take the label off, or delete them, with kubectl."
        yield Finding("strangers", "bad", words, remedy)
    others = [pod for pod in pods if is_task(pod, install) and names.ANNOTATION_DIFFERS in read_annotations(pod)]
    if others:
        which = _join(sorted(map(_describe_pod, others)))
        words = f"The pod {which} is not what its task was asked to be. It goes on, and counts as the task."
        remedy = "Look at what it runs, and who made it (kubectl). Stop the job where it is not what its owner wants."
        yield Finding("strangers", "bad", words, remedy)


def _describe_pod(pod: Thing) -> str:
    return f"{build_key(pod)} ({read_annotations(pod).get(names.ANNOTATION_LABEL, 'of nobody')})"


def _check_files(storage: Storage | None) -> Finding:
    if storage is None:
        remedy = "Set TESSERA_STORAGE_CLASS to a class whose claims are all one directory: docs/install.md."
        words = "Jobs have no homes, folders and code here: no class of volumes is named."
        return Finding("files", "note", words, remedy)
    if not os.access(storage.root, os.W_OK):
        remedy = "Mount the volume there, and let our account write it."
        return Finding("files", "bad", f"We cannot write {storage.root}, where the volume of files should be.", remedy)
    words = f"Files are at {storage.root}, and claims of the class {storage.storage_class} see them."
    return Finding("files", "ok", words)


def _check_storage_class(runtime: KubernetesRuntime, name: str) -> Finding:
    try:
        found = runtime.api.typed(StorageV1Api).read_storage_class(name)
    except Gone:
        remedy = "Make it, or name another one as TESSERA_STORAGE_CLASS: docs/admin.md, On Kubernetes."
        return Finding("files", "bad", f"There is no class of volumes {name}: no job starts that has files.", remedy)
    except NoRight:
        return Finding("files", "note", f"Whether there is a class of volumes {name} could not be looked at.", APPLY)
    if (found.reclaim_policy or "Delete") == "Delete":
        words = f"A volume of the class {name} is deleted with its claim, as when a team's namespace is deleted."
        return Finding("files", "note", words, "Set its reclaim policy to Retain, unless its provisioner keeps files.")
    return Finding("files", "ok", f"The class of volumes {name} keeps a volume when its claim goes.")


def _check_dns() -> Iterator[Finding]:
    if "KUBERNETES_SERVICE_HOST" in os.environ and not os.environ.get("KUBECONFIG"):
        try:
            socket.getaddrinfo("kubernetes.default.svc", 443)
            yield Finding("dns", "ok", "Names of services are known here.")
        except OSError as why:
            words = f"kubernetes.default.svc is not known here: {why}."
            yield Finding("dns", "bad", words, "Look at the cluster's DNS.")


def _check_network(runtime: KubernetesRuntime, team: str | None, probe: bool) -> Iterator[Finding]:
    """Check network policies by real connections: plugins may ignore them."""
    if probe and team:
        yield from run_probe(runtime.api, runtime.config, team)
    else:
        how = "Ask with --probe." if team else "Let a team run a job first, and ask with --probe."
        yield Finding("network", "note", "Whether network policies are enforced was not tried: that takes a pod.", how)


def _find_namespace(runtime: KubernetesRuntime, among: Iterable[str]) -> str | None:
    for name in among:
        answer, _ = runtime.api.call("GET", f"/api/v1/namespaces/{name}", handles=("gone",))
        if answer.next_step == "done":
            return name
    return None


def _serves_cards(node: Thing) -> bool:
    return any(name.startswith(names.CARD_PREFIX) for name in node["status"].get("allocatable", {}))


def _version(text: str) -> tuple[int, int]:
    found = VERSION.search(text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _join(given: list[str]) -> str:
    return ", ".join(given[:3]) + (f" and {len(given) - 3} more" if len(given) > 3 else "")
