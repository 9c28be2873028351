"""Resumable uploads: pieces are appended to a hidden file, which is the only truth of the offset."""

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from shutil import disk_usage
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from accounts.models import User
from common.errors import Conflict, FieldError, InvalidInput, NameTaken, NotFound, PlatformError, QuotaExceeded
from common.steady_clock import steady_now
from files.file_areas import FileArea, find_file_area
from files.models import KEPT, Upload
from files.usage import check_room
from runtimes.storage.file_store import check_path

log = logging.getLogger("tessera.files")

CHUNK_BYTES = 8 * 1024 * 1024
OPEN_MOST = 64
LARGEST = 2**50


def begin_upload(*, user: User, place: str, path: str, size: int, replace: bool = False) -> Upload:
    """Begin an upload. Raises InvalidInput, NotFound, NotPermitted, NameTaken, QuotaExceeded, Conflict."""
    area = find_file_area(user, place, write=True)
    folder, _, name = check_path(path).rpartition("/")
    if not name:
        raise InvalidInput([FieldError("/path", "required")])
    if not 0 <= size <= LARGEST:
        raise InvalidInput([FieldError("/size", "out_of_range", {"min": 0, "max": LARGEST})])
    _check_name(area, path, replace)
    check_room(area, size)
    with transaction.atomic():
        _one_at_a_time(area)
        check_room(area, size)
        _check_disk(size)
        mine = Upload.objects.filter(user=user, finished_at__isnull=True).count()
        if mine >= OPEN_MOST:
            raise QuotaExceeded(what="uploads", used=mine, limit=OPEN_MOST)
        upload = Upload.objects.create(
            uuid=uuid4(), user=user, team=area.team, folder=folder, name=name, size=size, replace=replace
        )
        os.close(area.store.open_part(folder, upload.uuid.hex, make=True))
    if size == 0:
        append_upload(user=user, uuid=upload.uuid, offset=0, pieces=())
        upload.refresh_from_db()
    return upload


def find_upload(user: User, uuid: UUID) -> Upload:
    """Return the person's upload, with `sent` read from disk. Raises NotFound."""
    upload = _find(user, uuid)
    if upload.finished_at is None:
        fd = _open(upload, find_file_area(user, upload.area_name, write=True))
        upload.sent = os.fstat(fd).st_size
        os.close(fd)
    return upload


def append_upload(*, user: User, uuid: UUID, offset: int, pieces: Iterable[bytes]) -> Upload:
    """Append bytes, all or none, and finish a complete file.

    Raises Conflict (wrong_offset with the right one, upload_busy, upload_too_long, no_room, disk_full), NameTaken.
    """
    upload = _find(user, uuid)
    if upload.finished_at is not None:
        raise Conflict("wrong_offset", offset=upload.size)
    area = find_file_area(user, upload.area_name, write=True)
    with _grown(upload, area) as fd:
        at = os.fstat(fd).st_size
        if offset != at:
            raise Conflict("wrong_offset", offset=at)
        check_room(area)
        upload.sent = _write(fd, at, upload.size, pieces)
        Upload.objects.filter(pk=upload.pk).update(sent=upload.sent, touched_at=steady_now())
        if upload.sent == upload.size:
            _finish(upload, area, fd)
    return upload


def drop_upload(*, user: User, uuid: UUID) -> None:
    """Cancel an unfinished upload."""
    upload = _find(user, uuid)
    if upload.finished_at is None:
        _drop(upload, find_file_area(user, upload.area_name, write=True))


def sweep_uploads() -> int:
    """Delete uploads idle for a day, and measured finished ones."""
    old = Upload.objects.filter(touched_at__lt=steady_now() - KEPT).select_related("user", "team")
    gone = old.filter(finished_at__isnull=False).delete()[0]
    for upload in old.filter(finished_at__isnull=True):
        try:
            _drop(upload, FileArea(upload.user, upload.team))
            gone += 1
        except PlatformError as error:
            log.warning("upload %s stays: %s", upload, error)
    return gone + Upload.objects.filter(finished_at__isnull=False, counted__gte=F("size")).delete()[0]


def _find(user: User, uuid: UUID) -> Upload:
    upload = Upload.objects.select_related("team").filter(user=user, uuid=uuid).first()
    if upload is None:
        raise NotFound(kind="upload", id=uuid.hex)
    return upload


def _finish(upload: Upload, area: FileArea, fd: int) -> None:
    os.fsync(fd)
    area.store.finish_part(upload.folder, upload.uuid.hex, upload.path, replace=upload.replace)
    upload.finished_at = timezone.now()
    Upload.objects.filter(pk=upload.pk).update(finished_at=upload.finished_at)


def _drop(upload: Upload, area: FileArea) -> None:
    area.store.drop_part(upload.folder, upload.uuid.hex)
    Upload.objects.filter(pk=upload.pk).delete()


@contextmanager
def _grown(upload: Upload, area: FileArea) -> Iterator[int]:
    """Open the hidden file, locked against other processes."""
    fd = _open(upload, area)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict("upload_busy") from None
        yield fd
    finally:
        os.close(fd)


def _open(upload: Upload, area: FileArea) -> int:
    try:
        return area.store.open_part(upload.folder, upload.uuid.hex, make=False)
    except NotFound:
        raise NotFound(kind="upload", id=upload.uuid.hex) from None


def _write(fd: int, at: int, size: int, pieces: Iterable[bytes]) -> int:
    """Write and return the new size; after an error, restore the old one."""
    end = at
    try:
        for piece in pieces:
            if end + len(piece) > size:
                raise Conflict("upload_too_long", size=size)
            view = memoryview(piece)
            while view:
                written = os.pwrite(fd, view, end)
                view, end = view[written:], end + written
        return end
    except BaseException as error:
        os.ftruncate(fd, at)
        if isinstance(error, OSError):
            log.warning("a piece was not kept: %s", error)
            raise Conflict("disk_full") from error
        raise


def _check_name(area: FileArea, path: str, replace: bool) -> None:
    """Raise NameTaken early; finishing checks again."""
    try:
        there = area.store.stat(path)
    except NotFound:
        return
    if not replace or there.kind != "file":
        raise NameTaken(name=path)


def _check_disk(size: int) -> None:
    if size > disk_usage(settings.TESSERA_FILES).free:
        raise Conflict("disk_full")


def _one_at_a_time(area: FileArea) -> None:
    """Lock the area, so that concurrent uploads see each other's size."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"tessera files {area.area_id}"])
