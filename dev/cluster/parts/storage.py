"""A StorageClass whose claims all share one directory, as on some file servers."""

import http.client
import json
from contextlib import closing

from dev.cluster.parts.api import THERE_ALREADY, Api
from dev.cluster.parts.certificates import kubeconfig_of
from dev.cluster.paths import ClusterPaths, Refusal
from dev.cluster.processes import start

NAME = "storage"
CLASS, PROVISIONER = "tessera", "tessera.sh/one-directory"  # as in programs/storage/main.go


def start_storage(paths: ClusterPaths) -> None:
    """Start the provisioner; volumes wait for their first pod's node, as most drivers do."""
    paths.shared.mkdir(mode=0o711, exist_ok=True)
    start(paths, NAME, "--kubeconfig", str(kubeconfig_of(paths, NAME)))
    with closing(Api(paths)) as api:
        status, answer = api.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", build_class(paths))
    if status not in (http.client.CREATED, THERE_ALREADY):
        raise Refusal(f"The API server refused the class of volumes: {json.dumps(answer)}")


def build_class(paths: ClusterPaths) -> dict:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": PROVISIONER,
        "parameters": {"directory": str(paths.shared)},
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }
