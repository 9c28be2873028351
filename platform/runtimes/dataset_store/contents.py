"""Put the content of one opened file into a tree: as a link to the object of its digest, a clone, or a copy.

Somebody may write the source meanwhile. So no link ever leads to it, it is looked at before and after it is read, and
what was copied is hashed once more.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.errors import Conflict
from runtimes.dataset_store.layout import StoreLayout

TRIES = 3
SMALL = 1 << 20
"""A file of so many bytes is read whole, once."""
PIECE = 1 << 20
COPIED_AT_ONCE = 64 << 20
FICLONE = 0x40049409  # linux/fs.h
JUST_NOW_S = 0.02
"""A change within this time of another may leave no trace: kernels count changes in ticks."""
PUBLISH_EVERY = 20_000
NO_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Content:
    """A file as it was kept. mode: 0o444 or 0o555."""

    size: int
    mode: int
    digest: str


class ContentKeeper:
    """Keeps the files of one tree. new_bytes: what they need on disk besides what was there."""

    def __init__(self, layout: StoreLayout, tree: int, spare: Path, tick: Callable[[], None]):
        """tree: its top folder, opened. spare: a path beside it for a moment's use. tick: called at each piece."""
        self._layout, self._tree, self._spare, self._tick = layout, tree, spare, tick
        self._fresh: dict[str, str] = {}  # contents that are no objects yet, by the object's name: path in the tree
        self._clones = True
        self.new_bytes = 0

    def keep(self, source: int, path: str, folder: int, name: str, most_bytes: int | None = None) -> Content:
        """Put the file opened as `source` into `folder` of the tree, at `path` of it.

        most_bytes: what may be new. Raises Conflict (source_changes, dataset_no_room), OSError.
        """
        for _attempt in range(TRIES):
            before = _read_facts(source)
            mode = 0o555 if before.st_mode & 0o111 else 0o444
            if self._clones and before.st_size > SMALL and self._clone(source, folder, name):
                content = Content(os.stat(name, dir_fd=folder).st_size, mode, self._hash_named(folder, name))
            else:
                small = _read_all(source, before.st_size) if before.st_size <= SMALL else None
                digest = _hash_bytes(small) if small is not None else _hash_file(source, self._tick)
                content = Content(before.st_size, mode, digest)
                if not _is_same(before, os.fstat(source)):
                    continue
                if self._link(content, folder, name):
                    return content
                self._check_room(content.size, most_bytes)
                if not self._write(source, small, content, folder, name):
                    continue
            self._add(content, path, folder, name, most_bytes)
            return content
        raise Conflict("source_changes", path=path)

    def publish(self) -> None:
        """Make what was written durable, and then objects of it that other versions may use. Raises OSError."""
        if not self._fresh:
            return
        _sync(self._tree)
        for object_name, path in self._fresh.items():
            target = self._layout.object(object_name)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            try:
                os.link(path, target, src_dir_fd=self._tree, follow_symlinks=False)
            except FileExistsError:  # another take was faster, or this is a successor of one that is full of links
                self._replace_full(target, path)
        self._fresh.clear()

    def _clone(self, source: int, folder: int, name: str) -> bool:
        """Share the blocks of the source where the file system can; it is as if copied in one moment."""
        made = os.open(name, CREATE, 0o600, dir_fd=folder)
        try:
            fcntl.ioctl(made, FICLONE, source)
        except OSError as error:
            os.unlink(name, dir_fd=folder)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise
            self._clones = False
            return False
        finally:
            os.close(made)
        return True

    def _link(self, content: Content, folder: int | None, name: str | Path) -> bool:
        """Link to the object of this content. Returns False if there is none, or it has as many links as it may."""
        wanted = _object_name(content)
        try:
            if wanted in self._fresh:
                os.link(self._fresh[wanted], name, src_dir_fd=self._tree, dst_dir_fd=folder, follow_symlinks=False)
            else:
                os.link(self._layout.object(wanted), name, dst_dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            return False
        return True

    def _add(self, content: Content, path: str, folder: int, name: str, most_bytes: int | None) -> None:
        """Take a file that was written to the tree as the object of its content, unless there is one by now."""
        os.chmod(name, content.mode, dir_fd=folder)
        if self._link(content, None, self._spare):
            os.rename(self._spare, name, dst_dir_fd=folder)
            return
        self._check_room(content.size, most_bytes)
        self._fresh[_object_name(content)] = path
        self.new_bytes += content.size
        if len(self._fresh) >= PUBLISH_EVERY:
            self.publish()

    def _write(self, source: int, small: bytes | None, content: Content, folder: int, name: str) -> bool:
        """Write a new file. Returns False, and leaves none, where its content is not what was read before."""
        made = os.open(name, CREATE, 0o600, dir_fd=folder)
        try:
            if small is not None:
                view = memoryview(small)
                while view:
                    view = view[os.write(made, view) :]
                is_right = len(small) == content.size
            else:
                _copy(source, made, self._tick)
                is_right = _hash_file(made, self._tick) == content.digest
        finally:
            os.close(made)
        if not is_right:
            os.unlink(name, dir_fd=folder)
        return is_right

    def _hash_named(self, folder: int, name: str) -> str:
        made = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            return _hash_file(made, self._tick)
        finally:
            os.close(made)

    def _check_room(self, size: int, most_bytes: int | None) -> None:
        if most_bytes is not None and self.new_bytes + size > most_bytes:
            raise Conflict("dataset_no_room", more_bytes=self.new_bytes + size - most_bytes)

    def _replace_full(self, target: Path, path: str) -> None:
        """Let `target` be the file at `path` if no more links to it can be made."""
        try:
            os.link(target, self._spare)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            os.link(path, self._spare, src_dir_fd=self._tree, follow_symlinks=False)
            os.rename(self._spare, target)
        else:
            os.unlink(self._spare)


def _object_name(content: Content) -> str:
    return content.digest + (".x" if content.mode & 0o111 else "")


def _read_facts(source: int) -> os.stat_result:
    """Return the facts of a file that has not changed just now."""
    facts = os.fstat(source)
    if not stat.S_ISREG(facts.st_mode):
        raise Conflict("not_a_file")
    if abs(time.time() - facts.st_mtime) < JUST_NOW_S:
        time.sleep(JUST_NOW_S)
        facts = os.fstat(source)
    return facts


def _is_same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def _read_all(source: int, size: int) -> bytes:
    """Return at most a byte more than it should have."""
    return os.pread(source, size + 1, 0)


def _hash_bytes(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def _hash_file(source: int, tick: Callable[[], None]) -> str:
    digest, at = hashlib.blake2b(digest_size=32), 0
    while piece := os.pread(source, PIECE, at):
        digest.update(piece)
        at += len(piece)
        tick()
    return digest.hexdigest()


def _copy(source: int, made: int, tick: Callable[[], None]) -> None:
    """Copy inside of the kernel, or of the file server, where that can be."""
    at = 0
    while True:
        try:
            count = os.copy_file_range(source, made, COPIED_AT_ONCE, at, at)
        except OSError as error:
            if error.errno not in NO_COPY:
                raise
            break
        if not count:
            return
        at += count
        tick()
    while piece := os.pread(source, PIECE, at):
        at += os.pwrite(made, piece, at)
        tick()


def _sync(tree: int) -> None:
    """Write all of the file system to disk: an fsync of each file would take hours. Raises OSError."""
    if _libc.syncfs(tree) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
