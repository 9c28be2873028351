"""`bin/start --cluster`: the platform on this machine, with jobs as pods of KUBECONFIG's cluster."""

import os
import secrets
import sys
from pathlib import Path

from config.embedded.data_dir import MARK
from config.embedded.supervisor import Failure, Program
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.kubernetes.api.client import ApiServer
from runtimes.kubernetes.api.credentials import BadKubeconfig, CredentialSource
from runtimes.kubernetes.pods.names import check_install

CLASS, ONE_DIRECTORY = "tessera", "tessera.sh/one-directory"
"""bin/cluster's storage class, whose claims all are one directory of this machine, and its provisioner."""
RUNTIME = "runtimes.kubernetes.runtime.KubernetesRuntime"
REMEDY = 'Start one on this machine: eval "$(bin/cluster up)". Or name another one by KUBECONFIG.'


def connect() -> ApiServer:
    """Return a client of the cluster that KUBECONFIG names. Raises Failure if it does not answer."""
    kubeconfig = os.environ.get("KUBECONFIG", "")
    if not kubeconfig:
        raise Failure("There is no cluster: KUBECONFIG names none.", REMEDY)
    try:
        api = ApiServer(CredentialSource(kubeconfig))
        api.call("GET", "/api/v1/nodes", query={"limit": "1"})
        return api
    except BadKubeconfig as wrong:
        raise Failure(str(wrong), REMEDY) from None
    except (Unavailable, Rejected) as wrong:
        raise Failure(f"The cluster of KUBECONFIG={kubeconfig} does not answer: {wrong}", REMEDY) from None


def cluster_environment(data: Path) -> dict[str, str]:
    """Return the runtime's variables, with a name for this installation."""
    path = data / MARK
    if not path.exists():
        try:
            path.write_text(check_install(os.environ.get("TESSERA_INSTALL") or f"local-{secrets.token_hex(4)}"))
        except ValueError as wrong:
            raise Failure(str(wrong), "Or leave TESSERA_INSTALL out: a name is made.") from None
    return {"TESSERA_RUNTIME": RUNTIME, "TESSERA_INSTALL": path.read_text()}


def storage_environment(api: ApiServer, install: str) -> dict[str, str]:
    """Return variables that put people's files on bin/cluster's shared volume, or {}."""
    if "TESSERA_STORAGE_CLASS" in os.environ:
        return {}
    _, found = api.call("GET", f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}", handles=("gone",))
    root = Path(found.get("parameters", {}).get("directory", ""))
    if found.get("provisioner") != ONE_DIRECTORY or not root.is_dir() or not os.access(root, os.W_OK):
        return {}
    own = {f"TESSERA_{name.upper()}": str(root / install / name) for name in ("files", "code", "logs")}
    return {"TESSERA_STORAGE_CLASS": CLASS, "TESSERA_STORAGE": str(root), **own}


def node_here(api: ApiServer) -> tuple[str, Path] | None:
    """Return (name, log folder) of the node on this machine, or None."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        for node in api.list_all("/api/v1/nodes").items:
            if node["status"].get("nodeInfo", {}).get("bootID") == boot_id:
                _, told = api.call("GET", f"/api/v1/nodes/{node['metadata']['name']}/proxy/configz")
                folder = Path(told["kubeletconfig"]["podLogsDir"])
                return (node["metadata"]["name"], folder) if os.access(folder, os.R_OK) else None
    except (Unavailable, Rejected, KeyError):
        return None  # logs then come when tasks end
    return None


def build_agent_program(log: Path, state: Path, url: str, pods: Path, token: str) -> Program:
    """Return the agent that ships logs, without cards."""
    words = ["--server", url, "--state", str(state), "--pods", str(pods), "--install", os.environ["TESSERA_INSTALL"]]
    argv = [sys.executable, "-m", "agent", "--no-cards", *words]
    return Program("agent", argv, log, {"TESSERA_AGENT_TOKEN": token})


def build_watch_program(log: Path, manage_py: Path) -> Program:
    """Return the program that runs `manage.py watch`."""
    return Program("watch", [sys.executable, str(manage_py), "watch"], log, {"TESSERA_ROLE": "worker"})
