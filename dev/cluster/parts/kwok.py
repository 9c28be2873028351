"""Fake nodes, which run nothing: API objects with kwok as kubelet."""

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from dev.cluster.parts.api import GONE, THERE_ALREADY, Api, is_ready, list_nodes
from dev.cluster.parts.certificates import kubeconfig_of
from dev.cluster.paths import ADDRESS, FAKE_POD_CIDR, KWOK_PORT, ClusterPaths, Refusal
from dev.cluster.processes import start, wait_until

STAGES = Path(__file__).with_name("stages.yaml")
MARK = "kwok.x-k8s.io/node"
READY_S = 300
THREADS = 8
MOST = 5000
Step = tuple[str, str, dict | None]  # method, path, body
GPUS, UNITS_OF_A_GPU = 8, 320  # device plugin units


def start_kwok(paths: ClusterPaths) -> None:
    """Run kwok for nodes annotated as fake."""
    start(paths, "kwok", "--kubeconfig", str(kubeconfig_of(paths, "kwok")), "--config", str(STAGES),
          "--manage-all-nodes=false", "--manage-nodes-with-annotation-selector", f"{MARK}=fake",
          "--node-lease-duration-seconds", "40", "--cidr", FAKE_POD_CIDR, "--node-ip", ADDRESS,
          "--server-address", f"{ADDRESS}:{KWOK_PORT}")  # fmt: skip


def scale_fake_nodes(paths: ClusterPaths, count: int) -> None:
    """Create or delete nodes until fake-0 and on are `count` and Ready. Raise Refusal."""
    wanted = {f"fake-{number}" for number in range(count)}
    present = {node["metadata"]["name"] for node in list_nodes(paths) if is_fake(node)}
    steps: list[Step] = [("POST", "/api/v1/nodes", build_node(name)) for name in sorted(wanted - present)]
    steps += [("DELETE", f"/api/v1/nodes/{name}", None) for name in sorted(present - wanted)]
    share = [steps[first::THREADS] for first in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda part: send_all(paths, part), share))
    if count:
        wait_until(paths, "kwok", lambda: count_ready(paths) == count, READY_S)


def send_all(paths: ClusterPaths, steps: list[Step]) -> None:
    with closing(Api(paths)) as api:
        for method, path, body in steps:
            status, answer = api.ask(method, path, body)
            if status >= http.client.BAD_REQUEST and status not in (GONE, THERE_ALREADY):
                raise Refusal(f"The API server refused {method} {path}: {json.dumps(answer)}")


def count_ready(paths: ClusterPaths) -> int:
    return sum(is_fake(node) and is_ready(node) for node in list_nodes(paths))


def is_fake(node: dict) -> bool:
    return node["metadata"].get("annotations", {}).get(MARK) == "fake"


def build_node(name: str) -> dict:
    """Return a node with eight A100, tainted against real pods."""
    gpus = {f"tessera.sh/g-{number}": str(UNITS_OF_A_GPU) for number in range(GPUS)}
    amounts = {
        "cpu": "128",
        "memory": "1Ti",
        "ephemeral-storage": "1Ti",
        "pods": "250",
        "nvidia.com/gpu": str(GPUS),
        **gpus,
    }
    labels = {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu.memory": "40960",
        "nvidia.com/gpu.count": str(GPUS),
    }
    annotations = {MARK: "fake", "node.alpha.kubernetes.io/ttl": "0"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"taints": [{"key": MARK, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": amounts, "capacity": amounts, "phase": "Running"},
    }
