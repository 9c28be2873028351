"""People's files as JSON."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from rest_framework import serializers

from files.file_areas import FileArea
from files.models import KEPT, Upload
from files.uploads import CHUNK_BYTES
from files.usage import Used
from runtimes.storage.file_store import Entry

LONGEST = 4000
PLACE = "home, or team: and the name of a team of yours"


class ExactText(serializers.CharField):
    """Text with its outer spaces, as in file names."""

    def __init__(self, **options: object):
        super().__init__(trim_whitespace=False, max_length=LONGEST, **options)


class PlainPathQuery(serializers.Serializer):
    """path: with slashes, from the place on; empty: the place itself."""

    place = serializers.CharField(default="home", max_length=64, help_text=PLACE)
    path = ExactText(default="", allow_blank=True)


class PathQuery(serializers.Serializer):
    place = serializers.CharField(default="home", max_length=64, help_text=PLACE)
    path = ExactText(help_text="Names with slashes between, from the place on")


class MkdirBody(PathQuery):
    pass


class MoveBody(PathQuery):
    to = ExactText(help_text="The new path, in the same place")
    replace = serializers.BooleanField(default=False)


class UploadBody(PathQuery):
    size = serializers.IntegerField(min_value=0, max_value=2**50)
    replace = serializers.BooleanField(default=False)


class PlaceShape(serializers.Serializer):
    """bytes: measured at times, plus uploads; a lower bound where `whole` is false. limit_bytes: null = none."""

    place = serializers.CharField()
    bytes = serializers.IntegerField()
    limit_bytes = serializers.IntegerField(allow_null=True)
    whole = serializers.BooleanField()
    measured_at = serializers.DateTimeField()
    may_write = serializers.BooleanField()


class EntryShape(serializers.Serializer):
    """kind: file, folder, link or other. size: bytes, of files."""

    name = serializers.CharField()
    kind = serializers.CharField()
    size = serializers.IntegerField()
    changed_at = serializers.DateTimeField()


class FolderShape(serializers.Serializer):
    """unreadable: number of names that are not UTF-8."""

    place = serializers.CharField()
    path = serializers.CharField(allow_blank=True)
    results = EntryShape(many=True)
    cut = serializers.BooleanField()
    unreadable = serializers.IntegerField()


class UploadShape(serializers.Serializer):
    """offset: bytes received. done: the file is in place. expires_at: when it is deleted, if left."""

    id = serializers.UUIDField()
    place = serializers.CharField()
    path = serializers.CharField()
    size = serializers.IntegerField()
    offset = serializers.IntegerField()
    chunk_bytes = serializers.IntegerField()
    done = serializers.BooleanField()
    expires_at = serializers.DateTimeField()


def place_of(area: FileArea, used: Used) -> SimpleNamespace:
    return SimpleNamespace(
        place=area.name,
        bytes=used.bytes,
        limit_bytes=used.limit or None,
        whole=used.whole,
        measured_at=used.measured_at,
        may_write=area.may_write,
    )


def listing_of(area: FileArea, path: str) -> SimpleNamespace:
    found = area.store.list_folder(path)
    entries = [entry_of(entry) for entry in found.entries]
    return SimpleNamespace(place=area.name, path=path, results=entries, cut=found.cut, unreadable=found.unreadable)


def entry_of(entry: Entry) -> SimpleNamespace:
    changed = time_of(entry)
    return SimpleNamespace(name=entry.name, kind=entry.kind, size=entry.size, changed_at=changed)


def time_of(entry: Entry) -> datetime:
    """Return the last change; 1970 if no calendar has it."""
    try:
        return datetime.fromtimestamp(entry.changed_ns / 1e9, tz=UTC)
    except (OverflowError, ValueError):
        return datetime(1970, 1, 1, tzinfo=UTC)


def upload_of(upload: Upload) -> SimpleNamespace:
    return SimpleNamespace(
        id=upload.uuid,
        place=upload.area_name,
        path=upload.path,
        size=upload.size,
        offset=upload.sent,
        chunk_bytes=CHUNK_BYTES,
        done=upload.finished_at is not None,
        expires_at=upload.touched_at + timedelta(seconds=KEPT.total_seconds()),
    )
