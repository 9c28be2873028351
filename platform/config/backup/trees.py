"""Trees of files as archives: packed while people write them, unpacked as a whole or not at all."""

import base64
import gzip
import hashlib
import io
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from common.private_file import create_private_file
from config.backup.manifest import Part, Unusable

COMPRESSION = 1
"""Homes hold mostly what does not get smaller; the time counts."""
ATTRIBUTE = "TESSERA.xattr."
KEPT_ATTRIBUTES = ("user.", "system.posix_acl_")
FRESH = ".restoring"


class HashingWriter(io.RawIOBase):
    """A new file whose checksum is known when it is written."""

    def __init__(self, path: Path):
        self.file, self.digest, self.size = create_private_file(path, "xb"), hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self.file.write(data)

    def close(self) -> None:
        if not self.file.closed:
            self.file.close()
        super().close()

    def finish(self, files: int = 0) -> Part:
        """Make it durable and return what the manifest says of it."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return Part(self.digest.hexdigest(), self.size, files)


class SteadyReader:
    """Yields exactly `size` bytes of a file that somebody may write: zeros for what was cut off meanwhile."""

    def __init__(self, file: BinaryIO, size: int):
        self.file, self.left = file, size

    def read(self, size: int) -> bytes:
        wanted = min(size, self.left)
        data = self.file.read(wanted)
        self.left -= wanted
        return data + bytes(wanted - len(data))


def pack_tree(root: Path, target: Path, leave_out: Callable[[str], bool] = lambda name: False) -> Part:
    """Pack what is below a folder. No link is followed, and what disappears meanwhile is left out.

    leave_out: by path below the root.
    """
    writer, files = HashingWriter(target), 0
    with writer:
        with (
            gzip.GzipFile(fileobj=writer, mode="wb", compresslevel=COMPRESSION, mtime=0) as squeezed,
            tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for folder, name, descriptor in _walk(root):
                inside = os.path.join(folder, name) if name else folder
                if inside and not leave_out(inside):
                    files += _add(tar, inside, name, descriptor)
                    tar.members = []  # type: ignore[attr-defined]  # millions of them need memory
        return writer.finish(files)


def _walk(root: Path) -> Iterator[tuple[str, str, int]]:
    """Yield (folder, name, the folder's descriptor); of folders themselves with the name ""."""
    if not root.is_dir():
        return
    for path, folders, files, descriptor in os.fwalk(root, follow_symlinks=False):
        folder = os.path.relpath(path, root).removeprefix(".").removeprefix("/")
        if folder:
            yield folder, "", descriptor
        links = [name for name in folders if _is_link(name, descriptor)]
        for name in sorted([*files, *links]):
            yield folder, name, descriptor


def _is_link(name: str, folder: int) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def _add(tar: tarfile.TarFile, inside: str, name: str, folder: int) -> int:
    """Add one file, link or folder; return 1 for a file that was added."""
    if not name:
        member = tarfile.TarInfo(inside)
        member.type = tarfile.DIRTYPE
        _describe(member, os.fstat(folder), folder)
        tar.addfile(member)
        return 0
    try:
        if _is_link(name, folder):
            member = tarfile.TarInfo(inside)
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=folder)
            _describe(member, os.stat(name, dir_fd=folder, follow_symlinks=False), None)
            tar.addfile(member)
            return 0
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:  # it is gone, or a socket
        return 0
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return 0
        member = tar.gettarinfo(arcname=inside, fileobj=file)
        _describe(member, os.fstat(descriptor), descriptor)
        steady: IO[bytes] = SteadyReader(file, member.size)  # type: ignore[assignment]  # it is read only
        tar.addfile(member, steady)
        return 1


def _describe(member: tarfile.TarInfo, found: os.stat_result, descriptor: int | None) -> None:
    """Set owner, rights, time and attributes: numbers alone, as names may differ where it is restored."""
    member.uid, member.gid, member.uname, member.gname = found.st_uid, found.st_gid, "", ""
    member.mode, member.mtime = stat.S_IMODE(found.st_mode), found.st_mtime
    if descriptor is not None:
        with suppress(OSError):
            for name in os.listxattr(descriptor):
                if name.startswith(KEPT_ATTRIBUTES):
                    value = base64.b64encode(os.getxattr(descriptor, name)).decode()
                    member.pax_headers = {**member.pax_headers, ATTRIBUTE + name: value}


@contextmanager
def unpacking(packed: Path, root: Path) -> Iterator[None]:
    """Unpack an archive beside its place; it is moved there at the block's end, and removed after a failure."""
    fresh = root / FRESH
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o711, parents=True)
    try:
        with tarfile.open(packed, "r:gz") as tar:
            _extract_all(tar, fresh)
        yield
        for entry in list(fresh.iterdir()):
            entry.rename(root / entry.name)
        fresh.rmdir()
    except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
        raise Unusable(f"{packed.name} cannot be unpacked: {error}", "Take another backup.") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _extract_all(tar: tarfile.TarFile, into: Path) -> None:
    """Extract all members; folders get their rights last, when nothing is written into them any more."""
    folders: list[tarfile.TarInfo] = []
    while (member := tar.next()) is not None:
        tar.members = []  # type: ignore[attr-defined]  # millions of them need memory
        target = into / member.name
        if not target.parent.resolve().is_relative_to(into.resolve()) or ".." in Path(member.name).parts:
            raise tarfile.TarError(f"{member.name!r} leads out of its folder")
        tar.extract(member, into, set_attrs=not member.isdir(), numeric_owner=True, filter="fully_trusted")
        folders += [member] if member.isdir() else []
        if member.isreg():
            _set_attributes(member, target)
    for member in reversed(folders):
        target = into / member.name
        tar.chown(member, target, True)  # type: ignore[arg-type]  # any path will do
        tar.chmod(member, target)  # type: ignore[arg-type]
        _set_attributes(member, target)
        tar.utime(member, target)  # type: ignore[arg-type]


def _set_attributes(member: tarfile.TarInfo, target: Path) -> None:
    for name, value in member.pax_headers.items():
        if name.startswith(ATTRIBUTE):
            with suppress(OSError):  # this file system has none
                os.setxattr(target, name.removeprefix(ATTRIBUTE), base64.b64decode(value), follow_symlinks=False)


def is_empty(root: Path) -> bool:
    """Return whether a folder holds no file; empty folders, which a start makes, do not count."""
    return not any(files for _, _, files in os.walk(root) if files != [".lock"])
