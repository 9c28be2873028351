"""A StorageClass whose claims all share one directory, as on some file servers."""

import http.client
import json
from contextlib import closing

from deploy.cluster.parts.api import THERE_ALREADY, Api
from deploy.cluster.parts.certificates import kubeconfig_of
from deploy.cluster.place import Place, Refusal
from deploy.cluster.processes import start

NAME = "storage"
CLASS, PROVISIONER = "tessera", "tessera.sh/one-directory"  # as in programs/storage/main.go


def start_storage(place: Place) -> None:
    """Start the provisioner; volumes wait for their first pod's node, as most drivers do."""
    place.shared.mkdir(mode=0o711, exist_ok=True)
    start(place, NAME, "--kubeconfig", str(kubeconfig_of(place, NAME)))
    with closing(Api(place)) as api:
        status, answer = api.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", build_class(place))
    if status not in (http.client.CREATED, THERE_ALREADY):
        raise Refusal(f"The API server refused the class of volumes: {json.dumps(answer)}")


def build_class(place: Place) -> dict:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": PROVISIONER,
        "parameters": {"directory": str(place.shared)},
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }
