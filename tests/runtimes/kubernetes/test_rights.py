"""The least rights are enough for all that the platform does, and the three rules of admission hold for everybody."""

import asyncio
import copy
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from runtimes.contract.errors import Unavailable
from runtimes.contract.task import TaskSecret
from runtimes.images.names import RegistryLogin
from runtimes.kubernetes.access.pod_access import KubernetesAccess
from runtimes.kubernetes.api.client import MERGE_PATCH, ApiServer
from runtimes.kubernetes.api.credentials import CredentialSource
from runtimes.kubernetes.cluster.namespaces import build_network_policies, ensure_namespace
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.manifest import InstallConfig, build_pod
from runtimes.kubernetes.runtime import KubernetesRuntime
from tests.runtimes.kubernetes.hostile import hostile_changes
from tests.runtimes.kubernetes.specs import CARDS, MODES, STORAGE, TASKS, WITH_FILES
from tests.runtimes.kubernetes.world import KubernetesWorld, wait_slowly

pytestmark = pytest.mark.kubernetes
BESIDE_OTHERS = True
MANIFESTS = Path(__file__).resolve().parents[3] / "deploy/kubernetes"
PLURALS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


def manifests(install: str) -> list[dict]:
    """As an admin makes them for another installation: its name in the place of ours, but not in `tessera.sh`."""
    text = "\n---\n".join((MANIFESTS / name).read_text() for name in ("rights.yaml", "admission.yaml"))
    text = re.sub(r"(?<![\w./])tessera(?!\.sh|-system)\b", install, text).replace("tessera-system", f"{install}-system")
    return [thing for thing in yaml.safe_load_all(text) if thing]


PRIVATE = ("10.20.0.0/16", "10.1.2.3:443", "[fd00::5]:443")


class Platform:
    """The platform's own account in a cluster, made from the files that an admin applies."""

    def __init__(self, world: KubernetesWorld):
        self.world, self.admin = world, world.api
        self.folder = tempfile.TemporaryDirectory()
        self.install = world.runtime.config.install
        self.things = manifests(self.install)
        for thing in self.things:
            self.admin.call("POST", self.where(thing), thing)
        self.namespace = f"{self.install}-system"
        self.api = ApiServer(self.source(), per_s=200, burst=400)
        account = f"{self.namespace}:{self.install}"
        options = {"install": self.install, "image": world.options["image"], "account": account, "private": PRIVATE}
        self.runtime = KubernetesRuntime(**options, api=self.api, tolerated=world.options["tolerated"])

    def where(self, thing: dict) -> str:
        return PLURALS[thing["kind"]].format(namespace=thing["metadata"].get("namespace", ""))

    def source(self) -> CredentialSource:
        """A token of the platform's account is all that it shows: the admin's certificate is left out."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.install}/token"
        _, answer = self.admin.call("POST", path, body)
        known = Path(self.world.options["kubeconfig"])
        config = yaml.safe_load(known.read_text())
        if authority := config["clusters"][0]["cluster"].get("certificate-authority"):
            config["clusters"][0]["cluster"]["certificate-authority"] = str(known.parent / authority)
        config["users"][0]["user"] = {"token": answer["status"]["token"]}
        kubeconfig = Path(self.folder.name, "kubeconfig")
        kubeconfig.write_text(yaml.safe_dump(config))
        return CredentialSource(kubeconfig)

    def send(self, *, outer=(), inner=(), as_admin=False) -> str:
        """What the server says against this change of an ordinary task's pod, "" where it takes it. Nothing is made."""
        pod = copy.deepcopy(build_pod(TASKS["a_quarter"], self.runtime.config, CARDS))
        pod["spec"] |= dict(outer)
        pod["spec"]["containers"][0] |= dict(inner)
        path = f"/api/v1/namespaces/{names.name_team_namespace(self.install, 20000)}/pods"
        api = self.admin if as_admin else self.api
        handled = ("reject", "no_right", "no_room", "unknown")
        answer, _ = api.call("POST", path, pod, query={"dryRun": "All"}, handles=handled)
        return answer.words

    def with_files(self) -> dict:
        claim = {"claimName": names.name_claim(self.install)}
        return {"volumes": [*EMPTY, {"name": "files", "persistentVolumeClaim": claim}]}

    def close(self):
        self.api.close()
        self.folder.cleanup()
        for thing in reversed(self.things):
            self.admin.call("DELETE", f"{self.where(thing)}/{thing['metadata']['name']}", handles=("gone", "again"))


@pytest.fixture(scope="module")
def platform(world):
    platform = Platform(world)
    try:
        # A policy takes effect a moment after it is made: when a pod that it refuses is refused.
        platform.runtime.start(world.spec("true"))
        wait_slowly(lambda: "Only Tessera" in platform.send(as_admin=True))
        yield platform
    finally:
        platform.close()


def test_the_least_rights_are_enough_for_a_tasks_life(world, platform):
    spec = world.spec("sleep 60")
    assert platform.runtime.list_nodes()
    platform.runtime.start(spec)
    wait_slowly(lambda: look(platform, spec.uuid).phase == "running")
    platform.runtime.stop(spec.uuid, 1, epoch=spec.epoch)
    wait_slowly(lambda: look(platform, spec.uuid).phase == "exited")
    platform.runtime.forget(spec.uuid)
    assert look(platform, spec.uuid) is None
    platform.runtime.stop(world.spec("true").uuid, 1, epoch=1)
    platform.runtime.sweep()


def test_it_writes_the_logins_of_a_team_and_reads_none(world, platform):
    login = RegistryLogin("registry.corp:5000", "robot", "s3cret")
    platform.runtime.start(world.spec("true", logins=(login,)))
    path = f"/api/v1/namespaces/{platform.install}-team-20000/secrets"
    for where in (path, f"{path}/{names.LOGINS}"):
        answer, _ = platform.api.call("GET", where, handles=("no_right",))
        assert answer.next_step == "no_right"
    _, secret = platform.admin.call("GET", f"{path}/{names.LOGINS}")
    assert secret["type"] == "kubernetes.io/dockerconfigjson"


def test_it_gives_a_task_its_secrets_and_takes_them_away(world, platform):
    spec = world.spec("true", secrets=(TaskSecret("HUB_TOKEN", "c4nary-f00d-1234"),))
    platform.runtime.start(spec)
    path = f"/api/v1/namespaces/{platform.install}-team-20000/secrets/{names.name_secret(spec.uuid)}"
    answer, _ = platform.api.call("GET", path, handles=("no_right",))
    assert answer.next_step == "no_right"
    _, secret = platform.admin.call("GET", path)
    assert [owner["name"] for owner in secret["metadata"]["ownerReferences"]] == [names.name_pod(spec.uuid)]
    wait_slowly(lambda: look(platform, spec.uuid).phase == "exited")
    platform.runtime.forget(spec.uuid)
    answer, _ = platform.admin.call("GET", path, handles=("gone",))
    assert answer.next_step == "gone"


def test_the_least_rights_are_enough_for_a_teams_claim(platform):
    config = replace(platform.runtime.config, storage=STORAGE)
    ensure_namespace(platform.api, config, 20021)
    ensure_namespace(platform.api, replace(config, storage=replace(STORAGE, size="2Ti")), 20021)  # it stays
    where = f"/api/v1/namespaces/{platform.install}-team-20021/persistentvolumeclaims/{platform.install}-files"
    _, claim = platform.admin.call("GET", where)
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Ti"


def look(platform, uuid: str):
    return next((view for view in platform.runtime.list_containers() if view.uuid == uuid), None)


OUTSIDE = [
    ("GET", "/api/v1/namespaces/kube-system/secrets", None),
    ("GET", "/api/v1/secrets", None),
    ("POST", "/api/v1/namespaces/kube-system/pods", {"metadata": {"name": "x"}, "spec": {"containers": []}}),
    ("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "x"}, "spec": {"containers": []}}),
    ("DELETE", "/api/v1/nodes/none", None),
    ("PATCH", "/api/v1/nodes/none", {}),
    ("GET", "/api/v1/namespaces/kube-system/pods/x/log", None),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "x"}}),
    ("DELETE", "/api/v1/namespaces/default", None),
    ("POST", "/api/v1/namespaces/kube-system/pods/x/exec", None),
    ("POST", "/api/v1/namespaces/kube-system/pods/x/portforward", None),
]


@pytest.mark.parametrize(("verb", "path", "body"), OUTSIDE)
def test_nothing_beyond_is_allowed(platform, verb, path, body):
    content = {"content": MERGE_PATCH} if verb == "PATCH" else {}
    answer, _ = platform.api.call(verb, path, body, handles=("no_right",), **content)
    assert answer.next_step == "no_right"
    platform.api._no_creates_until = 0.0  # each is a question of its own


def binding(role: str) -> dict:
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"metadata": {"name": "more"}, "roleRef": role_ref, "subjects": []}


def test_it_cannot_give_itself_more(platform):
    inside = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{platform.install}-team-20000/rolebindings"
    outside = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings"
    for path, role in ((inside, "cluster-admin"), (outside, f"{platform.install}-team")):
        answer, _ = platform.api.call("POST", path, binding(role), handles=("no_right", "reject"))
        assert answer.next_step in ("no_right", "reject"), role
        platform.api._no_creates_until = 0.0


def test_it_makes_and_changes_its_teams_namespaces_only(platform):
    relaxed = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    for name in ("default", f"{platform.install}-team-20000"):
        path = f"/api/v1/namespaces/{name}"
        answer, _ = platform.api.call("PATCH", path, relaxed, content=MERGE_PATCH, handles=("reject",))
        assert answer.next_step == "reject"


OWN = ("scratch", "shm", "pod-files")
EMPTY = [{"name": each, "emptyDir": {}} for each in OWN]


def part(**mount) -> dict:
    """Of the volume of all files, in the container."""
    return {"volumeMounts": [{"name": "files", **mount}]}


CHANGES = {
    "nodeName": {"nodeName": "fake-0"},
    "a token": {"automountServiceAccountToken": True},
    "an account": {"serviceAccountName": "other"},
    "a runtime class": {"runtimeClassName": "nvidia"},
    "a scheduler": {"schedulerName": "mine"},
    "another task's secret": {
        "volumes": [*EMPTY, {"name": "secrets", "secret": {"secretName": "s-" + "f" * 32}}],
    },
    "a secret of the team": {"volumes": [*EMPTY, {"name": "secrets", "secret": {"secretName": names.LOGINS}}]},
    "another claim": {"volumes": [*EMPTY, {"name": "files", "persistentVolumeClaim": {"claimName": "x"}}]},
    "a projected volume": {"volumes": [{"name": each, "configMap": {"name": "x"}} for each in OWN]},
}
INSIDE = {
    "all cards by a variable": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
    "no word about cards": {"env": []},
    "a variable from a secret": {"envFrom": [{"secretRef": {"name": "x"}}]},
    "no limits": {"resources": {}},
    "all files": part(mountPath="/tessera/home"),
    "all homes": part(mountPath="/tessera/home", subPath="files/home"),
    "another's home": part(mountPath="/tessera/home", subPath="files/home/20002"),
    "cards of another plugin": {"resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": "1"}}},
}


@pytest.mark.parametrize("name", [*CHANGES, *INSIDE])
def test_what_our_own_rights_might_be_made_to_send_is_refused(platform, name):
    """On top of what Pod Security refuses."""
    files = platform.with_files() if "volumeMounts" in INSIDE.get(name, {}) else {}
    words = platform.send(outer=CHANGES.get(name, files), inner=INSIDE.get(name, {}))
    assert "ValidatingAdmissionPolicy" in words or "RuntimeClass" in words or "service account" in words, words


def test_an_ordinary_task_passes(platform):
    assert platform.send() == ""
    home = part(mountPath="/tessera/home", subPath="files/home/20001")
    assert platform.send(outer=platform.with_files(), inner=home) == ""


def test_nobody_else_makes_pods_in_a_teams_namespace(platform):
    assert "Only Tessera makes pods" in platform.send(as_admin=True)


async def test_the_platform_enters_its_tasks_and_nobody_else_does(world, platform):
    spec = world.spec("sleep 60")
    await asyncio.to_thread(platform.runtime.start, spec)
    await asyncio.to_thread(wait_slowly, lambda: look(platform, spec.uuid).phase == "running")
    access = KubernetesAccess(install=platform.install, kubeconfig=world.options["kubeconfig"])
    with pytest.raises(Unavailable, match="lacks the right"):
        await access.exec(spec.uuid, ["true"])
    with pytest.raises(Unavailable, match="lacks the right"):
        await access.dial(spec.uuid, 8080)
    access.source = platform.source()
    session = await access.exec(spec.uuid, ["true"])
    assert await session.wait() == 0
    await session.close()
    with pytest.raises(ConnectionRefusedError):
        await access.dial(spec.uuid, 8080)


HOSTILE = {name: change for name, _, change in hostile_changes()}


@pytest.fixture(scope="module")
def stored(platform) -> InstallConfig:
    return replace(platform.runtime.config, storage=STORAGE)


def try_hostile(platform, pod: dict) -> tuple[str, str]:
    """(next_step, words) of sending this pod with the platform's own account, without doing it."""
    path = f"/api/v1/namespaces/{names.name_team_namespace(platform.install, 20000)}/pods"
    handled = ("reject", "no_right", "no_room", "unknown")
    answer, _ = platform.api.call("POST", path, pod, query={"dryRun": "All"}, handles=handled)
    platform.api._no_creates_until = 0.0  # each is a question of its own
    return answer.next_step, answer.words


@pytest.mark.parametrize("name", [*TASKS, "with files"])
def test_every_ordinary_task_passes_all_rules(platform, stored, name):
    spec, config = (WITH_FILES, stored) if name == "with files" else (TASKS[name], platform.runtime.config)
    assert try_hostile(platform, build_pod(spec, config, CARDS)) == ("done", "")


@pytest.mark.parametrize("name", MODES)
def test_every_way_to_give_cards_passes_all_rules(platform, name):
    spec, cards = MODES[name]
    assert try_hostile(platform, build_pod(spec, platform.runtime.config, cards)) == ("done", "")


@pytest.mark.parametrize("name", HOSTILE)
def test_two_hundred_ways_out_are_refused_by_the_namespace_too(platform, stored, name):
    """What test_hostile.py says to us, sent past us with our own rights."""
    pod = copy.deepcopy(build_pod(TASKS["a_quarter"], stored, CARDS))
    HOSTILE[name](pod)
    next_step, words = try_hostile(platform, pod)
    assert next_step != "done" and ("forbidden" in words or "invalid" in words), (name, words)


def test_the_network_policies_are_there_as_we_want_them(world, platform):
    """NOT THAT THEY HOLD: bin/cluster's network enforces none. `tessera doctor --cluster` tries that where they do."""
    name = names.name_team_namespace(platform.install, 20000)
    (wanted,) = (
        each for each in build_network_policies(name, platform.runtime.config) if each["kind"] == "NetworkPolicy"
    )
    path = f"/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies"
    (there,) = world.api.call("GET", path)[1]["items"]
    assert there["spec"] == wanted["spec"]
