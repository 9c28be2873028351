"""Paths and fixed addresses of `bin/cluster`, one per machine.

Parts listen on the bridge: pods reach it, and Kubernetes accepts it, unlike loopback.
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

OWNER = Path("/run/tessera-cluster.json")  # names this machine's state folder until reboot
BEFORE = "before.json"  # the host's recorded state: first file of a state folder, deleted last
LOCK = Path("/run/tessera-cluster.lock")
DEFAULT_STATE = Path("/var/lib/tessera-cluster")

BRIDGE = "tessera0"
ADDRESS = "10.88.0.1"  # of bridge, node, API server, registry and DNS
POD_CIDR = "10.88.0.0/24"
FAKE_POD_CIDR = "10.200.0.1/16"  # of fake nodes' pods; unused
SERVICE_CIDR = "10.96.0.0/24"
SERVICE_ADDRESS = "10.96.0.1"  # kubernetes.default.svc: first of SERVICE_CIDR
API_PORT, REGISTRY_PORT, KWOK_PORT, ETCD_PEER_PORT = 6443, 5000, 10247, 2380
NODE_NAME = "real-0"
REGISTRY = f"{ADDRESS}:{REGISTRY_PORT}"
DOMAIN = "cluster.local"


def report(line: str, end: str = "\n") -> None:
    """Print for people; the shell evaluates stdout."""
    print(line, end=end, file=sys.stderr, flush=True)


class Refusal(Exception):
    """Why the cluster cannot be built, started or stopped, and the remedy."""


@dataclass(frozen=True)
class ClusterPaths:
    """A cluster's state and cache folders."""

    state: Path
    cache: Path

    @property
    def bin(self) -> Path:
        return self.state / "bin"

    @property
    def certificates(self) -> Path:
        return self.state / "certificates"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "admin.kubeconfig"

    @property
    def shared(self) -> Path:
        """The directory of claims of class `tessera`."""
        return self.state / "shared"

    def log(self, name: str) -> Path:
        return self.state / "logs" / f"{name}.log"


def find_paths(state: str, cache: str) -> ClusterPaths:
    """Return the named folders, else the running cluster's, else defaults. Raise Refusal."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    named = Path(state).resolve() if state else None
    owner = load_owner()
    if named and owner and named != owner:
        raise Refusal(
            f"A cluster whose state is in {owner} has this machine's bridge and node already.\n"
            f"  Use that one (leave --state out), or stop it first: bin/cluster down --state {owner}"
        )
    return ClusterPaths(
        named or owner or DEFAULT_STATE, Path(cache).resolve() if cache else caches / "tessera" / "cluster"
    )


def load_owner() -> Path | None:
    try:
        return Path(json.loads(OWNER.read_text())["state"])
    except FileNotFoundError:
        return None


def claim(paths: ClusterPaths) -> None:
    """Record the machine's state folder. Raise Refusal if it has other files, as `down` deletes it."""
    if paths.state.exists() and any(paths.state.iterdir()) and not (paths.state / BEFORE).exists():
        raise Refusal(f"{paths.state} has files that are not a cluster's.\n  Name an empty folder or a new one.")
    write(OWNER, json.dumps({"state": str(paths.state)}))


def make_folders(paths: ClusterPaths) -> None:
    for name in ("bin", "certificates", "logs"):
        (paths.state / name).mkdir(parents=True, exist_ok=True)
    paths.state.chmod(0o700)


def write(path: Path, text: str) -> None:
    """Replace a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)
