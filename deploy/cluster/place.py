"""Where the cluster of `bin/cluster` keeps its things, and the addresses it uses: fixed, one cluster for each machine.

The node's bridge carries everything that listens. Its address belongs to this machine alone, pods can reach it (which
they can't of 127.0.0.1), and Kubernetes takes it for a node's (which it refuses for a loopback address).
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

OWNER = Path("/run/tessera-cluster.json")  # which state folder has this machine's cluster; gone after a reboot
BEFORE = "before.json"  # the first file of a state folder and the last to go: how the machine was (machine.py)
LOCK = Path("/run/tessera-cluster.lock")
DEFAULT_STATE = Path("/var/lib/tessera-cluster")

BRIDGE = "tessera0"
ADDRESS = "10.88.0.1"  # of the bridge, the node, the API server, the registry and the name server
POD_CIDR = "10.88.0.0/24"
FAKE_POD_CIDR = "10.200.0.1/16"  # pods of fake nodes say that they have such an address; nothing listens there
SERVICE_CIDR = "10.96.0.0/24"
SERVICE_ADDRESS = "10.96.0.1"  # kubernetes.default.svc: the first of SERVICE_CIDR
API_PORT, REGISTRY_PORT, KWOK_PORT, ETCD_PEER_PORT = 6443, 5000, 10247, 2380
NODE_NAME = "real-0"
REGISTRY = f"{ADDRESS}:{REGISTRY_PORT}"
DOMAIN = "cluster.local"


def say(line: str, end: str = "\n") -> None:
    """What a person at the keyboard reads. Standard output is for the shell: eval "$(bin/cluster up)"."""
    print(line, end=end, file=sys.stderr, flush=True)


class Refusal(Exception):
    """Why the cluster cannot be built, started or stopped, and what to do about it: sentences for a person."""


@dataclass(frozen=True)
class Place:
    """One cluster's state folder and the cache of what was built."""

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
        """What every claim of the class `tessera` is. Programs of this machine may use it as pods do."""
        return self.state / "shared"

    def log(self, name: str) -> Path:
        return self.state / "logs" / f"{name}.log"


def find_place(state: str, cache: str) -> Place:
    """The folders that were named, else the machine's running cluster, else the defaults.

    Raises Refusal when another state folder than the named one has this machine's cluster.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    named = Path(state).resolve() if state else None
    owner = load_owner()
    if named and owner and named != owner:
        raise Refusal(
            f"A cluster whose state is in {owner} has this machine's bridge and node already.\n"
            f"  Use that one (leave --state out), or stop it first: bin/cluster down --state {owner}"
        )
    return Place(named or owner or DEFAULT_STATE, Path(cache).resolve() if cache else caches / "tessera" / "cluster")


def load_owner() -> Path | None:
    try:
        return Path(json.loads(OWNER.read_text())["state"])
    except FileNotFoundError:
        return None


def claim(place: Place) -> None:
    """Make the state folder, and write down that this machine's cluster is there before anything else is changed.

    Raises Refusal for a folder with other things in it: `down` deletes the folder.
    """
    if place.state.exists() and any(place.state.iterdir()) and not (place.state / BEFORE).exists():
        raise Refusal(f"{place.state} has files that are not a cluster's.\n  Name an empty folder or a new one.")
    write(OWNER, json.dumps({"state": str(place.state)}))


def make_folders(place: Place) -> None:
    for name in ("bin", "certificates", "logs"):
        (place.state / name).mkdir(parents=True, exist_ok=True)
    place.state.chmod(0o700)


def write(path: Path, text: str) -> None:
    """The whole file or the one before it: a crash leaves no half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)
