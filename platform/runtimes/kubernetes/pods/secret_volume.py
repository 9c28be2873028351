"""A task's secrets: a Secret of its own, which its pod mounts; a kubelet keeps such volumes in memory.

The pod's own text names the Secret and the variables, never a value.
"""

import base64
from collections.abc import Mapping
from typing import Any

from runtimes.contract.task import TaskSpec
from runtimes.environment import SECRETS
from runtimes.kubernetes.pods import names

VOLUME = "secrets"
FOLDER = f"{names.TASK_ROOT}/secrets"
VARIABLES = "TESSERA_SECRET_VARIABLES"
"""Names of the files that supervisor.sh exports to the program."""
MODE = 0o444
"""The files are root's, and the task's account is the only one in its container."""


def build_secret(spec: TaskSpec, namespace: str, labels: Mapping[str, str]) -> dict:
    data = {secret.name: base64.b64encode(secret.value.encode()).decode() for secret in spec.secrets}
    meta = {
        "name": names.name_secret(spec.uuid),
        "namespace": namespace,
        "labels": {**labels, names.LABEL_TASK: spec.uuid},
    }
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": True, "metadata": meta, "data": data}


def build_owner(pod: Mapping[str, Any]) -> dict:
    """Return a Secret's change by which it goes with its pod."""
    meta = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    return {"metadata": {"ownerReferences": [owner]}}


def build_volumes(spec: TaskSpec) -> list[dict]:
    secret = {"secretName": names.name_secret(spec.uuid), "defaultMode": MODE}
    return [{"name": VOLUME, "secret": secret}] if spec.secrets else []


def build_mounts(spec: TaskSpec) -> list[dict]:
    return [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}] if spec.secrets else []


def build_environment(spec: TaskSpec) -> dict[str, str]:
    if not spec.secrets:
        return {}
    return {SECRETS: FOLDER, VARIABLES: " ".join(secret.name for secret in spec.secrets if secret.is_variable)}


def has_secrets(pod: Mapping[str, Any]) -> bool:
    return any(volume["name"] == VOLUME for volume in pod["spec"].get("volumes", ()))
