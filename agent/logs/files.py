"""A container's log files, read in order through rotation and compression.

Kubelets delete rotated files, or all seconds after a deleted pod ended, despite finalizers. So files are opened when
first seen, and identified by their first line's timestamp.
"""

import gzip
import os
import re
import time
import zlib
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from agent.logs.cri import first_moment, read_moment

NAME = re.compile(r"(\d{1,6})\.log(\.\d{8}-\d{6}(\.gz)?)?")
MOST_OPEN = 8
SETTLE_S = 1.0
"""Seconds in which the engine may still write to a file after the next one has begun."""
HEAD = 4096
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Place(NamedTuple):
    """A reader's position. restart: the container's. first: the file's first timestamp. at: uncompressed bytes."""

    restart: int
    first: str
    at: int


class LogFile:
    """One log file, held open."""

    def __init__(self, path: Path, restart: int, packed: bool):
        """Raise OSError; ValueError without a line yet; EOFError, zlib.error if broken."""
        self.packed, self.restart, self.at, self.gap = packed, restart, 0, False
        self.seen_at = time.monotonic()
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        self.raw = os.fdopen(descriptor, "rb", buffering=0)
        try:
            self._packed = gzip.GzipFile(fileobj=self.raw, mode="rb") if packed else None
            self._held = b""  # uncompressed, unread
            self.first = first_moment(self._peek(HEAD))
            if not self.first:
                raise ValueError(f"{path} has no line yet")
        except (OSError, EOFError, ValueError, zlib.error):
            self.raw.close()
            raise
        self.order = (restart, read_moment(self.first) or LONG_AGO)

    @property
    def place(self) -> Place:
        return Place(self.restart, self.first, self.at)

    def read(self, most: int, *, last: bool = False) -> bytes:
        """Return whole lines up to `most` bytes, or part of a longer one. last: the file is final."""
        found = self._peek(most)
        whole = found[: found.rfind(b"\n") + 1]
        data = whole or (found if last or len(found) == most else b"")
        self._held = self._held[len(data) :]
        self.at += len(data)
        return data

    def skip(self, at: int) -> None:
        if self._packed is None:
            self.at = at
            return
        while self.at < at and (found := self._peek(min(at - self.at, 1 << 20))):
            self._held = self._held[len(found) :]
            self.at += len(found)

    def close(self) -> None:
        if self._packed is not None:
            self._packed.close()
        self.raw.close()

    def _peek(self, most: int) -> bytes:
        if self._packed is None:
            return os.pread(self.raw.fileno(), most, self.at)
        while len(self._held) < most and (piece := self._packed.read(most - len(self._held))):
            self._held += piece
        return self._held[:most]


class Files:
    """Reads all files in order. place: resume here. lost: `place` and later are gone. gap: data was deleted."""

    def __init__(self, folder: Path, place: Place | None = None):
        self.folder, self.lost, self.gap = folder, False, False
        self._resume = self._last = place
        self._current: LogFile | None = None
        self._next: deque[LogFile] = deque()
        self._known: dict[tuple[str, int], tuple] = {}  # {(name, inode): order}
        self._read_to: tuple | None = (place.restart, read_moment(place.first) or LONG_AGO) if place else None

    @property
    def place(self) -> Place | None:
        return self._current.place if self._current else self._last

    @property
    def is_there(self) -> bool:
        return self.folder.is_dir()

    def open_new(self) -> None:
        found = self._list()
        fresh = sorted((file for file in map(self._open, found) if file), key=lambda file: file.order)
        present = {self._known.get(key) for key, _ in found}
        for file in fresh:
            before = self._next[-1].order if self._next else self._current.order if self._current else self._read_to
            file.gap = before is not None and before not in present
            self._next.append(file)
        self._known = {key: self._known[key] for key, _ in found if key in self._known}
        self.lost = self._resume is not None and not self._next and self._current is None

    def read(self, most: int) -> bytes:
        """Read from the next file in order; b"" if nothing is new."""
        while True:
            if self._current is None:
                if not self._next:
                    return b""
                self._current = self._next.popleft()
                self._begin(self._current)
            over = self._is_over(self._current)
            if data := self._current.read(most, last=over):
                self.gap, self._current.gap = self._current.gap, False
                return data
            if not over:
                return b""
            self._read_to, self._last = self._current.order, self._current.place
            self._current.close()
            self._current = None

    @property
    def has_more(self) -> bool:
        return bool(self._next)

    def close(self) -> None:
        for file in (*self._next, *((self._current,) if self._current else ())):
            file.close()
        self._next.clear()
        self._current = None

    def _begin(self, file: LogFile) -> None:
        resume, self._resume = self._resume, None
        if resume is not None and file.first == resume.first and file.restart == resume.restart:
            file.gap = False
            file.skip(resume.at)

    def _is_over(self, file: LogFile) -> bool:
        return file.packed or (bool(self._next) and time.monotonic() - self._next[0].seen_at > SETTLE_S)

    def _list(self) -> list[tuple[tuple[str, int], re.Match]]:
        try:
            with os.scandir(self.folder) as entries:
                named = [(entry, NAME.fullmatch(entry.name)) for entry in entries]
                return [((entry.name, entry.inode()), match) for entry, match in named if match]
        except OSError:
            return []

    def _open(self, found: tuple[tuple[str, int], re.Match]) -> LogFile | None:
        key, match = found
        if key in self._known or len(self._next) >= MOST_OPEN:
            return None
        try:
            file = LogFile(self.folder / key[0], int(match[1]), match[3] is not None)
        except (OSError, EOFError, ValueError, zlib.error):
            return None  # just renamed or created: retried
        known = {each.order for each in (*self._next, *((self._current,) if self._current else ()))}
        is_read = self._read_to is not None and (
            file.order < self._read_to or (file.order == self._read_to and self._resume is None)
        )
        twice = file.order in known or file.order in self._known.values()
        self._known[key] = file.order
        if is_read or twice:
            file.close()
            return None
        return file
