"""A task's files: the parts of one shared volume that its pod mounts.

Mounted paths must be free of users' links, which kubelets follow anywhere in the volume; data is linked inside the
container. See docs/notes/one-volume-for-all-files.md.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.task import Mount, TaskSpec
from runtimes.kubernetes.pods import names
from runtimes.python_environment import FOLDER
from runtimes.report_file import FILE, make_report_file
from runtimes.storage.areas import CLAIM, AreaId, ensure_area, get_area_path

VOLUME = "files"
ACCESS = ("ReadWriteMany", "ReadWriteOnce")
ENVIRONMENT = os.path.join(names.TASK_ROOT, FOLDER)
SIZE = re.compile(r"[1-9][0-9]{0,17}([kMGTP]|[KMGTP]i)?")
VERSION = re.compile(r"[0-9a-f]{32}/[0-9]+")
UMASKS = {"home": "022", "team": "007"}
"""umask for folders made for a job's mounts, as for the portal's own folders."""


@dataclass(frozen=True)
class Storage:
    """The shared volume. storage_class: its claims are this volume. root: its mount here; files, code: below."""

    storage_class: str
    root: Path
    files: Path
    code: Path
    size: str = "1Ti"
    access: str = "ReadWriteMany"

    @property
    def reports(self) -> Path:
        """Where the files lie in which tasks report numbers. Each task sees its own alone, as a file."""
        return self.files / "report"


def read_storage(settings: Mapping[str, Any] | None) -> Storage | None:
    """Return the settings' volume; None if they name no class."""
    if not settings or not settings["storage_class"]:
        return None
    folders = {name: Path(settings[name]).absolute() for name in ("root", "files", "code")}
    return Storage(**{**settings, **folders})


def check_storage(storage: Storage) -> Storage:
    """Raise ValueError naming the setting and its allowed values."""
    if not names.NAME.fullmatch(storage.storage_class):
        raise ValueError(f"TESSERA_STORAGE_CLASS is {storage.storage_class!r}: give the name of a StorageClass.")
    if not SIZE.fullmatch(storage.size):
        raise ValueError(f"TESSERA_STORAGE_SIZE is {storage.size!r}: use a size such as 500Gi or 1Ti.")
    if storage.access not in ACCESS:
        raise ValueError(f"TESSERA_STORAGE_ACCESS is {storage.access!r}: use one of {', '.join(ACCESS)}.")
    for name, path in (("TESSERA_FILES", storage.files), ("TESSERA_CODE", storage.code)):
        if not path.is_relative_to(storage.root) or path == storage.root:
            remedy = f"Name a folder below TESSERA_STORAGE, {storage.root}."
            raise ValueError(f"{name} is {path}, which is not on the shared volume. {remedy}")
    return storage


def check_files(spec: TaskSpec, storage: Storage | None) -> None:
    """Raise Rejected for code or data that cannot be mounted."""
    if storage is None:
        if spec.code_path or spec.mounts or spec.environment:
            raise Rejected(
                "This cluster has no storage for code and data. Use an image that brings them, or ask an administrator"
                " to set TESSERA_STORAGE_CLASS."
            )
        return
    if spec.code_path:
        _relative_path(storage, spec.code_path)
    for mount in (*spec.mounts, *([spec.environment] if spec.environment else [])):
        _check_mount(spec, mount, storage)


def prepare_files(spec: TaskSpec, storage: Storage) -> None:
    """Make home, team folder and the file for its numbers, and let the task read its code.

    Raises Rejected if the code is gone, Unavailable.
    """
    try:
        for area in (AreaId("home", spec.uid), AreaId("team", spec.gid)):
            ensure_area(storage.files, area, uid=spec.uid, gid=spec.gid)
        storage.reports.mkdir(mode=0o711, exist_ok=True)
        make_report_file(report := storage.reports / name_report(spec.uuid))
        os.chown(report, spec.uid, spec.gid)
    except OSError as error:
        raise Unavailable(f"The folders and files of {spec.user} and {spec.team} could not be made: {error}") from error
    try:
        if spec.code_path:
            os.chmod(spec.code_path, 0o444)
    except FileNotFoundError:
        raise Rejected("The code of this job is not there any more: submit it again.") from None
    except OSError as error:
        raise Unavailable(f"The code could not be opened to its job: {error}") from error


def name_report(uuid: str) -> str:
    """Return the name of a task's file of numbers. As a mount of its own it cannot be exchanged for a link."""
    return f"{uuid}.jsonl"


def build_volumes(install: str, spec: TaskSpec, storage: Storage | None) -> list[dict]:
    if storage is None:
        return []
    claims: dict[str, dict] = {VOLUME: {"claimName": names.name_claim(install)}}
    claims |= {name: {"claimName": claim} for claim, name in _name_claims(spec).items()}
    return [{"name": name, "persistentVolumeClaim": claim} for name, claim in claims.items()]


def build_mounts(spec: TaskSpec, storage: Storage | None) -> list[dict]:
    if storage is None:
        return []
    areas = {"home": AreaId("home", spec.uid), "team": AreaId("team", spec.gid)}
    found = [_mount(storage, get_area_path(storage.files, areas[kind]), f"{names.TASK_ROOT}/{kind}") for kind in areas]
    report = storage.reports / name_report(spec.uuid)
    found.append(_mount(storage, report, os.path.join(names.TASK_ROOT, FILE)))
    shown = {mount.place.kind for mount in spec.mounts if mount.place and mount.read_only}
    for kind in sorted(shown & areas.keys()):
        path = get_area_path(storage.files, areas[kind])
        found.append(_mount(storage, path, _read_only(kind), read_only=True))
    if spec.code_path:
        found.append(_mount(storage, spec.code_path, build_code_path(spec), read_only=True))
    if spec.environment and spec.environment.place and spec.environment.place.kind == "dataset":
        version = get_area_path(storage.files, spec.environment.place) / spec.environment.source
        found.append(_mount(storage, version, ENVIRONMENT, read_only=True))
    claims = _name_claims(spec)
    for place, read_only in sorted(_list_site(spec)):
        mounted = {"name": claims[place], "mountPath": _site_path(claims[place], read_only)}
        found.append(mounted | ({"readOnly": True} if read_only else {}))
    for mount in spec.mounts:
        if mount.place is None:
            found.append(_mount(storage, mount.source, mount.target, read_only=mount.read_only))
        elif mount.place.kind == "dataset":
            version = get_area_path(storage.files, mount.place) / mount.source
            found.append(_mount(storage, version, _dataset_path(mount), read_only=True))
    return found


def build_links(spec: TaskSpec) -> list[str]:
    """Return supervisor.sh's four words per data folder: umask, folder, folder as shown, link."""
    words = []
    if (
        spec.environment and spec.environment.place and spec.environment.place.kind == "home"
    ):  # links may be in its path
        made = os.path.join(names.TASK_ROOT, "home", os.path.normpath(spec.environment.source))
        words += [UMASKS["home"], made, made, ENVIRONMENT]
    claims = _name_claims(spec)
    for mount in spec.mounts:
        if mount.place is not None and mount.place.kind in ("dataset", "volume"):
            made = _dataset_path(mount) if mount.place.kind == "dataset" else _volume_path(mount, claims)
            target = os.path.join(names.TASK_ROOT, "work", os.path.normpath(mount.target))
            words += [UMASKS["home"], made, made, target]
        elif mount.place is not None:
            inside = os.path.normpath(mount.source)
            made = os.path.normpath(os.path.join(names.TASK_ROOT, mount.place.kind, inside))
            shown = os.path.join(_read_only(mount.place.kind), inside) if mount.read_only else made
            target = os.path.join(names.TASK_ROOT, "work", os.path.normpath(mount.target))
            words += [UMASKS[mount.place.kind], made, os.path.normpath(shown), target]
    return words


def build_code_path(spec: TaskSpec) -> str:
    return f"{names.TASK_ROOT}/code.tar.gz" if spec.code_path else ""


def _dataset_path(mount: Mount) -> str:
    """Return where a version is mounted; its name is no secret inside."""
    assert mount.place is not None
    return f"{names.TASK_ROOT}/datasets/{mount.place.number}/{mount.source}"


def _list_site(spec: TaskSpec) -> set[tuple[str, bool]]:
    """Return the claims of the site's volumes, each with whether it is mounted read-only."""
    places = [(mount.place, mount.read_only) for mount in spec.mounts]
    return {(str(place.number), read_only) for place, read_only in places if place and place.kind == "volume"}


def _name_claims(spec: TaskSpec) -> dict[str, str]:
    """Return the names in the pod of the site's volumes, by claim: kubelets wait for ever on a claim with two."""
    claims = sorted({claim for claim, _ in _list_site(spec)})
    return {claim: f"volume-{number}" for number, claim in enumerate(claims)}


def _site_path(name: str, read_only: bool) -> str:
    return _read_only(name) if read_only else f"{names.TASK_ROOT}/volumes/{name}"


def _volume_path(mount: Mount, claims: Mapping[str, str]) -> str:
    assert mount.place is not None
    return os.path.normpath(f"{_site_path(claims[str(mount.place.number)], mount.read_only)}/{mount.source}")


def _read_only(kind: str) -> str:
    return f"{names.TASK_ROOT}/read-only/{kind}"


def _mount(storage: Storage, path: str | os.PathLike, mount_path: str, *, read_only: bool = False) -> dict:
    mount = {"name": VOLUME, "mountPath": mount_path, "subPath": _relative_path(storage, path)}
    return mount | ({"readOnly": True} if read_only else {})


def _relative_path(storage: Storage, path: str | os.PathLike) -> str:
    """Return the path relative to the volume. Raises Rejected outside."""
    found = os.path.relpath(os.path.normpath(path), storage.root)
    if found.split("/")[0] in (".", ".."):
        raise Rejected(f"{path} is not on the volume that jobs of this cluster see: it lies outside of {storage.root}.")
    return found


def _check_mount(spec: TaskSpec, mount: Mount, storage: Storage) -> None:
    if mount.place is None:
        _relative_path(storage, mount.source)
        if not mount.read_only or os.path.normpath(mount.target) != mount.source:
            raise Rejected(f"{mount.target} cannot be had: what the platform itself prepares is mounted as it lies.")
        return
    if mount.place.kind == "dataset":
        if not mount.read_only or not VERSION.fullmatch(f"{mount.place.number}/{mount.source}"):
            raise Rejected(
                f"Data cannot be mounted at {mount.target!r}: a version of a dataset is mounted as a whole, read-only."
            )
    elif mount.place.kind == "volume":
        if not CLAIM.fullmatch(str(mount.place.number)):
            raise Rejected(f"Data cannot be mounted at {mount.target!r}: {mount.place.number!r} is no claim's name.")
    elif mount.place not in (AreaId("home", spec.uid), AreaId("team", spec.gid)):
        raise Rejected(f"Data cannot be mounted at {mount.target!r}: it is somebody else's.")
    for path in (mount.source, mount.target):
        if "\0" in path or os.path.isabs(path) or os.path.normpath(path).split("/")[0] == "..":
            raise Rejected(f"Data cannot be mounted at {mount.target!r}: {path!r} leads out of where it belongs.")
    if os.path.normpath(mount.target) == ".":
        raise Rejected(f"Data cannot be mounted at {mount.target!r}: it is not inside of where the task works.")
