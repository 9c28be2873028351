"""From an empty namespace to a signed-in portal, and through an upgrade and a rollback while a job runs.

The image is built here, on a Debian that debootstrap makes: minutes the first time, seconds when its layers are there.
"""

import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from bench.stack import Stack, free_port
from dev.cluster.parts.storage import CLASS
from dev.cluster.paths import REGISTRY
from tests.deploy.helm.conftest import CHART, Helm
from tests.local_cluster import ROOT, Kubectl, local_place
from tests.runtimes.kubernetes.world import IMAGE, REAL_NODE, KubernetesWorld

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(1200)]

BUILT_WITHIN_S, READY_WITHIN_S, ANSWERS_WITHIN_S = 1800, 600, 20
AGENT_STATE, TOKEN_SEEN_WITHIN_S = Path("/var/lib/tessera-agent"), 180
TAGS = ("test-1", "test-2")
SMALL = {"resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}
ONE = {"replicas": 1, **SMALL}
QUARTER = {"name": "quarter", "gpu": "1/4", "cpu": "50m", "memory": "64MiB"}


class Installation(Stack):
    """One release of the chart in a namespace of its own; `api` speaks while the portal is forwarded."""

    def __init__(self, helm: Helm, kubeconfig: Path, folder: Path):
        super().__init__(folder, free_port())
        self.install, self.helm = f"h{uuid4().hex[:8]}", Helm(helm.program, helm.folder, kubeconfig)
        self.namespace = f"{self.install}-system"
        self.kubectl = Kubectl(kubeconfig, self.namespace)
        self.agent_before = AGENT_STATE.exists()
        self.values = {
            "install": self.install,
            "url": self.url,
            "image": {"repository": f"{REGISTRY}/tessera", "tag": TAGS[0], "pullPolicy": "Always"},  # a tag of each run
            "bundled": {"enabled": True, "keepOnNode": str(folder)},
            "files": {"storageClass": CLASS, "size": "1Gi"},
            "jobs": {"image": IMAGE, "pull": "IfNotPresent", "nodes": f"{REAL_NODE}=true"},
            "pods": {"nodeSelector": {REAL_NODE: "true"}},
            "live": {"enabled": False},
            "agent": {
                "enabled": True,
                "nodeSelector": {REAL_NODE: "true"},
                "podLogs": f"{local_place().state}/pod-logs",
            },
            **dict.fromkeys(("web", "worker", "sender", "watch"), ONE),
            **dict.fromkeys(("beat", "setup"), SMALL),
        }

    def prepare(self) -> None:
        """What docs/install.md has an administrator make first."""
        self.kubectl("create", "namespace", self.namespace)
        self.kubectl("label", "namespace", self.namespace, f"tessera.sh/platform={self.install}")

    def release(self, *words: str, values: dict | None = None) -> str:
        waits = ("--namespace", self.namespace, "--wait", "--timeout", f"{READY_WITHIN_S}s")
        return self.helm(*words, *waits, values=values, within_s=READY_WITHIN_S + 60)

    def inside(self, *command: str) -> str:
        """In the worker's container."""
        return self.kubectl("exec", f"deployment/{self.install}-worker", "-c", "worker", "--", *command)

    def manage(self, *command: str) -> str:
        return self.inside("python", "manage.py", *command)

    @contextmanager
    def forwarded(self) -> Iterator[None]:
        """The portal at `url`, by `kubectl port-forward`."""
        words = ["--namespace", self.namespace, "port-forward", f"service/{self.install}-web", f"{self.port}:8470"]
        command = [self.kubectl.program, "--kubeconfig", str(self.kubectl.kubeconfig), *words]
        forward = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_port(self.port)
            yield
        finally:
            forward.send_signal(signal.SIGTERM)
            forward.wait(10)

    def clean_up(self) -> None:
        self.helm.run("uninstall", "tessera", "--namespace", self.namespace, "--wait", within_s=READY_WITHIN_S)
        KubernetesWorld(self.kubectl.kubeconfig, install=self.install).close()
        self.kubectl("delete", "namespace", self.namespace, "--ignore-not-found", within_s=READY_WITHIN_S)
        shutil.rmtree(self.data)
        if not self.agent_before:
            shutil.rmtree(AGENT_STATE, ignore_errors=True)  # this machine is the node


def wait_for_port(port: int) -> None:
    until = time.monotonic() + ANSWERS_WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < until, f"nothing listens on {port}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def built() -> None:
    """On this machine. It takes minutes, and comes before `own_cluster`, for whose turn others would wait so long."""
    build_image(f"tessera:{TAGS[0]}")


@pytest.fixture(scope="module")
def image(built, own_cluster) -> None:
    """In the cluster's registry, under two tags: a newer image is another name."""
    for tag in TAGS:
        build_image("--push", f"{REGISTRY}/tessera:{tag}", f"tessera:{tag}")


def build_image(*words: str) -> None:
    command = [str(ROOT / "bin/image"), "--base", "debootstrap", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILT_WITHIN_S)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.fixture(scope="module")
def platform(built, own_cluster, image, helm) -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="tessera-install-", dir="/var/tmp"))
    folder.chmod(0o755)
    there = Installation(helm, own_cluster, folder)
    try:
        there.prepare()
        there.release("install", "tessera", str(CHART), values=there.values)
        there.login_link = json.loads(there.manage("first_run"))["login_link"]
        there.token = there.manage("make_token", "admin").strip()
        yield there
    finally:
        there.clean_up()


@pytest.mark.browser
def test_the_first_admin_signs_in_by_the_link_that_first_run_tells(platform, chromium):
    with platform.forwarded():
        page = chromium.new_page()
        page.goto(platform.url + platform.login_link)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{platform.url}/")
        page.goto(f"{platform.url}/cluster/")
        page.get_by_text("real-0").first.wait_for()
        page.close()


def test_a_job_on_a_quarter_of_a_card_runs_through_it(platform):
    job = {
        "name": "quarter",
        "run": "test $TESSERA_GPU_MEMORY_MIB -gt 8000",
        "gpu": "1/4",
        "cpu": "50m",
        "memory": "64MiB",
    }
    with platform.forwarded():
        made = platform.api("POST", "/jobs", job)
        assert platform.wait_for(made["id"], "succeeded", "failed", seconds=90)["state"] == "succeeded"


def test_the_portal_answers_by_the_services_name_to_those_inside(platform):
    url = f"http://{platform.install}-web:8470/api/v1/version"
    ask = f"from urllib.request import urlopen; print(urlopen('{url}').status)"
    assert platform.inside("python", "-c", ask) == "200\n"


def test_an_upgrade_and_a_rollback_leave_a_running_job_alone(platform):
    with platform.forwarded():
        made = platform.api("POST", "/jobs", {**QUARTER, "run": "sleep 3600"})["id"]
        task = platform.wait_for(made, "running", seconds=90)["tasks"][0]["uuid"]
    before = pods_of(platform)
    newer = {
        **platform.values,
        "image": {**platform.values["image"], "tag": TAGS[1]},
        "settings": {"TESSERA_LOG_LEVEL": "INFO"},
    }
    platform.release("upgrade", "tessera", str(CHART), values=newer)
    assert images_of(platform) == {f"{REGISTRY}/tessera:{TAGS[1]}"}
    assert pods_of(platform) == before
    platform.release("rollback", "tessera", "1")
    assert images_of(platform) == {f"{REGISTRY}/tessera:{TAGS[0]}"}
    assert pods_of(platform) == before
    with platform.forwarded():
        found = platform.api("GET", f"/jobs/{made}")
        assert (found["state"], found["tasks"][0]["uuid"], found["attempt"]) == ("running", task, 1)
        platform.api("POST", f"/jobs/{made}:stop")
        platform.wait_for(made, "cancelled", seconds=90)


def test_the_agent_enrols_with_its_secret_and_brings_the_log_of_a_job_that_runs(platform):
    node = platform.kubectl("get", "nodes", "-l", f"{REAL_NODE}=true", "-o", "jsonpath={.items[0].metadata.name}")
    with platform.forwarded():
        token = platform.api("POST", "/agents:invite", {"node": node})["token"]
        there = ("--namespace", f"{platform.install}-agents")
        platform.kubectl(*there, "create", "secret", "generic", "enrolment", f"--from-literal={node}={token}")
        until = time.monotonic() + TOKEN_SEEN_WITHIN_S  # the kubelet brings a new Secret into a running pod
        while not [one for one in platform.api("GET", "/agents")["results"] if one["state"] == "reporting"]:
            assert time.monotonic() < until, platform.kubectl(*there, "logs", "daemonset/agent")
            time.sleep(1)
        said = {"run": "echo brought; sleep 600", "gpu": "0", "cpu": "50m", "memory": "64MiB"}
        made = platform.api("POST", "/jobs", said)["id"]
        platform.wait_for_line(made, "brought", seconds=90)
        platform.api("POST", f"/jobs/{made}:stop")
        platform.wait_for(made, "cancelled", seconds=90)


def pods_of(platform: Installation) -> set[tuple]:
    """What runs for the first team: which pods, and how often each was started again."""
    things = json.loads(
        platform.kubectl("get", "pods", "-A", "-l", f"tessera.sh/install={platform.install}", "-o", "json")
    )
    running = [pod for pod in things["items"] if pod["status"]["phase"] == "Running"]
    assert running
    return {(pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in running}


def images_of(platform: Installation) -> set[str]:
    """Of the platform's deployments."""
    things = json.loads(platform.kubectl("get", "deployments", "-o", "json"))["items"]
    return {thing["spec"]["template"]["spec"]["containers"][0]["image"] for thing in things}


def test_an_uninstall_keeps_the_keys_and_an_install_takes_them_up(platform):
    def keys() -> dict:
        return platform.kubectl.get("secret", f"{platform.install}-secrets")["data"]

    before = keys()
    platform.helm("uninstall", "tessera", "--namespace", platform.namespace, "--wait", within_s=READY_WITHIN_S)
    assert keys() == before
    platform.release("install", "tessera", str(CHART), values=platform.values)
    assert keys() == before
    assert json.loads(platform.manage("first_run"))["new"] is False  # the database is the same one
