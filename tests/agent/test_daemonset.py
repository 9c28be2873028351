"""deploy/kubernetes/agent.yaml: what it starts is what the agent understands, and the API server takes it."""

from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from agent.daemon.options import STATE, parse_arguments
from tests.local_cluster import Kubectl

BESIDE_OTHERS = True
ROOT = Path(__file__).resolve().parents[2]
NAMESPACE, DAEMONS = yaml.safe_load_all((ROOT / "deploy/kubernetes/agent.yaml").read_text())
POD = DAEMONS["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_the_agent_understands_what_it_is_started_with(tmp_path):
    (tmp_path / "slicehook").touch()
    built = "--slice=/usr/local/lib/tessera/slice"
    assert built in CONTAINER["args"] and CONTAINER["command"] == ["python", "-m", "agent"]
    options = parse_arguments([f"--slice={tmp_path}" if word == built else word for word in CONTAINER["args"]])
    assert str(options.state) == STATE and options.token_file == Path("/enrolment/$(NODE)")
    assert "TESSERA_SLICE=/usr/local/lib/tessera/slice" in (ROOT / "Dockerfile").read_text()


def test_every_path_that_it_writes_is_the_hosts_own_and_named_alike():
    """CDI specs and hooks are read on the host: a path that differs would lead nowhere."""
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in CONTAINER["volumeMounts"]}
    host = {path: volumes[mount["name"]].get("hostPath", {}).get("path") for path, mount in mounts.items()}
    for path in (STATE, "/etc/cdi", "/var/lib/kubelet/device-plugins"):
        assert host[path] == path and not mounts[path].get("readOnly")
    assert {mount["name"] for mount in mounts.values()} == set(volumes)
    assert volumes["enrolment"]["secret"]["optional"] is True


def test_it_has_no_capability_and_no_account():
    assert CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not POD["automountServiceAccountToken"]
    assert not {"hostNetwork", "hostIPC"} & POD.keys() and "privileged" not in CONTAINER["securityContext"]


@pytest.mark.kubernetes
def test_the_api_server_takes_it(kubeconfig):
    name = f"agents-{uuid4().hex[:8]}"
    kubectl = Kubectl(kubeconfig, name)
    kubectl.create({**NAMESPACE, "metadata": {**NAMESPACE["metadata"], "name": name}})
    try:
        body = {**DAEMONS, "metadata": {**DAEMONS["metadata"], "namespace": name}}
        assert "created" in kubectl("create", "--dry-run=server", "-f", "-", body=body)
    finally:
        kubectl("delete", "namespace", name, "--wait=false")
