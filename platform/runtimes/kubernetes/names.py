"""What things of ours are called in a cluster: names come from uuids and numbers that are for life, not from people."""

import re

from runtimes.base import Rejected

UUID = re.compile(r"[0-9a-f]{32}")
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
INSTALL = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")

DOMAIN = "tessera.sh"
LABEL_INSTALL = f"{DOMAIN}/install"
LABEL_TASK = f"{DOMAIN}/task"
LABEL_TEAM = f"{DOMAIN}/team"
LABEL_FORGOTTEN = f"{DOMAIN}/forgotten"
"""On a pod whose end is recorded: the hour of it. It stays a while, so that a late start of it finds its name taken."""
LABEL_GANG = f"{DOMAIN}/gang"
"""On the pods of gangs: the service GANG_SERVICE of their namespace gives each a name."""
LABEL_MANAGED = "app.kubernetes.io/managed-by"
NOTE_EPOCH = f"{DOMAIN}/epoch"
NOTE_SPEC = f"{DOMAIN}/spec"
"""A hash of what its task was asked to be: who finds its name taken knows by it whether it is the same."""
NOTE_DIFFERS = f"{DOMAIN}/differs"
"""The hash of what its task should have been, where that is something else: it is followed, and admins are told."""
NOTE_LABEL = f"{DOMAIN}/label"
NOTE_SAVE_S = f"{DOMAIN}/save-s"
"""How long its checkpoint may take when it is stopped."""
NOTE_SAVES = f"{DOMAIN}/saves"
"""Where in a home its checkpoints are: "20001/runs/a"."""
NOTE_END = f"{DOMAIN}/end"
"""Why a pod ends that never will have run, as JSON: cause, detail. On a tombstone, or written before a deletion."""
NOTE_INVENTORY = f"{DOMAIN}/inventory"
"""On a node: its cards, their links and its NUMA nodes, as JSON."""
NOTE_FILE = f"file.{DOMAIN}/"
"""Followed by a name: the text of a file that the pod's container finds."""
FINALIZER = f"{DOMAIN}/recorded"
"""An ended pod stays until its end is recorded: so it is counted once."""
MANAGER = "tessera"
GANG_SERVICE = "tasks"
LOGINS = "tessera-logins"
"""The Secret of a team's logins at registries, in its namespace."""

CARD_PREFIX = f"{DOMAIN}/g-"
CARD_UNIT_MIB = 256


def check_install(install: str) -> str:
    """Raises ValueError for an id that cannot be part of a namespace's name."""
    if not INSTALL.fullmatch(install):
        raise ValueError(
            f"TESSERA_INSTALL is {install!r}: use at most 20 small letters, digits and hyphens, a letter first."
        )
    return install


def check_uuid(uuid: str) -> str:
    if not UUID.fullmatch(uuid):
        raise Rejected(f"Not a task uuid: {uuid!r}.")
    return uuid


def pod_name(uuid: str) -> str:
    return f"t-{check_uuid(uuid)}"


def pod_address(uuid: str) -> str:
    """The name by which the pods of its namespace find a pod of a gang, from before it runs until it has ended."""
    return f"{pod_name(uuid)}.{GANG_SERVICE}"


def team_namespace(install: str, gid: int) -> str:
    return f"{install}-team-{gid}"


def system_namespace(install: str) -> str:
    """For what belongs to no team: the marks of tasks that were stopped before they had a pod."""
    return f"{install}-ended"


def is_own_namespace(install: str, name: str) -> bool:
    return name == system_namespace(install) or bool(re.fullmatch(rf"{re.escape(install)}-team-\d+", name))


def claim_name(install: str) -> str:
    """Of each team's namespace: its way to the volume that has everybody's files."""
    return f"{install}-files"


def card_resource(index: int) -> str:
    """The extended resource of a node's card, served by our device plugin. The pod names the node besides."""
    return f"{CARD_PREFIX}{index}"


def card_units(memory_mib: int) -> int:
    """How many of a card's units a share takes. Rounded down, as the card's own are: what fits the ledger fits."""
    return max(memory_mib // CARD_UNIT_MIB, 1)
