"""What a task sees of people's files: one volume, which the platform has mounted too, and of it the task's own parts.

A pod mounts paths that nobody but the platform can shape: a home, a team's folder, an archive of code. What a job names
under `data` lies below these, where people may lay links, and a kubelet follows links to anywhere in the volume: it is
linked inside the container, where no link leads out. Why so: docs/notes/one-volume-for-all-files.md.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from runtimes.base import Mount, Rejected, TaskSpec, Unavailable
from runtimes.kubernetes import names
from runtimes.places import Place, ensure_place, place_path

VOLUME = "files"
ACCESS = ("ReadWriteMany", "ReadWriteOnce")
SIZE = re.compile(r"[1-9][0-9]{0,17}([kMGTP]|[KMGTP]i)?")
UMASKS = {"home": "022", "team": "007"}
"""Of what a job's mounts make, as the portal's own folders there."""


@dataclass(frozen=True)
class Storage:
    """storage_class: all its claims are the same volume. root: where the platform has that volume mounted. files, code:
    absolute, below root. size, access: what a claim asks for; ReadWriteOnce is for a cluster of one node.
    """

    storage_class: str
    root: Path
    files: Path
    code: Path
    size: str = "1Ti"
    access: str = "ReadWriteMany"


def check_storage(storage: Storage) -> Storage:
    """Raises ValueError that names the setting and what it may be."""
    if not names.NAME.fullmatch(storage.storage_class):
        raise ValueError(f"TESSERA_STORAGE_CLASS is {storage.storage_class!r}: give the name of a StorageClass.")
    if not SIZE.fullmatch(storage.size):
        raise ValueError(f"TESSERA_STORAGE_SIZE is {storage.size!r}: use a size such as 500Gi or 1Ti.")
    if storage.access not in ACCESS:
        raise ValueError(f"TESSERA_STORAGE_ACCESS is {storage.access!r}: use one of {', '.join(ACCESS)}.")
    for name, path in (("TESSERA_FILES", storage.files), ("TESSERA_CODE", storage.code)):
        if not path.is_relative_to(storage.root) or path == storage.root:
            raise ValueError(
                f"{name} is {path}, which is not on the shared volume."
                f" Name a folder below TESSERA_STORAGE, {storage.root}."
            )
    return storage


def check_files(spec: TaskSpec, storage: Storage | None) -> None:
    """Raises Rejected with words for what this task can never find here."""
    if storage is None:
        if spec.code_path or spec.mounts:
            raise Rejected(
                "This cluster has no storage for code and data. Use an image that brings them, or ask an administrator"
                " to set TESSERA_STORAGE_CLASS."
            )
        return
    if spec.code_path:
        _inside(storage, spec.code_path)
    for mount in spec.mounts:
        _check_mount(spec, mount, storage)


def prepare_files(spec: TaskSpec, storage: Storage) -> None:
    """Make its home and its team's folder, where a kubelet would make them as root, and let its own account read the
    archive: a pod sees no other. Raises Rejected for code that is gone, Unavailable where the volume refuses.
    """
    try:
        for place in (Place("home", spec.uid), Place("team", spec.gid)):
            ensure_place(storage.files, place, uid=spec.uid, gid=spec.gid)
    except OSError as error:
        raise Unavailable(f"The folders of {spec.user} and {spec.team} could not be made: {error}") from error
    try:
        if spec.code_path:
            os.chmod(spec.code_path, 0o444)
    except FileNotFoundError:
        raise Rejected("The code of this job is not there any more: submit it again.") from None
    except OSError as error:
        raise Unavailable(f"The code could not be opened to its job: {error}") from error


def build_volumes(install: str, storage: Storage | None) -> list[dict]:
    """Of the pod."""
    claim = {"claimName": names.claim_name(install)}
    return [{"name": VOLUME, "persistentVolumeClaim": claim}] if storage else []


def build_mounts(spec: TaskSpec, storage: Storage | None, seen_at: str) -> list[dict]:
    """Of the container: all of them parts of the one volume."""
    if storage is None:
        return []
    places = {"home": Place("home", spec.uid), "team": Place("team", spec.gid)}
    found = [_mount(storage, place_path(storage.files, places[kind]), f"{seen_at}/{kind}") for kind in places]
    for kind in sorted({mount.place.kind for mount in spec.mounts if mount.place and mount.read_only}):
        path = place_path(storage.files, places[kind])
        found.append(_mount(storage, path, _read_only(seen_at, kind), read_only=True))
    if spec.code_path:
        found.append(_mount(storage, spec.code_path, code_seen_at(spec, seen_at), read_only=True))
    for mount in spec.mounts:
        if mount.place is None:
            found.append(_mount(storage, mount.source, mount.target, read_only=mount.read_only))
    return found


def build_links(spec: TaskSpec, seen_at: str) -> list[str]:
    """What supervisor.sh is told of the job's data, four words for each: the umask with which the folder is made where
    it is missing, the folder, the folder as the job shall see it, and where.
    """
    words = []
    for mount in spec.mounts:
        if mount.place is not None:
            inside = os.path.normpath(mount.source)
            made = os.path.normpath(os.path.join(seen_at, mount.place.kind, inside))
            shown = os.path.join(_read_only(seen_at, mount.place.kind), inside) if mount.read_only else made
            target = os.path.join(seen_at, "work", os.path.normpath(mount.target))
            words += [UMASKS[mount.place.kind], made, os.path.normpath(shown), target]
    return words


def code_seen_at(spec: TaskSpec, seen_at: str) -> str:
    """Where the job's first process finds the archive, "" without one."""
    return f"{seen_at}/code.tar.gz" if spec.code_path else ""


def _read_only(seen_at: str, kind: str) -> str:
    return f"{seen_at}/read-only/{kind}"


def _mount(storage: Storage, path: str | os.PathLike, seen_at: str, *, read_only: bool = False) -> dict:
    mount = {"name": VOLUME, "mountPath": seen_at, "subPath": _inside(storage, path)}
    return mount | ({"readOnly": True} if read_only else {})


def _inside(storage: Storage, path: str | os.PathLike) -> str:
    """Relative to the volume. Raises Rejected for what lies outside."""
    found = os.path.relpath(os.path.normpath(path), storage.root)
    if found.split("/")[0] in (".", ".."):
        raise Rejected(f"{path} is not on the volume that jobs of this cluster see: it lies outside of {storage.root}.")
    return found


def _check_mount(spec: TaskSpec, mount: Mount, storage: Storage) -> None:
    if mount.place is None:
        _inside(storage, mount.source)
        if not mount.read_only or os.path.normpath(mount.target) != mount.source:
            raise Rejected(f"{mount.target} cannot be had: what the platform itself prepares is mounted as it lies.")
        return
    if mount.place not in (Place("home", spec.uid), Place("team", spec.gid)):
        raise Rejected(f"Data cannot be mounted at {mount.target!r}: it is somebody else's.")
    for path in (mount.source, mount.target):
        if "\0" in path or os.path.isabs(path) or os.path.normpath(path).split("/")[0] == "..":
            raise Rejected(f"Data cannot be mounted at {mount.target!r}: {path!r} leads out of where it belongs.")
    if os.path.normpath(mount.target) == ".":
        raise Rejected(f"Data cannot be mounted at {mount.target!r}: it is not inside of where the task works.")
