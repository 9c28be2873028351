"""A probe pod that tests, from a task's place, network policies and DNS."""

import time
from collections.abc import Iterator
from typing import Any

from runtimes.contract.runtime import Finding
from runtimes.kubernetes.api.client import ApiServer
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.manifest import InstallConfig

WITHIN_S = 90
LOOK_S = 0.5
OPEN, MUTE, NAMELESS = 1, 2, 4
"""Bits of its exit code: the API server answered; the reachable name server did not; no names were resolved."""

# Team policies block the API server but allow the name server, which proves that connections work.
TRIES = """\
try() {
  if command -v nc; then echo | nc -w 3 "$1" "$2"
  elif command -v bash; then timeout 3 bash -c ": </dev/tcp/$1/$2"
  else python3 -c "import socket; socket.create_connection(('$1', $2), 3)"
  fi
}
found=0
if try "$KUBERNETES_SERVICE_HOST" "$KUBERNETES_SERVICE_PORT"; then found=1; fi
server=$(while read -r word address; do [ "$word" != nameserver ] || echo "$address"; done </etc/resolv.conf)
try "${server%%[!0-9a-f.:]*}" 53 || found=$((found + 2))
name=kubernetes.default.svc
getent hosts $name || nslookup $name || nslookup $name.cluster.local || found=$((found + 4))
exit $found
"""


def run_probe(api: ApiServer, config: InstallConfig, namespace: str) -> Iterator[Finding]:
    """Run the probe pod once and yield its findings. Raises Unavailable, Rejected."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    _, pod = api.call("POST", path, build_probe(config, namespace))
    mine = f"{path}/{pod['metadata']['name']}"
    try:
        code, words = _wait_for_exit(api, mine)
    finally:
        api.call("DELETE", mine, handles=("gone",))
    if code is None:
        remedy = f"Look at the events of the namespace {namespace}, and at TESSERA_IMAGE, whose sh it ran."
        yield Finding("network", "note", f"The pod that should try it did not end: {words}", remedy)
        return
    yield _judge_policies(code)
    if code & NAMELESS:
        remedy = (
            "Tasks may ask the pods of kube-system for names. Where the cluster's DNS is elsewhere, name it in "
            "TESSERA_JOBS_PRIVATE, such as 169.254.20.10:53 of NodeLocal DNSCache."
        )
        yield Finding("dns", "bad", "A task finds no names: kubernetes.default.svc is not known to it.", remedy)
    else:
        yield Finding("dns", "ok", "A task finds names.")


def build_probe(config: InstallConfig, namespace: str) -> dict:
    """Return a Pod that admission sees as a task and reconciliation ignores."""
    container = {
        "name": "main",
        "image": config.image,
        "imagePullPolicy": config.pull,
        "command": ["/bin/sh", "-c", TRIES],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}, "requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    nobody = {"runAsUser": 65534, "runAsGroup": 65534, "runAsNonRoot": True}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "activeDeadlineSeconds": WITHIN_S,
        "securityContext": {**nobody, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    if config.pull_secret:
        spec["imagePullSecrets"] = [{"name": config.pull_secret}]
    meta = {"generateName": "doctor-", "namespace": namespace, "labels": {names.LABEL_MANAGED: names.MANAGER}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _judge_policies(code: int) -> Finding:
    if code & OPEN:
        remedy = "Use a network plugin that enforces NetworkPolicies, such as Cilium or Calico."
        return Finding("network", "bad", "A task reached the API server, which its team's policy closes.", remedy)
    if code & MUTE:
        words = "A task reached neither the API server nor the name server: whether policies hold is not known."
        remedy = "Name an image with nc, bash or python3 as TESSERA_IMAGE and ask again."
        return Finding("network", "note", words, remedy)
    return Finding("network", "ok", "A task cannot reach the API server: network policies hold.")


def _wait_for_exit(api: ApiServer, path: str) -> tuple[int | None, str]:
    """Return (exit code, ""), or (None, the cluster's reason) after WITHIN_S."""
    until = time.monotonic() + WITHIN_S
    while True:
        _, pod = api.call("GET", path)
        state: dict[str, Any] = next((each["state"] for each in pod["status"].get("containerStatuses", ())), {})
        if ended := state.get("terminated"):
            return ended["exitCode"], ""
        if time.monotonic() > until or pod["status"].get("phase") == "Failed":
            said: dict[str, str] = state.get("waiting") or next(iter(pod["status"].get("conditions", ())), {})
            return None, said.get("message") or said.get("reason") or pod["status"].get("phase", "")
        time.sleep(LOOK_S)
