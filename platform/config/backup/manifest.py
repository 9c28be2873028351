"""What a backup says of itself: version, time, checksum of each part, and what was running."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

NAME = "manifest.json"
FORMAT = 1


class Unusable(Exception):
    """A backup that cannot be restored here: the cause and the remedy."""

    def __init__(self, cause: str, remedy: str):
        super().__init__(f"{cause}\n  {remedy}")


@dataclass(frozen=True)
class Part:
    """A file of a backup. files: how many an archive holds."""

    sha256: str
    bytes: int
    files: int = 0


@dataclass(frozen=True)
class Manifest:
    """version: of the program. made_at: of the database's snapshot, ISO 8601. migrations: {app: names}. parts: by file
    name. homes: "copy" or "reference". areas: homes and team folders, [{"kind", "number", "of"}]. missing: files that
    the database names and that were not there. rows: {table: how many}. running: uuids of tasks that held resources.
    settings: small files beside the data. sealed: whether the secrets are in it. install: its name on a cluster.
    """

    version: str
    made_at: str
    migrations: Mapping[str, list[str]]
    homes: str
    rows: Mapping[str, int]
    running: list[str]
    files_root: str
    install: str
    format: int = FORMAT
    parts: Mapping[str, Part] = field(default_factory=dict)
    areas: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    settings: Mapping[str, str] = field(default_factory=dict)
    sealed: bool = False


def write_manifest(folder: Path, manifest: Manifest) -> None:
    told = asdict(manifest)
    text = json.dumps({"checksum": _checksum(told), **told}, indent=1)
    with open(folder / NAME, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_manifest(folder: Path) -> Manifest:
    """Read a backup's manifest and compare it with its checksum. Raises Unusable."""
    damaged = Unusable(f"{folder} is damaged: its {NAME} is not what was written.", "Take another backup.")
    try:
        told = json.loads((folder / NAME).read_text())
    except OSError:
        raise Unusable(f"{folder} is no backup: it has no {NAME}.", "Name the folder that `backup` made.") from None
    except ValueError:
        raise damaged from None
    if not isinstance(told, dict) or told.pop("checksum", "") != _checksum(told):
        raise damaged
    if told["format"] > FORMAT:
        raise Unusable(
            f"{folder} was made by Tessera {told['version']}, whose backups this version does not know.",
            f"Restore it with Tessera {told['version']} or newer.",
        )
    return Manifest(**{**told, "parts": {name: Part(**part) for name, part in told["parts"].items()}})


def check_parts(folder: Path, manifest: Manifest) -> None:
    """Compare each part with its checksum. Raises Unusable."""
    for name, part in manifest.parts.items():
        try:
            with open(folder / name, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise Unusable(f"{folder} is damaged: {name}: {error.strerror}.", "Take another backup.") from None
        if found != part.sha256:
            raise Unusable(f"{folder} is damaged: {name} is not what was written.", "Take another backup.")


def check_version(manifest: Manifest, known: Mapping[str, set[str]]) -> None:
    """Raise Unusable if the database has a migration that this program does not know. known: {app: names}."""
    newer = [
        f"{app}.{name}"
        for app, names in manifest.migrations.items()
        for name in names
        if name not in known.get(app, ())
    ]
    if newer:
        raise Unusable(
            f"It was made by a newer Tessera ({manifest.version}): this one does not know {newer[0]}.",
            f"Install Tessera {manifest.version} or newer, then restore.",
        )


def _checksum(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
