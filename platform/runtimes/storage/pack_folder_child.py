"""Write a folder as a tar archive, with the person's account; the answer is the pipe's read end.

Files that shrink are padded with zeros, as by GNU tar. A last member lists unreadable ones. Exits 0 if complete.
"""

import errno
import fcntl
import io
import json
import os
import stat
import tarfile
from contextlib import suppress

from runtimes.storage.file_child import DEEPEST, PART, become_person, build_refusal, receive_request, send_answer
from runtimes.storage.open_beneath import open_beneath

PIECE = 256 * 1024
LEFT_OUT = "NOT-IN-THIS-ARCHIVE.txt"
NAMED_MOST = 1000
NOT_FOR_US = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO}
"""Errors of files closed to the person, not archivable, or changed since they were listed."""


def main() -> None:
    line, request = receive_request()
    try:
        root = become_person(request)
        folder = open_beneath(root, request["args"]["path"], os.O_RDONLY | os.O_DIRECTORY)
        theirs, ours = os.pipe()
        with suppress(PermissionError):  # over the account's pipe limit
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, PIECE)
    except OSError as error:
        send_answer(line, build_refusal(error), [])
        os._exit(0)
    send_answer(line, {}, [theirs])
    line.close()
    os.close(theirs)
    try:
        pack_folder(folder, request["args"]["name"], ours)
    except OSError:
        os._exit(1)  # reader gone
    os._exit(0)


def pack_folder(folder: int, name: str, out: int) -> None:
    """Write the archive of `folder` to `out`. Raises OSError."""
    left_out: list[str] = []
    with (
        os.fdopen(out, "wb", buffering=0) as pipe,
        tarfile.open(fileobj=pipe, mode="w|", bufsize=PIECE, format=tarfile.PAX_FORMAT) as archive,
    ):
        archive.copybufsize = PIECE  # type: ignore[attr-defined]  # typeshed does not know it
        archive.addfile(_member(name, os.fstat(folder)))
        _add_below(archive, folder, name, DEEPEST, left_out)
        if left_out:
            text = json.dumps(left_out[:NAMED_MOST], indent=0).encode()
            note = tarfile.TarInfo(f"{name}/{LEFT_OUT}")
            note.size = len(text)
            archive.addfile(note, io.BytesIO(text))


def _add_below(archive: tarfile.TarFile, folder: int, above: str, deepest: int, left_out: list[str]) -> None:
    """Add files, folders and links, following none."""
    with os.scandir(folder) as found:
        for one in found:
            if one.name.startswith(PART):
                continue
            path = f"{above}/{one.name}"
            try:
                if one.is_symlink():
                    _add_link(archive, folder, one.name, path)
                elif one.is_dir(follow_symlinks=False) and deepest:
                    _add_folder(archive, folder, one.name, path, deepest - 1, left_out)
                else:
                    _add_file(archive, folder, one.name, path)
            except OSError as error:
                if error.errno not in NOT_FOR_US:
                    raise
                left_out.append(path)


def _add_folder(archive: tarfile.TarFile, above: int, name: str, path: str, deepest: int, left_out: list[str]) -> None:
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        archive.addfile(_member(path, os.fstat(folder)))
        _add_below(archive, folder, path, deepest, left_out)
    finally:
        os.close(folder)


def _add_link(archive: tarfile.TarFile, folder: int, name: str, path: str) -> None:
    member = _member(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
    member.linkname = os.readlink(name, dir_fd=folder)
    archive.addfile(member)


def _add_file(archive: tarfile.TarFile, folder: int, name: str, path: str) -> None:
    # O_NONBLOCK: a pipe without writer would block
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.ENXIO, "no file", name)
        archive.addfile(_member(path, facts), _Filled(fd))
    finally:
        os.close(fd)


class _Filled:
    """Pads a file with zeros to the size asked for."""

    def __init__(self, fd: int):
        self.fd = fd

    def read(self, count: int = PIECE, /) -> bytes:
        return os.read(self.fd, count).ljust(count, b"\0")


def _member(path: str, facts: os.stat_result) -> tarfile.TarInfo:
    """Return a member without owner: account numbers differ elsewhere."""
    kinds = {stat.S_IFREG: tarfile.REGTYPE, stat.S_IFDIR: tarfile.DIRTYPE, stat.S_IFLNK: tarfile.SYMTYPE}
    member = tarfile.TarInfo(path)
    member.type = kinds[stat.S_IFMT(facts.st_mode)]
    member.size = facts.st_size if member.type == tarfile.REGTYPE else 0
    member.mode, member.mtime = facts.st_mode & 0o777, max(facts.st_mtime, 0)
    return member
