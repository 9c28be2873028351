"""What a pod finds on the cluster of bin/cluster: a real kubelet, a registry, names, and a fake node's pretence."""

import json
import uuid

import pytest

from dev.cluster.images import IMAGES, layout_of
from dev.cluster.parts.storage import CLASS
from dev.cluster.registry import name_of
from tests.local_cluster import Kubectl, build_pod, local_place

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

IMAGE = {image.name: image for image in IMAGES}
BUSYBOX, PYTHON = name_of(IMAGE["busybox"]), name_of(IMAGE["python"])
ON_FAKE = {"nodeSelector": {"type": "kwok"}, "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]}


@pytest.fixture
def kubectl(own_cluster):
    """kubectl in a namespace that goes with the test."""
    kubectl = Kubectl(own_cluster, f"test-{uuid.uuid4().hex[:8]}")
    kubectl("create", "namespace", kubectl.namespace)
    kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    yield kubectl
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")


def test_a_pod_runs_on_the_real_node_and_its_log_is_read(kubectl):
    kubectl.create(build_pod("greet", BUSYBOX, "sh", "-c", "echo hello from $(hostname)"))
    pod = kubectl.wait_for_phase("greet", "Succeeded", "Failed")
    assert pod["spec"]["nodeName"] == "real-0"
    assert pod["status"]["phase"] == "Succeeded"
    assert kubectl("logs", "greet") == "hello from greet\n"


def test_exec_has_the_output_and_the_exit_code_of_its_command(kubectl):
    kubectl.create(build_pod("stay", BUSYBOX, "sleep", "600"))
    kubectl.wait_for_phase("stay", "Running")
    done = kubectl.run("exec", "stay", "--", "sh", "-c", "echo in && exit 7")
    assert (done.stdout, done.returncode) == ("in\n", 7)


def test_an_image_is_pulled_from_the_local_registry_by_its_digest(kubectl):
    digest = json.loads((layout_of(local_place(), IMAGE["python"]) / "index.json").read_text())["manifests"][0][
        "digest"
    ]
    by_digest = f"{PYTHON.rpartition(':')[0]}@{digest}"
    kubectl.create(build_pod("python", by_digest, "python3", "-c", "import sys; print(sys.version_info[:2])"))
    pod = kubectl.wait_for_phase("python", "Succeeded", "Failed", within_s=120)
    assert pod["status"]["containerStatuses"][0]["imageID"] == by_digest
    assert kubectl("logs", "python") == "(3, 11)\n"


def test_an_image_that_the_registry_lacks_is_said_in_its_words(kubectl):
    kubectl.create(build_pod("lost", f"{PYTHON}-none"))
    kubectl("wait", "pod/lost", "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=ErrImagePull")
    message = kubectl.get("pod", "lost")["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert "not found" in message


def test_runc_enforces_the_default_seccomp_profile(kubectl):
    security = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    kubectl.create(build_pod("confined", BUSYBOX, "grep", "Seccomp:", "/proc/self/status", **security))
    kubectl.wait_for_phase("confined", "Succeeded")
    assert kubectl("logs", "confined").split() == ["Seccomp:", "2"]


def test_a_container_over_its_memory_is_killed(kubectl):
    pod = build_pod("greedy", PYTHON, "python3", "-c", "b'x' * (200 << 20)")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    kubectl.create(pod)
    ended = kubectl.wait_for_phase("greedy", "Succeeded", "Failed", within_s=120)
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"


def test_pods_of_a_headless_service_find_each_other_by_name(kubectl):
    service = {"clusterIP": "None", "selector": {"gang": "one"}, "publishNotReadyAddresses": True}
    kubectl.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "gang"}, "spec": service})
    for rank, command in (
        (0, ("sleep", "600")),
        (1, ("sh", "-c", "until ping -c1 -W1 rank-0.gang; do sleep 0.2; done")),
    ):
        pod = build_pod(f"rank-{rank}", BUSYBOX, *command, hostname=f"rank-{rank}", subdomain="gang")
        pod["metadata"]["labels"] = {"gang": "one"}
        kubectl.create(pod)
    kubectl.wait_for_phase("rank-1", "Succeeded")
    assert f"rank-0.gang ({kubectl.get('pod', 'rank-0')['status']['podIP']})" in kubectl("logs", "rank-1")


def test_the_api_is_reached_from_a_pod_and_rbac_refuses_what_was_not_granted(kubectl):
    ask = (
        "import ssl, urllib.request, urllib.error, pathlib\n"
        "home = pathlib.Path('/var/run/secrets/kubernetes.io/serviceaccount')\n"
        "url = 'https://kubernetes.default.svc/api/v1/secrets'\n"
        "request = urllib.request.Request(url, headers={'Authorization': 'Bearer ' + (home / 'token').read_text()})\n"
        "try: urllib.request.urlopen(request, context=ssl.create_default_context(cafile=home / 'ca.crt'))\n"
        "except urllib.error.HTTPError as error: print(error.code)\n"
    )
    kubectl.create(build_pod("asker", PYTHON, "python3", "-c", ask))
    kubectl.wait_for_phase("asker", "Succeeded", "Failed", within_s=120)
    assert kubectl("logs", "asker") == "403\n"


def test_admission_refuses_a_privileged_pod_in_a_restricted_namespace(kubectl):
    kubectl("label", "namespace", kubectl.namespace, "pod-security.kubernetes.io/enforce=restricted")
    pod = build_pod("root", BUSYBOX)
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    refused = kubectl.run("create", "-f", "-", body=pod)
    assert refused.returncode == 1
    assert 'violates PodSecurity "restricted' in refused.stderr


def test_a_fake_node_takes_a_pod_and_ends_it_as_its_annotations_say(kubectl):
    pod = build_pod("pretend", "any/image:1", **ON_FAKE)
    pod["metadata"]["annotations"] = {"fake.tessera.sh/runs-for": "1s", "fake.tessera.sh/exit-code": "3"}
    kubectl.create(pod)
    ended = kubectl.wait_for_phase("pretend", "Succeeded", "Failed")
    assert ended["spec"]["nodeName"].startswith("fake-")
    assert ended["status"]["phase"] == "Failed"
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_a_pod_deleted_on_a_fake_node_keeps_a_finalizer_that_is_not_kwoks(kubectl):
    pod = build_pod("kept", "any/image:1", **ON_FAKE)
    pod["metadata"]["finalizers"] = ["tessera.sh/counted"]
    kubectl.create(pod)
    kubectl.wait_for_phase("kept", "Running")
    kubectl("delete", "pod", "kept", "--wait=false")
    ended = kubectl.wait_for_phase("kept", "Failed")
    assert ended["metadata"]["finalizers"] == ["tessera.sh/counted"]
    kubectl("patch", "pod", "kept", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    kubectl("wait", "pod/kept", "--for=delete", "--timeout=30s")


def test_the_real_node_serves_two_simulated_cards_and_no_more(kubectl):
    pods = {"fits": "100", "waits": "27"}
    for name, units in pods.items():
        pod = build_pod(name, BUSYBOX, "sleep", "600", nodeSelector={"tessera.sh/real": "true"})
        pod["spec"]["containers"][0]["resources"] = {"limits": {"tessera.sh/g-1": units}}
        kubectl.create(pod)
        if name == "fits":
            kubectl.wait_for_phase("fits", "Running")
    kubectl("wait", "pod/waits", "--for=condition=PodScheduled=false", "--timeout=30s")
    assert "Insufficient tessera.sh/g-1" in kubectl.get("pod", "waits")["status"]["conditions"][0]["message"]


def build_claim(name: str) -> dict:
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": CLASS}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": asked}


def build_writer(name: str, claim: str, text: str) -> dict:
    pod = build_pod(name, BUSYBOX, "sh", "-c", text)
    pod["spec"]["volumes"] = [{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
    return pod


def test_every_claim_is_the_same_directory_of_this_machine_and_outlives_the_claim(kubectl):
    file = local_place().shared / kubectl.namespace
    for name, text in (("one", f"echo hello >/shared/{file.name}"), ("two", f"cat /shared/{file.name}")):
        kubectl.create(build_claim(name))
        assert kubectl.get("pvc", name)["status"]["phase"] == "Pending"  # until a pod has its node
        kubectl.create(build_writer(name, name, text))
        kubectl.wait_for_phase(name, "Succeeded", "Failed")
    assert kubectl("logs", "two") == "hello\n"
    kubectl("delete", "pod/one", "pod/two", "pvc/one", "pvc/two", within_s=120)
    assert file.read_text() == "hello\n"
    file.unlink()
