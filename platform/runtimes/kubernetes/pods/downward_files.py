"""Small files for a task's container (accounts, gang hosts, tools), from pod annotations by a downwardAPI volume."""

import re
from dataclasses import dataclass, field, replace

from runtimes.contract.errors import Rejected
from runtimes.contract.task import TaskSpec
from runtimes.environment import MOST_NAMED, build_gang_files
from runtimes.kubernetes.pods import names
from runtimes.report_file import TOOLS, read_tools

ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,31}")
FILE = re.compile(r"[a-z0-9]([a-z0-9._-]{0,52}[a-z0-9])?")
PROGRAM_MODE, TEXT_MODE = 0o755, 0o644
VOLUME = "pod-files"


@dataclass(frozen=True)
class PodFiles:
    """Parts of a pod. files: {annotation: text}."""

    files: dict[str, str]
    volume: dict
    mounts: list[dict]
    place: dict = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


def name_peers(spec: TaskSpec) -> TaskSpec:
    """Give peers their DNS names; a single task uses 127.0.0.1."""
    if len(spec.peers) < 2:
        return replace(spec, peers=tuple(replace(peer, address="127.0.0.1") for peer in spec.peers))
    return replace(spec, peers=tuple(replace(peer, address=names.name_pod_host(peer.uuid)) for peer in spec.peers))


def list_peer_names(spec: TaskSpec) -> list[str]:
    """Return peers' names that must resolve before the task begins."""
    return [peer.address for peer in spec.peers[:MOST_NAMED]] if len(spec.peers) > 1 else []


def build_pod_files(spec: TaskSpec) -> PodFiles:
    """Build the files. spec: after `name_peers`. Raises Rejected for a bad role name."""
    hosts = build_gang_files(spec.peers)
    if strange := [name for name in hosts if not FILE.fullmatch(name)]:
        raise Rejected(f"Not the name of a role: {strange[0]!r}.")
    found = {"passwd": _passwd(spec), "group": _group(spec)}
    found |= {f"hosts.{name}": text for name, text in hosts.items()}
    found |= {f"{TOOLS}.{name}": text for name, text in read_tools().items()}
    mounts = [_mount(f"/etc/{name}", name) for name in ("passwd", "group")]
    mounts += [_mount(f"{names.TASK_ROOT}/{folder}", folder) for folder in (("hosts",) if hosts else ()) + (TOOLS,)]
    files = {f"{names.ANNOTATION_FILE}{name}": text for name, text in found.items()}
    volume = {"name": VOLUME, "downwardAPI": {"items": [_item(name, text) for name, text in sorted(found.items())]}}
    if len(spec.peers) < 2:
        return PodFiles(files, volume, mounts)
    place = {"hostname": names.name_pod(spec.uuid), "subdomain": names.GANG_SERVICE}
    return PodFiles(files, volume, mounts, place, {names.LABEL_GANG: "yes"})


def _passwd(spec: TaskSpec) -> str:
    name = spec.user if ACCOUNT.fullmatch(spec.user) else f"u{spec.uid}"
    return f"root:x:0:0::/root:/bin/sh\n{name}:x:{spec.uid}:{spec.gid}::{names.TASK_ROOT}/home:/bin/sh\n"


def _group(spec: TaskSpec) -> str:
    name = spec.team if ACCOUNT.fullmatch(spec.team) else f"g{spec.gid}"
    return f"root:x:0:\n{name}:x:{spec.gid}:\n"


def _item(name: str, text: str) -> dict:
    mode = PROGRAM_MODE if text.startswith("#!") else TEXT_MODE
    source = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{names.ANNOTATION_FILE}{name}']"}
    folder, _, rest = name.partition(".")
    return {"path": f"{folder}/{rest}" if rest else name, "fieldRef": source, "mode": mode}


def _mount(path: str, name: str) -> dict:
    return {"name": VOLUME, "mountPath": path, "subPath": name, "readOnly": True}
