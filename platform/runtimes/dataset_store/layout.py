"""Where versions of datasets lie below the root of people's files.

    dataset/<key>/<n>/           the files of a version, hard links to objects; what jobs mount
    dataset-store/objects/xx/    each content once, under its digest; ".x" if it may be executed
    dataset-store/manifests/     what each version holds, one file each
    dataset-store/taking/        what is being made or removed, a folder each, which its maker locks

A version appears by one rename, and goes by one. The count of an object's links tells whether a version has it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from runtimes.storage.areas import AreaId, get_area_path
from runtimes.storage.file_lock import hold_file_lock

READ_ONLY, OWN = 0o555, 0o755
"""Modes of folders: of versions, and while they are made or removed; only root can rename what is READ_ONLY."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StoreLayout:
    def __init__(self, root: str | os.PathLike):
        self.root = Path(root)
        own = self.root / "dataset-store"
        self.versions, self.objects = self.root / "dataset", own / "objects"
        self.manifests, self.taking = own / "manifests", own / "taking"

    def make_folders(self) -> None:
        self.root.mkdir(mode=0o711, parents=True, exist_ok=True)
        self.versions.mkdir(mode=0o711, exist_ok=True)
        for folder in (self.objects.parent, self.objects, self.manifests, self.taking):
            folder.mkdir(mode=0o700, exist_ok=True)

    def version(self, key: str, number: int) -> Path:
        return get_area_path(self.root, AreaId("dataset", key)) / str(number)

    def manifest(self, key: str, number: int) -> Path:
        return self.manifests / f"{key}-{number}.jsonl"

    def object(self, name: str) -> Path:
        return self.objects / name[:2] / name

    @contextmanager
    def open_workplace(self) -> Iterator[Path]:
        """Make a folder in `taking` that no sweep removes; it goes in the end."""
        place = self.taking / token_hex(16)
        with hold_file_lock(self.taking / ".lock"):  # a sweep sees it locked, or not at all
            place.mkdir(mode=0o700)
            held = os.open(place, FOLDER)
            fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield place
        finally:
            with suppress(FileNotFoundError):
                remove_tree(place)
            os.close(held)

    def list_abandoned(self) -> list[Path]:
        """Return the folders in `taking` whose makers are gone."""
        with hold_file_lock(self.taking / ".lock"):
            return [place for place in self.taking.iterdir() if place.is_dir() and _is_unlocked(place)]


def remove_tree(path: Path) -> None:
    """Remove a folder and all in it, following no link; its folders may be read-only. Raises FileNotFoundError."""
    parent = os.open(path.parent, FOLDER)
    try:
        _remove(parent, path.name)
    finally:
        os.close(parent)


def _is_unlocked(place: Path) -> bool:
    fd = os.open(place, FOLDER)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def _remove(parent: int, name: str) -> None:
    folder = os.open(name, FOLDER, dir_fd=parent)
    try:
        os.fchmod(folder, 0o700)
        with os.scandir(folder) as found:
            entries = [(one.name, one.is_dir(follow_symlinks=False)) for one in found]
        for below, is_folder in entries:
            if is_folder:
                _remove(folder, below)
            else:
                os.unlink(below, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)
