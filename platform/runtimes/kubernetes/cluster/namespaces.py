"""Create and update teams' locked-down namespaces by server-side apply."""

import base64
import json
import time
from collections.abc import Iterable

from runtimes.contract.errors import Rejected
from runtimes.images.names import DEFAULT_REGISTRY, RegistryLogin
from runtimes.kubernetes.api.client import APPLY_PATCH, ApiServer
from runtimes.kubernetes.cluster.network_policy import build_network_policy
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.files_volume import Storage
from runtimes.kubernetes.pods.manifest import InstallConfig

OLD_NAME = "index.docker.io"
RBAC = "rbac.authorization.k8s.io"


def ensure_namespace(api: ApiServer, config: InstallConfig, gid: int | None) -> None:
    """Set up a team's namespace, or without gid that of the tombstones. Raises Rejected if it is not ours."""
    if gid is None:
        _ensure(api, config, build_namespace(names.name_tombstone_namespace(config.install), config, {}))
        return
    name = names.name_team_namespace(config.install, gid)
    things = build_namespace(name, config, {names.LABEL_TEAM: str(gid)})
    _ensure(api, config, [*things, *build_network_policies(name, config), build_gang_service(name, config)])
    if config.storage is not None:
        # Not applied: a claim is immutable.
        claims = f"/api/v1/namespaces/{name}/persistentvolumeclaims"
        api.call("POST", claims, build_claim(name, config, config.storage), handles=("exists",))


def apply_logins(api: ApiServer, config: InstallConfig, gid: int, logins: Iterable[RegistryLogin]) -> None:
    """Replace the Secret with a team's registry logins, read only by kubelets."""
    _apply(api, build_logins(names.name_team_namespace(config.install, gid), config, logins))


def build_logins(name: str, config: InstallConfig, logins: Iterable[RegistryLogin]) -> dict:
    """Return the image pull Secret. Kubelets look up docker.io by its older name, too.

    Source: Kubernetes' "Pull an Image from a Private Registry".
    """
    known = {each.registry: _encode_login(each) for each in logins}
    if DEFAULT_REGISTRY in known:
        known |= {OLD_NAME: known[DEFAULT_REGISTRY]}
    text = json.dumps({"auths": {registry: {"auth": auth} for registry, auth in sorted(known.items())}})
    data = {".dockerconfigjson": base64.b64encode(text.encode()).decode()}
    rest = {"type": "kubernetes.io/dockerconfigjson", "data": data}
    return _build_object("v1", "Secret", names.LOGINS, name, config, rest)


def _encode_login(login: RegistryLogin) -> str:
    return base64.b64encode(f"{login.user}:{login.password}".encode()).decode()


def build_namespace(name: str, config: InstallConfig, labels: dict[str, str]) -> list[dict]:
    """Return the namespace with Pod Security `restricted`, and its account without rights or token."""
    security = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    version = {"pod-security.kubernetes.io/enforce-version": "latest"}
    meta = {"name": name, "labels": {**config.labels, **security, **version, **labels}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": meta},
        *_build_role_binding(name, config),
        _build_object("v1", "ServiceAccount", "default", name, config, {"automountServiceAccountToken": False}),
    ]


def _build_role_binding(name: str, config: InstallConfig) -> list[dict]:
    if not config.account:
        return []
    namespace, _, account = config.account.partition(":")
    rights = {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{config.install}-team"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    return [_build_object(f"{RBAC}/v1", "RoleBinding", config.install, name, config, rights)]


def build_network_policies(name: str, config: InstallConfig) -> list[dict]:
    policy = build_network_policy(config.install, config.private)
    nothing = {"services.nodeports": "0", "services.loadbalancers": "0", "requests.nvidia.com/gpu": "0"}
    return [
        _build_object("networking.k8s.io/v1", "NetworkPolicy", "tessera", name, config, {"spec": policy}),
        _build_object("v1", "ResourceQuota", "tessera", name, config, {"spec": {"hard": nothing}}),
    ]


def build_gang_service(name: str, config: InstallConfig) -> dict:
    """Return the headless Service that names gang pods `t-<uuid>.tasks`, ready or not."""
    selector = {names.LABEL_INSTALL: config.install, names.LABEL_GANG: "yes"}
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    return _build_object("v1", "Service", names.GANG_SERVICE, name, config, {"spec": spec})


def build_claim(name: str, config: InstallConfig, storage: Storage) -> dict:
    """Return the team's claim on the shared volume: pods mount claims of their own namespace only."""
    asked = {
        "accessModes": [storage.access],
        "storageClassName": storage.storage_class,
        "resources": {"requests": {"storage": storage.size}},
    }
    return _build_object("v1", "PersistentVolumeClaim", names.name_claim(config.install), name, config, {"spec": asked})


def _build_object(version: str, kind: str, name: str, namespace: str, config: InstallConfig, rest: dict) -> dict:
    meta = {"name": name, "namespace": namespace, "labels": config.labels}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **rest}


TRIES, RIGHTS_S = 5, 0.2


def _ensure(api: ApiServer, config: InstallConfig, objects: list[dict]) -> None:
    """Raise Rejected if another installation has a namespace of that name."""
    name = objects[0]["metadata"]["name"]
    answer, found = api.call("GET", f"/api/v1/namespaces/{name}", handles=("gone",))
    if answer.next_step == "done" and found["metadata"].get("labels", {}).get(names.LABEL_INSTALL) != config.install:
        raise Rejected(f"The namespace {name} is not of this installation: choose another TESSERA_INSTALL.")
    for each in objects:
        _apply(api, each)


def _apply(api: ApiServer, thing: dict) -> None:
    """Apply, retrying refusals: a new RoleBinding takes a moment to work."""
    query = {"fieldManager": names.MANAGER, "force": "true"}
    for more in range(TRIES - 1, -1, -1):
        answer, _ = api.call(
            "PATCH", _build_path(thing), thing, query=query, content=APPLY_PATCH, handles=("no_right",) if more else ()
        )
        if answer.next_step == "done":
            return
        time.sleep(RIGHTS_S)


def _build_path(thing: dict) -> str:
    version, meta = thing["apiVersion"], thing["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    plural = f"{thing['kind'].lower()}s".replace("ys", "ies")
    return f"{root}{inside}/{plural}/{meta['name']}"
