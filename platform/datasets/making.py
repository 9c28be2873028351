"""Make the versions that were asked for, each by a process of its own under a lease, and sweep what is gone.

A process may be killed at any moment: its lease ends, and the next one begins anew or finds the version finished.
"""

import logging
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from common.amounts import show_bytes
from common.errors import Conflict, PlatformError
from common.locks import database_now
from datasets.models import Dataset, DatasetKind, DatasetVersion, EnvironmentPackage, VersionState
from datasets.packages import read_packages
from datasets.services import find_store, sum_new_bytes
from events.record_and_publish import SYSTEM
from events.transitions import Move, advance
from files.file_areas import FileArea, find_file_area
from files.usage import load_used
from runtimes.dataset_store import taking
from runtimes.dataset_store.manifest import read_manifest
from runtimes.dataset_store.removing import remove_version, sweep_store
from runtimes.dataset_store.taking import Progress, Taken

log = logging.getLogger("tessera.datasets")

LEASE = timedelta(seconds=120)
AT_ONCE = 2
"""Versions that are made at a time: disks are not faster by more."""
MOST_TRIES = 5
KEPT = timedelta(days=7)
"""How long the files of a deleted version stay."""
_started: list[subprocess.Popen] = []
MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


class LeaseLost(Exception):
    """Somebody else makes the version now."""


def claim_versions() -> list[tuple[int, str]]:
    """Take leases of versions that wait, as many as may be made at once; return each with its holder."""
    now = database_now()
    free = Q(lease_until=None) | Q(lease_until__lt=now)
    waiting = DatasetVersion.objects.filter(state=VersionState.TAKING)
    room = AT_ONCE - waiting.exclude(free).count()
    claimed = []
    for version in waiting.filter(free).order_by("pk")[: max(room, 0)]:
        holder = uuid4().hex
        lease = {"lease_holder": holder, "lease_until": now + LEASE, "tries": version.tries + 1}
        if DatasetVersion.objects.filter(pk=version.pk, tries=version.tries).update(**lease):
            claimed.append((version.pk, holder))
    return claimed


def start_process(command: str, *arguments: str) -> None:
    """Start a command of ours as a process of its own: a task's time limits are too short for large folders."""
    argv, quiet = [sys.executable, str(MANAGE), command, *arguments], subprocess.DEVNULL
    reap_processes()
    _started.append(subprocess.Popen(argv, stdin=quiet, stdout=quiet, start_new_session=True))


def reap_processes() -> None:
    """Forget the processes that have ended, which the kernel keeps until somebody asks."""
    _started[:] = [process for process in _started if process.poll() is None]


def make_version(pk: int, holder: str) -> None:
    """Make a version of which `holder` has the lease, or say why it failed."""
    version = DatasetVersion.objects.select_related("dataset__team", "user").get(pk=pk)
    if version.lease_holder != holder or version.state != VersionState.TAKING:
        return
    try:
        if version.tries > MOST_TRIES:
            raise Conflict("taking_failed", tries=MOST_TRIES)
        _finish(version, holder, _take(version, holder))
    except LeaseLost:
        log.warning("version %s is made by another process", version)
    except PlatformError as error:
        log.info("version %s failed: %s", version, error)
        _fail(version, holder, error)


def sweep_versions() -> None:
    """Remove the files of versions that were deleted long ago or failed, and what nobody has."""
    store = find_store()
    for version in DatasetVersion.objects.filter(
        state=VersionState.DELETED, purged_at=None, deleted_at__lt=database_now() - KEPT
    ).select_related("dataset"):
        with transaction.atomic():
            row = DatasetVersion.objects.select_for_update(of=("self",)).get(pk=version.pk)
            if row.state == VersionState.DELETED:  # else restored meanwhile
                remove_version(store, version.dataset.key, version.number)
                DatasetVersion.objects.filter(pk=version.pk).update(purged_at=Now())
    if Dataset.objects.exists():
        swept = sweep_store(store, _list_wanted)
        log.info("swept %s", swept)


def _list_wanted() -> set[tuple[str, int]]:
    return set(DatasetVersion.objects.on_disk().values_list("dataset__key", "number"))


def _take(version: DatasetVersion, holder: str) -> Taken:
    store, dataset = find_store(), version.dataset
    if (summary := taking.find_version(store, dataset.key, version.number)) is not None:  # its maker was killed after
        return Taken(summary, Progress(new_bytes=version.new_bytes, left_out=version.left_out))
    used, most_bytes = _find_room(version)
    walk = find_file_area(version.user, version.place).store.open_walk(version.path)
    try:
        return taking.take_folder(
            store,
            walk,
            key=dataset.key,
            number=version.number,
            report=lambda progress: _renew(version, holder, progress),
            most_bytes=most_bytes,
        )
    except Conflict as error:
        if error.code == "dataset_no_room":
            limit = show_bytes(settings.TESSERA_TEAM_BYTES)
            raise Conflict("dataset_no_room", team=dataset.team.name, used=show_bytes(used), limit=limit) from error
        raise
    finally:
        walk.close()


def _find_room(version: DatasetVersion) -> tuple[int, int | None]:
    """Return what the team's folder and versions use, and what may be added; None for any amount."""
    team = version.dataset.team
    used = load_used(FileArea(version.user, team)).promised + sum_new_bytes(team)
    limit = settings.TESSERA_TEAM_BYTES
    return used, max(limit - used, 0) if limit else None


def _renew(version: DatasetVersion, holder: str, progress: Progress) -> None:
    """Keep the lease, and tell how far it is. Raises LeaseLost."""
    if not _held(version, holder).update(lease_until=database_now() + LEASE, **_columns(progress)):
        raise LeaseLost


def _columns(progress: Progress) -> dict:
    return {
        "files": progress.files,
        "bytes": progress.bytes,
        "new_bytes": progress.new_bytes,
        "left_out": progress.left_out,
        "left_out_count": progress.left_out_count,
    }


@transaction.atomic
def _finish(version: DatasetVersion, holder: str, taken: Taken) -> None:
    summary = taken.summary
    counts = {"files": summary.files, "bytes": summary.bytes, "digest": summary.digest}
    if version.dataset.kind == DatasetKind.ENVIRONMENT:
        _note_packages(version)
    _move(version, holder, VersionState.READY, _columns(taken.progress) | counts | {"ready_at": Now()})


def _note_packages(version: DatasetVersion) -> None:
    manifest = read_manifest(find_store().manifest(version.dataset.key, version.number))
    rows = [EnvironmentPackage(version=version, name=name, number=n) for name, n in read_packages(manifest).items()]
    EnvironmentPackage.objects.bulk_create(rows, ignore_conflicts=True)


@transaction.atomic
def _fail(version: DatasetVersion, holder: str, error: PlatformError) -> None:
    _move(version, holder, VersionState.FAILED, {"error": {"code": error.code, "params": error.params}})


def _move(version: DatasetVersion, holder: str, to: str, also: dict) -> None:
    if not _held(version, holder).select_for_update().exists():
        log.warning("version %s is made by another process", version)
        return
    said = {"name": version.dataset.name, "version": version.number}
    cleared = {"lease_holder": "", "lease_until": None}
    advance([Move(version, params=said, also=also | cleared)], to, actor=SYSTEM)


def _held(version: DatasetVersion, holder: str):
    return DatasetVersion.objects.filter(pk=version.pk, lease_holder=holder, state=VersionState.TAKING)
