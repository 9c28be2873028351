"""What the doctor finds in a cluster: that all is well, and each thing that was taken away."""

import copy

import pytest

from runtimes.kubernetes.api.client import MERGE_PATCH
from runtimes.kubernetes.cluster.installation_checks import _check_cdi, _check_files, _check_storage_class, examine
from runtimes.kubernetes.pods.files_volume import Storage
from tests.runtimes.kubernetes.test_rights import PLURALS, Platform
from tests.runtimes.kubernetes.world import wait_slowly

BESIDE_OTHERS = True
GID = 20000


def machine(name: str, runtime: str) -> dict:
    return {"metadata": {"name": name}, "status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}


@pytest.mark.parametrize(
    ("runtime", "tone"),
    [
        ("containerd://2.4.2", "ok"),
        ("containerd://1.7.27", "note"),
        ("containerd://1.6.20~ds1", "bad"),
        ("cri-o://1.34.1", "ok"),
    ],
)
def test_a_container_runtime_that_reads_no_cdi_is_named_with_its_machine(runtime, tone):
    found = _check_cdi([machine("a", "containerd://2.0.0"), machine("b", runtime)])
    assert found.tone == tone and (tone == "ok") == (" b" not in found.words)


def test_a_volume_that_we_cannot_write_is_bad_and_none_at_all_is_said(tmp_path):
    def look(root):
        return _check_files(Storage("nfs", root, root / "files", root / "code")).tone

    assert (_check_files(None).tone, look(tmp_path), look(tmp_path / "missing")) == ("note", "ok", "bad")


@pytest.fixture(scope="module")
def platform(world):
    platform = Platform(world)
    try:
        platform.runtime.start(world.spec("true"))
        wait_slowly(lambda: found(platform)["admission"][0].tone == "ok")
        yield platform
    finally:
        platform.close()


def found(platform, *, probe: bool = False) -> dict[str, list]:
    """{about: findings}."""
    seen: dict[str, list] = {}
    for one in examine(platform.runtime, [GID + 1, GID], probe):
        seen.setdefault(one.about, []).append(one)
    return seen


def change(platform, kind: str, name: str, body: dict) -> dict:
    """What it was before."""
    path = f"{PLURALS[kind]}/{platform.install}-{name}"
    _, before = platform.admin.call("GET", path)
    platform.admin.call("PATCH", path, body, content=MERGE_PATCH)
    return before


@pytest.mark.kubernetes
@pytest.mark.parametrize(
    ("policy", "tone", "words"),
    [("Retain", "ok", "keeps"), ("Delete", "note", "is deleted with its claim"), (None, "bad", "There is no class")],
)
def test_the_class_of_volumes_is_looked_at(platform, policy, tone, words):
    name, classes = f"{platform.install}-class", "/apis/storage.k8s.io/v1/storageclasses"
    if policy:
        thing = {"metadata": {"name": name}, "provisioner": "tests/none", "reclaimPolicy": policy}
        platform.admin.call("POST", classes, thing)
    try:
        seen = _check_storage_class(platform.runtime, name)
        assert seen.tone == tone and words in seen.words and name in seen.words
    finally:
        platform.admin.call("DELETE", f"{classes}/{name}", handles=("gone",))


@pytest.mark.kubernetes
def test_with_the_rights_and_rules_of_the_files_all_is_well(platform):
    seen = found(platform)
    assert {one.tone for name in ("server", "account", "clock", "rights", "admission") for one in seen[name]} == {"ok"}
    assert [one.about for one in seen["rights"]] == ["rights", "rights"]
    assert seen["network"][0].tone == "note" and "--probe" in seen["network"][0].remedy


@pytest.mark.kubernetes
def test_a_right_that_was_taken_away_is_named_with_where_it_lacks(platform):
    rules = next(thing["rules"] for thing in platform.things if thing["metadata"]["name"] == f"{platform.install}-team")
    fewer = copy.deepcopy(rules)
    pods = next(rule for rule in fewer if "pods" in rule["resources"] and "delete" in rule["verbs"])
    pods["verbs"].remove("delete")
    change(platform, "ClusterRole", "team", {"rules": fewer})
    try:
        lacking = wait_slowly(lambda: [one for one in found(platform)["rights"] if one.tone == "bad"])
        assert "delete pods" in lacking[0].words and f"{platform.install}-team-{GID}" in lacking[0].words
    finally:
        change(platform, "ClusterRole", "team", {"rules": rules})


@pytest.mark.kubernetes
def test_a_rule_that_does_not_hold_is_said(platform):
    actions = {"spec": {"validationActions": ["Audit"]}}
    before = change(platform, "ValidatingAdmissionPolicyBinding", "itself", actions)
    try:
        lax = wait_slowly(lambda: [one for one in found(platform)["admission"] if one.tone == "bad"])
        assert "change the namespaces of others" in lax[0].words and "admission.yaml" in lax[0].remedy
    finally:
        actions["spec"]["validationActions"] = before["spec"]["validationActions"]
        change(platform, "ValidatingAdmissionPolicyBinding", "itself", actions)
    wait_slowly(lambda: found(platform)["admission"][0].tone == "ok")


@pytest.mark.kubernetes
def test_a_probe_tells_that_nobody_enforces_policies_here_and_leaves_nothing(platform, own_cluster):
    seen = found(platform, probe=True)
    assert (seen["network"][0].tone, seen["dns"][-1].tone) == ("bad", "ok"), seen
    path = f"/api/v1/namespaces/{platform.install}-team-{GID}/pods"

    def nothing_is_left() -> bool:
        return not [pod for pod in platform.admin.list_all(path).items if "doctor-" in pod["metadata"]["name"]]

    assert wait_slowly(nothing_is_left)
