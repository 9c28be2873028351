"""Checking and unpacking of untrusted tar.gz archives, with the standard library only.

Allows regular files, directories and links that stay beneath; every count is bounded before memory is spent. tarfile's
own filters are not trusted (CVE-2025-4517, CVE-2025-4138, CVE-2025-4330). Refusals are `InvalidInput` at ``/code``.
"""

import gzip
import os
import tarfile
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NoReturn, cast

from common.errors import FieldError, InvalidInput
from common.text import shorten_text

MAX_PACKED = 64 * 2**20
MAX_UNPACKED = 256 * 2**20
MAX_MEMBERS = 10_000
MAX_LINKS = 1_000
MAX_RATIO = 100
MAX_LINK_TARGET = 1_024
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4_000
MAX_DEPTH = 64
RATIO_FROM = 2**20  # small archives: an empty file alone compresses a hundredfold
# The contents, and for each member two header blocks and a long name.
MAX_STREAM = MAX_UNPACKED + MAX_MEMBERS * 8 * 1024
MAX_HEADER = 64 * 1024
MAX_HOPS = 10
PIECE = 2**20

Parts = tuple[str, ...]


@dataclass(frozen=True)
class ArchiveInfo:
    """files: without directories. bytes: unpacked."""

    files: int
    bytes: int


def check_archive(file: BinaryIO, packed_bytes: int) -> ArchiveInfo:
    """Check an archive without writing. Raises InvalidInput."""
    files = size = 0
    links: dict[Parts, str] = {}
    for _tar, member, parts in _iterate_members(file, packed_bytes):
        files += not member.isdir()
        size += member.size
        if member.issym():
            links[parts] = member.linkname
    _check_links(links)
    return ArchiveInfo(files=files, bytes=size)


def unpack_archive(file: BinaryIO, packed_bytes: int, directory: str) -> ArchiveInfo:
    """Unpack an archive into `directory`, links last; a refusal leaves partial content to the caller.

    Nothing is opened through a link.
    """
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        files = size = 0
        links: dict[Parts, str] = {}
        for tar, member, parts in _iterate_members(file, packed_bytes):
            files += not member.isdir()
            size += member.size
            if member.issym():
                links[parts] = member.linkname
            elif member.isdir():
                os.close(_open_folder(root, parts))
            else:
                _make_file(tar, member, root, parts)
        _check_links(links)
        for parts, target in links.items():
            _make_link(root, parts, target)
    finally:
        os.close(root)
    return ArchiveInfo(files=files, bytes=size)


def stays_beneath(links: dict[Parts, str], path: Parts) -> bool:
    """Return whether `path` through `links` stays below the top."""
    here: list[str] = []
    todo, hops = deque(path), 0
    while todo:
        part = todo.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return False
            here.pop()
            continue
        here.append(part)
        target = links.get(tuple(here))
        if target is None:
            continue
        hops += 1
        if hops > MAX_HOPS or target.startswith("/"):
            return False
        here.pop()
        todo.extendleft(reversed(target.split("/")))
    return True


class _SmallHeaders(tarfile.TarInfo):
    """Refuses long headers before tarfile reads them into memory."""

    def _proc_member(self, tar):
        special = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
        if self.type in (*special, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK) and self.size > MAX_HEADER:
            _refuse("archive_unreadable")
        return super()._proc_member(tar)  # type: ignore[misc]  # tarfile's own hook, not in the stubs


class _Metered:
    """Reads a gzip stream until it unpacks to too much."""

    def __init__(self, file: BinaryIO, packed_bytes: int):
        self.stream = gzip.GzipFile(fileobj=file, mode="rb")
        self.most_by_ratio = max(RATIO_FROM, MAX_RATIO * packed_bytes)
        self.count = 0

    def read(self, size: int) -> bytes:
        piece = self.stream.read(min(size, PIECE))
        self.count += len(piece)
        if self.count > MAX_STREAM:
            _refuse("archive_unpacked", max=f"{MAX_UNPACKED >> 20} MiB")
        if self.count > self.most_by_ratio:
            _refuse("archive_ratio", max=MAX_RATIO)
        return piece


def _iterate_members(file: BinaryIO, packed_bytes: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo, Parts]]:
    """Yield each allowed member; link targets are checked later."""
    if packed_bytes > MAX_PACKED:
        _refuse("archive_too_large", max=f"{MAX_PACKED >> 20} MiB")
    metered = _Metered(file, packed_bytes)
    try:
        with tarfile.open(fileobj=cast(BinaryIO, metered), mode="r|", tarinfo=_SmallHeaders) as tar:
            judge = _Judge()
            for member in tar:
                parts = judge.allow(member)
                if parts:
                    yield tar, member, parts
        while metered.read(PIECE):  # to the end, for gzip's checksum
            pass
    # RecursionError: tarfile recurses for each header that describes the next one
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, RecursionError):
        _refuse("archive_unreadable")


class _Judge:
    """Checks members one by one."""

    def __init__(self):
        self.members = self.links = self.size = 0
        self.seen: dict[Parts, bool] = {}  # True: a directory

    def allow(self, member: tarfile.TarInfo) -> Parts:
        """Return a member's path; () for the top."""
        self._count(member)
        parts = _parts_of(member)
        if not (member.isdir() or member.issym() or _is_plain_file(member)):
            _refuse("archive_special", name=shorten_text(member.name, 80))
        if not parts and not member.isdir():
            _refuse("archive_bad_name", name=shorten_text(member.name, 80))
        if any(self.seen.get(parts[:i], True) is False for i in range(1, len(parts))):
            _refuse("archive_bad_name", name=shorten_text(member.name, 80))  # beneath a file or link
        if parts in self.seen and not (member.isdir() and self.seen[parts]):
            _refuse("archive_twice", name=shorten_text(member.name, 80))
        for i in range(1, len(parts)):
            self.seen[parts[:i]] = True
        self.seen[parts] = member.isdir()
        return parts

    def _count(self, member: tarfile.TarInfo) -> None:
        self.members, self.size, self.links = self.members + 1, self.size + member.size, self.links + member.issym()
        if self.members > MAX_MEMBERS:
            _refuse("archive_too_many", max=MAX_MEMBERS)
        if self.size > MAX_UNPACKED or member.size < 0:
            _refuse("archive_unpacked", max=f"{MAX_UNPACKED >> 20} MiB")
        if self.links > MAX_LINKS or len(member.linkname) > MAX_LINK_TARGET:
            _refuse("archive_too_many_links", max=MAX_LINKS)


def _parts_of(member: tarfile.TarInfo) -> Parts:
    parts = tuple(part for part in member.name.split("/") if part not in ("", "."))
    lengths = [len(part.encode(errors="surrogateescape")) for part in parts]
    too_long = sum(lengths) > MAX_PATH_BYTES or len(parts) > MAX_DEPTH or any(n > MAX_NAME_BYTES for n in lengths)
    if too_long or ".." in parts or member.name.startswith("/") or "\0" in member.name:
        _refuse("archive_bad_name", name=shorten_text(member.name, 80))
    return parts


def _is_plain_file(member: tarfile.TarInfo) -> bool:
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()


def _check_links(links: dict[Parts, str]) -> None:
    for parts, target in links.items():
        if not target or "\0" in target or not stays_beneath(links, parts):
            _refuse("archive_link", name=shorten_text("/".join(parts), 80))


def _make_file(tar: tarfile.TarFile, member: tarfile.TarInfo, root: int, parts: Parts) -> None:
    folder = _open_folder(root, parts[:-1])
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(parts[-1], flags, 0o755 if member.mode & 0o100 else 0o644, dir_fd=folder)
    finally:
        os.close(folder)
    content = tar.extractfile(member)
    with open(fd, "wb") as out:
        while content is not None and (piece := content.read(PIECE)):
            out.write(piece)


def _make_link(root: int, parts: Parts, target: str) -> None:
    folder = _open_folder(root, parts[:-1])
    try:
        os.symlink(target, parts[-1], dir_fd=folder)
    finally:
        os.close(folder)


def _open_folder(root: int, parts: Parts) -> int:
    """Open a folder beneath root, never through a link."""
    here = os.dup(root)
    for part in parts:
        try:
            os.mkdir(part, 0o755, dir_fd=here)
        except FileExistsError:
            pass
        try:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def _refuse(code: str, **params) -> NoReturn:
    raise InvalidInput(errors=[FieldError("/code", code, params)])
