"""Unpack a job's code, as the job's own account: `python -c ... archive target uid gid`.

The archive was packed by somebody we do not trust. Only plain files and directories are made, below the target;
links and devices are left out with a line in the log. A process of its own, so that the shim need not know tarfile.
"""

import gzip
import os
import sys
import tarfile
from collections.abc import Iterator

from runtimes.local.isolation import die_with_parent, drop_to

MAX_FILES = 10_000
MAX_BYTES = 2 << 30


def main(archive: str, target: str, uid: str, gid: str) -> None:
    """uid and gid: "" keeps the platform's account. Exits 1 with one sentence on stderr."""
    die_with_parent()
    file = open(archive, "rb")  # noqa: SIM115 - opened as the platform, read as the job: only we may see the archive
    drop_to(int(uid) if uid else None, int(gid) if gid else None)
    die_with_parent()  # changing the account switched it off
    try:
        # gzip by name, not "r:gz": tarfile would import it only now, and this account may not read our Python
        with tarfile.open(fileobj=gzip.GzipFile(fileobj=file), mode="r:") as tar:
            for name in unpack(tar, target):
                print(f"[tessera] {name} is a link or a device: left out", flush=True)
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        sys.exit(f"The code could not be unpacked: {error}")


def unpack(tar: tarfile.TarFile, target: str) -> Iterator[str]:
    """Make its files below target; yields the names that are left out. Raises ValueError for what is not allowed."""
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    files = size = 0
    for member in tar:
        files, size = files + 1, size + member.size
        if files > MAX_FILES or size > MAX_BYTES:
            raise ValueError(f"more than {MAX_FILES} files or {MAX_BYTES} bytes")
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if ".." in parts or member.name.startswith("/") or "\0" in member.name:
            raise ValueError(f"{member.name!r} leads out of the code directory")
        if member.isdir():
            os.close(_open_folder(root, parts))
        elif member.isreg() and parts:
            _make_file(tar, member, root, parts)
        else:
            yield member.name
    os.close(root)


def _make_file(tar: tarfile.TarFile, member: tarfile.TarInfo, root: int, parts: list[str]) -> None:
    folder = _open_folder(root, parts[:-1])
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    fd = os.open(parts[-1], flags, 0o755 if member.mode & 0o100 else 0o644, dir_fd=folder)
    os.close(folder)
    content = tar.extractfile(member)
    with open(fd, "wb") as out:
        while content is not None and (piece := content.read(1 << 20)):
            out.write(piece)


def _open_folder(root: int, parts: list[str]) -> int:
    """A descriptor of the folder, made as needed; never through a link, so never out of root."""
    here = os.dup(root)
    for part in parts:
        try:
            os.mkdir(part, 0o755, dir_fd=here)
        except FileExistsError:
            pass
        below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
        os.close(here)
        here = below
    return here
