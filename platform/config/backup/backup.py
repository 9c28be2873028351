"""Make a backup of an installation that runs: the database first, then every file that it names."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from django.conf import settings

from config.backup.database import count_rows, dump_database, open_snapshot, read_migrations
from config.backup.manifest import Manifest, Part, Unusable, write_manifest
from config.backup.sealing import seal
from config.backup.trees import HashingWriter, pack_tree
from jobs.code.archive import code_file
from jobs.states import HOLDING
from portal.access.ssh_endpoint import host_key_file, public_key_file
from runtimes.log_store import LogStore
from runtimes.storage.areas import AreaId, get_area_path

DATABASE, SECRETS = "database.dump", "secrets.sealed"
TREES = {"logs": "logs.tar.gz", "code": "code.tar.gz", "files": "homes.tar.gz"}
LOCKS = frozenset({"home/.lock", "team/.lock", "dataset/.lock", "dataset-store/taking/.lock"})
PARTIAL = ".tessera-backup.partial"
SETTINGS = ("gpus", "install")
"""Small files of the data directory that say how an embedded installation is started."""


def find_roots() -> dict[str, Path]:
    """Return {name: folder} of what is kept outside of the database."""
    return {"logs": settings.TESSERA_LOGS, "code": settings.TESSERA_CODE, "files": settings.TESSERA_FILES}


def make_backup(folder: Path, key: X25519PublicKey | None, *, copies_homes: bool) -> tuple[Path, Manifest]:
    """Write a backup into a folder; return its path and manifest. Raises Unusable, OSError.

    It has its final name only when it is whole and on disk.
    """
    _check_place(folder)
    with _partial(folder) as fresh:
        with open_snapshot() as (cursor, snapshot):
            manifest = _describe(cursor, copies_homes)
            named = list(_list_named(cursor))
            parts = {DATABASE: dump_database(snapshot, fresh / DATABASE)}
        for name, root in find_roots().items():
            if name != "files" or copies_homes:
                parts[TREES[name]] = pack_tree(root, fresh / TREES[name], LOCKS.__contains__)
        if key is not None:
            parts[SECRETS] = _write_part(fresh / SECRETS, seal(json.dumps(read_secrets()).encode(), key))
        missing = [what for what, path in named if not path.exists()]
        manifest = replace(manifest, parts=parts, missing=missing, sealed=key is not None)
        write_manifest(fresh, manifest)
        final = folder / f"tessera-{datetime.fromisoformat(manifest.made_at):%Y%m%dT%H%M%S}Z"
        fresh.rename(final)
        _sync(folder)
    return final, manifest


def read_secrets() -> dict[str, str]:
    """Return what the database cannot be read without, and the SSH gateway's identity."""
    found = {"secret_key": settings.SECRET_KEY}
    for path in (host_key_file(), public_key_file()):
        with suppress(FileNotFoundError):
            found[path.name] = path.read_text()
    return found


def _check_place(folder: Path) -> None:
    for name, root in find_roots().items():
        if folder.resolve().is_relative_to(root.resolve()):
            raise Unusable(f"{folder} is inside of the {name} that are backed up.", "Name a folder on another disk.")


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    """Lend a folder for a backup that is not whole yet, and remove it after a failure. One at a time."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / f"{PARTIAL}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fresh = folder / PARTIAL
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(fresh, ignore_errors=True)  # left by one that was killed
        fresh.mkdir(mode=0o700)
        yield fresh
    except BlockingIOError:
        raise Unusable(
            f"Another backup is being written to {folder}.", "Wait for it, or name another folder."
        ) from None
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _describe(cursor: Any, copies_homes: bool) -> Manifest:
    cursor.execute("SELECT now()")
    made_at: datetime = cursor.fetchone()[0]
    cursor.execute("SELECT uuid FROM jobs_task WHERE state = ANY(%s)", [sorted(HOLDING)])
    running = [uuid.hex for (uuid,) in cursor.fetchall()]
    return Manifest(
        version=settings.TESSERA_VERSION,
        made_at=made_at.isoformat(),
        migrations=read_migrations(cursor),
        homes="copy" if copies_homes else "reference",
        rows=count_rows(cursor),
        running=running,
        files_root=str(settings.TESSERA_FILES),
        install=str(settings.KUBERNETES_OPTIONS["install"]) if settings.IN_CONTAINERS else "",
        areas=list(_list_areas(cursor)),
        settings=_read_settings(settings.TESSERA_DATA),
    )


def _list_areas(cursor: Any) -> Iterator[dict[str, Any]]:
    """Yield the homes and team folders that are there."""
    for kind, ask in (
        ("home", "SELECT uid, username FROM accounts_user"),
        ("team", "SELECT gid, name FROM accounts_team"),
    ):
        cursor.execute(f"{ask} ORDER BY 1")
        for number, owner in cursor.fetchall():
            if get_area_path(settings.TESSERA_FILES, AreaId(kind, number)).exists():  # type: ignore[arg-type]
                yield {"kind": kind, "number": number, "of": owner}


def _list_named(cursor: Any) -> Iterator[tuple[str, Path]]:
    """Yield (what it is, path) of files that the database names."""
    logs = LogStore(settings.TESSERA_LOGS)
    cursor.execute("SELECT job_id, role, rank, uuid FROM jobs_task WHERE started_at IS NOT NULL ORDER BY id")
    for job, role, rank, uuid in cursor.fetchall():
        yield f"log of job-{job} {role}.{rank} ({uuid.hex})", logs.path(uuid.hex)
    cursor.execute("SELECT DISTINCT digest FROM jobs_codepack ORDER BY digest")
    for (digest,) in cursor.fetchall():
        yield f"code {digest}", code_file(settings.TESSERA_CODE, digest)


def _read_settings(data: Path) -> Mapping[str, str]:
    return {name: (data / name).read_text() for name in SETTINGS if (data / name).exists()}


def _write_part(path: Path, content: bytes) -> Part:
    with HashingWriter(path) as writer:
        writer.write(content)
        return writer.finish()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
