"""`bin/start --cluster`: the platform on this machine, and its jobs as pods of the cluster that KUBECONFIG names."""

import os
import secrets
import sys
from pathlib import Path

from config.supervisor import Failure, Program
from runtimes.base import Rejected, Unavailable
from runtimes.kubernetes.client import ApiServer
from runtimes.kubernetes.connection import BadKubeconfig, find_connection
from runtimes.kubernetes.names import check_install

CLASS, ONE_DIRECTORY = "tessera", "tessera.sh/one-directory"
"""Of bin/cluster: the class of volumes whose claims all are one directory of this machine."""
RUNTIME = "runtimes.kubernetes.runtime.KubernetesRuntime"
REMEDY = 'Start one on this machine: eval "$(bin/cluster up)". Or name another one by KUBECONFIG.'
MARK = "install"
"""The file of a data folder whose jobs are on a cluster: the name of this installation there."""


def check_cluster() -> None:
    """Raises Failure where there is no cluster, or none that answers us."""
    kubeconfig = os.environ.get("KUBECONFIG", "")
    if not kubeconfig:
        raise Failure("There is no cluster: KUBECONFIG names none.", REMEDY)
    try:
        with ApiServer(find_connection(kubeconfig)) as api:
            api.call("GET", "/api/v1/nodes", query={"limit": "1"})
    except BadKubeconfig as wrong:
        raise Failure(str(wrong), REMEDY) from None
    except (Unavailable, Rejected) as wrong:
        raise Failure(f"The cluster of KUBECONFIG={kubeconfig} does not answer: {wrong}", REMEDY) from None


def check_data(data: Path, *, cluster: bool) -> None:
    """One folder is of this machine's jobs or of a cluster's, for its rows name the nodes. Raises Failure."""
    if (data / "postgres").exists() and (data / MARK).exists() != cluster:
        what = "of this machine" if cluster else "of a cluster"
        how = "without --cluster" if cluster else "with --cluster"
        raise Failure(f"{data} is for jobs {what}.", f"Start it {how}, or name another place: --data DIR.")


def cluster_environment(data: Path) -> dict[str, str]:
    """Beside what is set already. Installations in one cluster must not meet: each keeps a name of its own."""
    path = data / MARK
    if not path.exists():
        try:
            path.write_text(check_install(os.environ.get("TESSERA_INSTALL") or f"local-{secrets.token_hex(4)}"))
        except ValueError as wrong:
            raise Failure(str(wrong), "Or leave TESSERA_INSTALL out: a name is made.") from None
    return {"TESSERA_RUNTIME": RUNTIME, "TESSERA_INSTALL": path.read_text()}


def storage_environment(install: str) -> dict[str, str]:
    """Where people's files lie, so that pods find them: on bin/cluster's volume, in a folder of this installation.

    {} where something else is set, or the cluster is another's.
    """
    if "TESSERA_STORAGE_CLASS" in os.environ:
        return {}
    with ApiServer(find_connection(os.environ["KUBECONFIG"])) as api:
        _, found = api.call("GET", f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}", handles=("gone",))
    root = Path(found.get("parameters", {}).get("directory", ""))
    if found.get("provisioner") != ONE_DIRECTORY or not root.is_dir() or not os.access(root, os.W_OK):
        return {}
    own = {f"TESSERA_{name.upper()}": str(root / install / name) for name in ("files", "code", "logs")}
    return {"TESSERA_STORAGE_CLASS": CLASS, "TESSERA_STORAGE": str(root), **own}


def node_here() -> tuple[str, Path] | None:
    """(name, the kubelet's folder of logs) of the cluster's node that is this machine; None where none is, or its logs
    may not be read.
    """
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        with ApiServer(find_connection(os.environ["KUBECONFIG"])) as api:
            for node in api.list_all("/api/v1/nodes").items:
                if node["status"].get("nodeInfo", {}).get("bootID") == boot_id:
                    _, told = api.call("GET", f"/api/v1/nodes/{node['metadata']['name']}/proxy/configz")
                    folder = Path(told["kubeletconfig"]["podLogsDir"])
                    return (node["metadata"]["name"], folder) if os.access(folder, os.R_OK) else None
    except (Unavailable, Rejected, KeyError):
        return None  # then logs come when their tasks have ended
    return None


def agent(log: Path, state: Path, url: str, pods: Path, token: str) -> Program:
    """Brings logs from this machine, and reports no cards: the node's own are simulated."""
    words = ["--server", url, "--state", str(state), "--pods", str(pods), "--install", os.environ["TESSERA_INSTALL"]]
    argv = [sys.executable, "-m", "agent", "--no-cards", *words]
    return Program("agent", argv, log, {"TESSERA_AGENT_TOKEN": token})


def watch(log: Path, manage: Path) -> Program:
    return Program("watch", [sys.executable, str(manage), "watch"], log, {"TESSERA_ROLE": "worker"})
