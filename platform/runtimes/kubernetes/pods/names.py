"""Names, labels and annotations of our objects, from immutable uuids and numbers."""

import re

from runtimes.contract.errors import Rejected

UUID = re.compile(r"[0-9a-f]{32}")
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
INSTALL = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")

DOMAIN = "tessera.sh"
RDMA = f"{DOMAIN}/rdma"
"""The resource by which a container gets the devices of RDMA adapters, of which the agent tells the kubelet."""
LABEL_INSTALL = f"{DOMAIN}/install"
LABEL_TASK = f"{DOMAIN}/task"
LABEL_TEAM = f"{DOMAIN}/team"
LABEL_FORGOTTEN = f"{DOMAIN}/forgotten"
"""On a pod whose end is recorded: the hour of it. The pod stays a while so that a late start finds its name taken."""
LABEL_GANG = f"{DOMAIN}/gang"
"""On pods of gangs, which the service GANG_SERVICE of their namespace gives DNS names."""
LABEL_MANAGED = "app.kubernetes.io/managed-by"
ANNOTATION_EPOCH = f"{DOMAIN}/epoch"
ANNOTATION_SPEC = f"{DOMAIN}/spec"
"""Hash of the task's request, to recognise an existing pod of the same name."""
ANNOTATION_DIFFERS = f"{DOMAIN}/differs"
"""Hash of the task's request where the pod has another one: the pod still counts as the task, and admins are warned."""
ANNOTATION_LABEL = f"{DOMAIN}/label"
ANNOTATION_CHECKPOINT_S = f"{DOMAIN}/save-s"
"""Seconds that its checkpoint may take when it is stopped."""
ANNOTATION_CHECKPOINTS = f"{DOMAIN}/saves"
"""Its checkpoint folder below all homes: "20001/runs/a"."""
ANNOTATION_END = f"{DOMAIN}/end"
"""JSON {cause, detail} of a pod that never runs: on a tombstone, or written before a deletion."""
ANNOTATION_INVENTORY = f"{DOMAIN}/inventory"
"""On a node: its cards, links and NUMA nodes as JSON."""
ANNOTATION_FILE = f"file.{DOMAIN}/"
"""Prefix of annotations whose text becomes a file of that name in the container."""
FINALIZER = f"{DOMAIN}/recorded"
"""Finalizer that keeps an ended pod until its end is recorded, so that it is counted once."""
MANAGER = "tessera"
TASK_ROOT = "/tessera"
"""Where a task finds its files in its container."""
GANG_SERVICE = "tasks"
LOGINS = "tessera-logins"
"""The Secret with a team's registry logins, in its namespace."""

CARD_PREFIX = f"{DOMAIN}/g-"
CARD_UNIT_MIB = 256


def check_install(install: str) -> str:
    """Raise ValueError if it cannot be part of a namespace's name."""
    if not INSTALL.fullmatch(install):
        words = "use at most 20 small letters, digits and hyphens, a letter first."
        raise ValueError(f"TESSERA_INSTALL is {install!r}: {words}")
    return install


def check_uuid(uuid: str) -> str:
    if not UUID.fullmatch(uuid):
        raise Rejected(f"Not a task uuid: {uuid!r}.")
    return uuid


def name_pod(uuid: str) -> str:
    return f"t-{check_uuid(uuid)}"


def name_secret(uuid: str) -> str:
    """Return the Secret with what a task has of secrets."""
    return f"s-{check_uuid(uuid)}"


def name_pod_host(uuid: str) -> str:
    return f"{name_pod(uuid)}.{GANG_SERVICE}"


def name_team_namespace(install: str, gid: int) -> str:
    return f"{install}-team-{gid}"


def name_tombstone_namespace(install: str) -> str:
    return f"{install}-ended"


def is_installation_namespace(install: str, name: str) -> bool:
    return name == name_tombstone_namespace(install) or bool(re.fullmatch(rf"{re.escape(install)}-team-\d+", name))


def name_claim(install: str) -> str:
    """Return a team's PersistentVolumeClaim on the files volume."""
    return f"{install}-files"


def name_card_resource(index: int) -> str:
    """Return a card's extended resource, served by our device plugin on its node."""
    return f"{CARD_PREFIX}{index}"


def count_card_units(memory_mib: int) -> int:
    """Return a share's units, rounded down as the card's own are."""
    return max(memory_mib // CARD_UNIT_MIB, 1)
