"""What the tests marked `kubernetes` need of a cluster: the one that KUBECONFIG names, else that of bin/cluster."""

import fcntl
import ipaddress
import json
import os
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from dev.cluster.build import find_go
from dev.cluster.paths import OWNER, POD_CIDR, SERVICE_CIDR, ClusterPaths, find_paths
from dev.cluster.processes import find_processes

ROOT = Path(__file__).resolve().parents[1]
REQUIRED = os.environ.get("TESSERA_REQUIRE_KUBERNETES") == "1"  # where nothing may be skipped
NO_CLUSTER = (
    "NO KUBERNETES: the tests on a real cluster were skipped. They need root and Go, or a cluster in KUBECONFIG."
)
SESSION = "TESSERA_TEST_SESSION"  # the process that began these tests; its workers inherit it
CLUSTER_LOCK = Path(tempfile.gettempdir()) / "tessera-test-cluster.lock"
CLUSTER_OWNER = CLUSTER_LOCK.with_suffix(".owner")  # the session that started bin/cluster's, and ends it
OWN_NETWORKS = [ipaddress.ip_network(cidr) for cidr in (POD_CIDR, SERVICE_CIDR)]  # of the bridge: they end here
UP_S = 1800  # with building, where nobody did before


def can_have_cluster() -> bool:
    return bool(os.environ.get("KUBECONFIG")) or (os.geteuid() == 0 and find_go() is not None)


def is_allowed(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether a test may connect there: to the local cluster's own network, or to the API server of KUBECONFIG."""
    return any(address in network for network in OWN_NETWORKS) or str(address) == given_server()


@cache
def given_server() -> str:
    """The host of the cluster in KUBECONFIG, "" without."""
    if not (path := os.environ.get("KUBECONFIG")):
        return ""
    config = yaml.safe_load(Path(path).read_text())
    context = next(item["context"] for item in config["contexts"] if item["name"] == config["current-context"])
    cluster = next(item["cluster"] for item in config["clusters"] if item["name"] == context["cluster"])
    return urlsplit(cluster["server"]).hostname or ""


def run_cluster(*arguments: str, fails: bool = False) -> str:
    """`bin/cluster ...` and what it says, on both streams."""
    command = [ROOT / "bin" / "cluster", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=UP_S)
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


def local_place() -> ClusterPaths:
    return find_paths("", "")


def identify_process(pid: int | str = "self") -> str:
    """Return the process's pid and start time, for pids are used again; "" if it is gone."""
    try:
        words = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return f"{os.getpid() if pid == 'self' else pid} {words[19]}"


def claim_cluster() -> bool:
    """Return whether these tests may end bin/cluster's cluster: they started it, or are the first to want one.

    Other sessions may be testing on this machine. A cluster without a process is what a killed session left behind.
    """
    with open(CLUSTER_OWNER, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        owner = file.read()
        if owner and identify_process(owner.split()[0]) == owner:
            return owner == os.environ[SESSION]
        if OWNER.exists() and find_processes(local_place()):
            return False
        file.truncate(0)
        file.write(os.environ[SESSION])
        return True


def end_cluster() -> None:
    """Stop the cluster at the end of the session that started it."""
    mine = os.environ[SESSION]
    if mine == identify_process() and CLUSTER_OWNER.exists() and CLUSTER_OWNER.read_text() == mine:
        if OWNER.exists():
            run_cluster("down")
        CLUSTER_OWNER.unlink()


class Kubectl:
    """The cluster's own kubectl in a namespace of the test's own."""

    def __init__(self, kubeconfig: Path, namespace: str):
        self.kubeconfig, self.namespace = kubeconfig, namespace
        self.program = shutil.which("kubectl") or str(kubeconfig.parent / "bin" / "kubectl")

    def run(self, *arguments: str, body: dict | None = None, within_s: int = 60) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.program, "--kubeconfig", self.kubeconfig, "--namespace", self.namespace, *arguments],
            input=json.dumps(body) if body else None,
            capture_output=True,
            text=True,
            timeout=within_s,
        )

    def __call__(self, *arguments: str, body: dict | None = None, within_s: int = 60) -> str:
        done = self.run(*arguments, body=body, within_s=within_s)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, kind: str, name: str) -> dict:
        return json.loads(self("get", kind, name, "-o", "json"))

    def create(self, body: dict) -> None:
        self("create", "-f", "-", body=body)

    def wait_for_phase(self, pod: str, *phases: str, within_s: float = 60) -> dict:
        """The pod as it is then."""
        deadline = time.monotonic() + within_s
        while (found := self.get("pod", pod))["status"].get("phase") not in phases:
            assert time.monotonic() < deadline, self("describe", "pod", pod)
            time.sleep(0.1)
        return found


def build_pod(name: str, image: str, *command: str, **spec) -> dict:
    container = {"name": "main", "image": image} | ({"command": list(command)} if command else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }
