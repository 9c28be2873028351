"""Make a version of a folder: a tree under a hidden name, renamed last, so that there is a whole version or none."""

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from common.archive import stays_beneath
from common.errors import Conflict
from runtimes.dataset_store.contents import ContentKeeper
from runtimes.dataset_store.layout import FOLDER as OPEN_FOLDER
from runtimes.dataset_store.layout import OWN, READ_ONLY, StoreLayout
from runtimes.dataset_store.manifest import FILE, FOLDER, LINK, Entry, ManifestWriter, Summary, summarise_manifest
from runtimes.storage.areas import AreaId, ensure_area
from runtimes.storage.open_beneath import open_beneath

MOST_FILES = 2_000_000
LEFT_OUT_MOST = 200
"""Names that are kept of what is left out; all are counted."""
REPORT_EVERY_S = 1.0
LEADS_OUT = "leads_out"

Packet = tuple[dict, list[int]]
"""Of runtimes.storage.walk_folder_child, with descriptors that are closed here."""


@dataclass
class Progress:
    """What is done of a version. left_out: [path, why], the first of `left_out_count`."""

    files: int = 0
    bytes: int = 0
    new_bytes: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)
    left_out_count: int = 0


@dataclass(frozen=True)
class Taken:
    """A version that is there."""

    summary: Summary
    progress: Progress


Report = Callable[[Progress], None]
"""Called about once a second; what it raises ends the work."""


def take_folder(
    layout: StoreLayout,
    packets: Iterable[Packet],
    *,
    key: str,
    number: int,
    report: Report = lambda progress: None,
    most_bytes: int | None = None,
) -> Taken:
    """Make version `number` of what is walked, or nothing. most_bytes: what may be new.

    Raises Conflict (source_changes, too_many_files, dataset_no_room, disk_full, bad_source), Unavailable, OSError.
    """
    layout.make_folders()
    ensure_area(layout.root, AreaId("dataset", key), uid=None, gid=None)
    with layout.open_workplace() as place, _refusing_full_disk():
        tree = place / "tree"
        tree.mkdir(mode=OWN)
        with open(place / "manifest", "xb") as file:
            taking = _Taking(layout, tree, place / "spare", ManifestWriter(file), report, most_bytes)
            try:
                taking.take(packets)
                summary = taking.finish()
            finally:
                taking.close()
        os.rename(place / "manifest", layout.manifest(key, number))
        _sync_folder(layout.manifests)
        target = layout.version(key, number)
        os.rename(tree, target)
        os.chmod(target, READ_ONLY)
        _sync_folder(target.parent)
    return Taken(summary, taking.progress)


def find_version(layout: StoreLayout, key: str, number: int) -> Summary | None:
    """Return what a finished version holds, None if there is none. Raises OSError."""
    target = layout.version(key, number)
    if not target.is_dir():
        return None
    os.chmod(target, READ_ONLY)  # its maker may have been killed just before
    return summarise_manifest(layout.manifest(key, number))


class _Taking:
    def __init__(
        self,
        layout: StoreLayout,
        tree: Path,
        spare: Path,
        manifest: ManifestWriter,
        report: Report,
        most_bytes: int | None,
    ):
        self._top = os.open(tree, OPEN_FOLDER)
        self._keeper = ContentKeeper(layout, self._top, spare, self._tick)
        self._manifest, self._report, self._most_bytes = manifest, report, most_bytes
        self._folders: list[tuple[str, int]] = [("", self._top)]  # from the top to where the walk is
        self._made: list[str] = []
        self._links: dict[tuple[str, ...], str] = {}
        self._reported_at = time.monotonic()
        self.progress = Progress()

    def take(self, packets: Iterable[Packet]) -> None:
        for packet, fds in packets:
            try:
                self._take_packet(packet, fds)
            finally:
                for fd in fds:
                    os.close(fd)
            self._tick()

    def finish(self) -> Summary:
        """Make links, close folders to changes, and everything durable."""
        for parts, target in self._links.items():
            self._make_link(parts, target)
        self._keeper.publish()
        self.progress.new_bytes = self._keeper.new_bytes
        for path in reversed(self._made):
            folder = open_beneath(self._top, path, OPEN_FOLDER)
            os.fchmod(folder, READ_ONLY)
            os.close(folder)
        os.fsync(self._top)
        return self._manifest.finish()

    def close(self) -> None:
        for _, fd in self._folders:
            os.close(fd)

    def _take_packet(self, packet: dict, fds: list[int]) -> None:
        """The packet comes from a process with the person's rights: what it says is checked."""
        path, folder = self._folders[-1]
        if "files" in packet:
            for name, fd in zip(packet["files"], fds, strict=True):
                self._take_file(fd, _join(path, name), folder, name)
        elif "enter" in packet:
            self._enter(_join(path, packet["enter"]), folder, packet["enter"])
        elif "leave" in packet:
            if len(self._folders) == 1:
                raise Conflict("bad_source")
            os.close(self._folders.pop()[1])
        elif "links" in packet:
            for name, target in packet["links"]:
                self._links[tuple(_join(path, name).split("/"))] = target
                self._count()
        else:
            for name, why in packet["left_out"]:
                self._leave_out(_join(path, name), why)

    def _take_file(self, source: int, path: str, folder: int, name: str) -> None:
        self._count()
        kept = self._keeper.keep(source, path, folder, name, self._most_bytes)
        self._manifest.add(Entry(FILE, path, kept.size, kept.mode, kept.digest))
        self.progress.files, self.progress.bytes = self._manifest.files, self._manifest.bytes
        self.progress.new_bytes = self._keeper.new_bytes

    def _enter(self, path: str, folder: int, name: str) -> None:
        self._count()
        os.mkdir(name, OWN, dir_fd=folder)
        self._folders.append((path, os.open(name, OPEN_FOLDER, dir_fd=folder)))
        self._made.append(path)
        self._manifest.add(Entry(FOLDER, path))

    def _make_link(self, parts: tuple[str, ...], target: str) -> None:
        path = "/".join(parts)
        if not stays_beneath(self._links, parts):
            self._leave_out(path, LEADS_OUT)
            return
        folder = open_beneath(self._top, "/".join(parts[:-1]), OPEN_FOLDER)
        try:
            os.symlink(target, parts[-1], dir_fd=folder)
        finally:
            os.close(folder)
        self._manifest.add(Entry(LINK, path, digest=target))

    def _tick(self) -> None:
        if time.monotonic() - self._reported_at > REPORT_EVERY_S:
            self._report(self.progress)
            self._reported_at = time.monotonic()

    def _leave_out(self, path: str, why: str) -> None:
        self.progress.left_out_count += 1
        if len(self.progress.left_out) < LEFT_OUT_MOST:
            self.progress.left_out.append((path, str(why)))

    def _count(self) -> None:
        if self._manifest.files + len(self._made) + len(self._links) >= MOST_FILES:
            raise Conflict("too_many_files", max=MOST_FILES)


def _join(folder: str, name: str) -> str:
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise Conflict("bad_source")
    return f"{folder}/{name}" if folder else name


@contextmanager
def _refusing_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Conflict("disk_full") from error
        raise


def _sync_folder(path: Path) -> None:
    fd = os.open(path, OPEN_FOLDER)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
