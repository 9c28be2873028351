"""What a version holds, one JSON line for each entry, whose digest is the version's.

Folders come before what is in them, a folder's files before its folders, each by the bytes of its name; then the links.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

FILE, FOLDER, LINK = "file", "folder", "link"


@dataclass(frozen=True)
class Entry:
    """kind: file, folder or link. digest: of a file's content, or a link's target. mode: 0o444 or 0o555 of a file."""

    kind: str
    path: str
    size: int = 0
    mode: int = 0
    digest: str = ""


@dataclass(frozen=True)
class Summary:
    """digest: of the manifest. bytes: of all files, however many share one content."""

    digest: str
    files: int
    bytes: int


class ManifestWriter:
    def __init__(self, file: IO[bytes]):
        self._file, self._digest = file, hashlib.blake2b(digest_size=32)
        self.files = self.bytes = 0

    def add(self, entry: Entry) -> None:
        line = json.dumps([entry.kind, entry.path, entry.size, entry.mode, entry.digest]).encode() + b"\n"
        self._file.write(line)
        self._digest.update(line)
        self.files += entry.kind == FILE
        self.bytes += entry.size

    def finish(self) -> Summary:
        """Make it durable. Raises OSError."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return Summary(self._digest.hexdigest(), self.files, self.bytes)


def read_manifest(path: Path) -> Iterator[Entry]:
    """Yield the entries. Raises FileNotFoundError."""
    with open(path, "rb") as lines:
        for line in lines:
            yield Entry(*json.loads(line))


def summarise_manifest(path: Path) -> Summary:
    """Return what a finished manifest says. Raises FileNotFoundError."""
    with open(path, "rb") as lines:
        digest = hashlib.file_digest(lines, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
    files = [entry.size for entry in read_manifest(path) if entry.kind == FILE]
    return Summary(digest, len(files), sum(files))


@dataclass(frozen=True)
class Difference:
    """What is another in the newer of two versions. before, after: None where it is not."""

    change: Literal["added", "removed", "changed"]
    before: Entry | None
    after: Entry | None

    @property
    def path(self) -> str:
        entry = self.after or self.before
        assert entry is not None
        return entry.path


def compare_manifests(before: Iterable[Entry], after: Iterable[Entry]) -> Iterator[Difference]:
    """Yield what differs, in the order of manifests, reading both once."""
    old_rows, new_rows = iter(before), iter(after)
    old, new = next(old_rows, None), next(new_rows, None)
    while old or new:
        if new is None or (old is not None and _order(old) < _order(new)):
            yield Difference("removed", old, None)
            old = next(old_rows, None)
        elif old is None or _order(new) < _order(old):
            yield Difference("added", None, new)
            new = next(new_rows, None)
        else:
            if old != new:
                yield Difference("changed", old, new)
            old, new = next(old_rows, None), next(new_rows, None)


def _order(entry: Entry) -> tuple[bool, list[tuple[bool, bytes]]]:
    """Return a key in whose order entries stand in a manifest."""
    names = entry.path.split("/")
    keys = [(True, os.fsencode(name)) for name in names]
    if entry.kind != FOLDER:
        keys[-1] = (False, os.fsencode(names[-1]))
    return entry.kind == LINK, keys
