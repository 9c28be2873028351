"""The images of this machine: podman's store of layers, and a record of each that tasks may use. Few imports.

storage.conf   of podman, for this store alone
layers/        podman's; overlay/l has a short name for each layer
records/       one for each image, named after its key; the time of its change is that of its last use
locks/         uses: held while a record is taken for use, or removed; pulls: shared by all that pull, alone by who
               removes; one for each image that is pulled
key            with which logins are marked

No image is ever mounted outside of a task's own mount namespace: nothing is left when a task, or all, is killed.
"""

import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

Login = Sequence[str]
"""A registry, and a user and a password there; empty without."""
EVERYBODY = ""
"""In a record's `open_to`: pulled without a login."""
CONFIG = """\
[storage]
driver = "overlay"
graphroot = "{folder}/layers"
runroot = "{folder}/run"
[storage.options.overlay]
skip_mount_home = "true"
"""


class ImageRecord:
    def __init__(
        self, *, key: str, id: str, layers: Sequence[str], env: Mapping[str, str], bytes: int, open_to: Sequence[str]
    ):
        """An image that is here. layers: short names, topmost first. open_to: who may use it, as marks of logins."""
        self.key, self.id, self.layers, self.env = key, id, layers, env
        self.bytes, self.open_to = bytes, open_to


class ImageStore:
    def __init__(self, folder: Path):
        self.folder = folder
        self.overlay = folder / "layers/overlay"
        self.config = folder / "storage.conf"

    def prepare(self) -> None:
        """Create the store where it is missing. Raises OSError."""
        for folder in (self.folder, self.folder / "records", self.folder / "locks", self.folder / "tmp"):
            folder.mkdir(mode=0o700, exist_ok=True)
        with self.lock():
            if not (self.folder / "key").exists():
                write_file(self.folder / "key", os.urandom(32))
            if not self.config.exists():  # the last
                write_file(self.config, CONFIG.format(folder=self.folder).encode())

    @contextmanager
    def lock(self, name: str = "uses", how: int = fcntl.LOCK_EX) -> Iterator[None]:
        """Hold a lock of the store. Raises BlockingIOError if it is taken, with LOCK_NB."""
        fd = os.open(self.folder / "locks" / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, how)
            yield
        finally:
            os.close(fd)

    def lock_image(self, key: str):
        """Hold the lock of whoever pulls an image."""
        return self.lock(_digest(key))

    def find(self, key: str, login: Login) -> ImageRecord | None:
        """Return the image of a key if it is here whole, and the login may use it.

        A tag may mean another image by now, so only what is named by its digest is found.
        """
        record = self.read(key) if "@" in key else None
        if record is None or not {EVERYBODY, self.mark(login)} & set(record.open_to):
            return None
        return record if all((self.overlay / layer).is_dir() for layer in record.layers) else None

    def list_layers(self) -> set[str]:
        """List folders of layers, of those too that are being written."""
        return set(os.listdir(self.overlay)) - {"l"} if self.overlay.is_dir() else set()

    def read(self, key: str) -> ImageRecord | None:
        return _read_record(self._path(key))

    def write(self, record: ImageRecord) -> None:
        write_file(self._path(record.key), json.dumps(vars(record)).encode())

    def note_use(self, record: ImageRecord) -> None:
        os.utime(self._path(record.key))

    def forget(self, record: ImageRecord) -> None:
        self._path(record.key).unlink(missing_ok=True)

    def list_records(self) -> list[ImageRecord]:
        """List images, least recently used first."""
        paths = sorted((self.folder / "records").glob("*.json"), key=_changed_at)
        return [record for path in paths if (record := _read_record(path)) is not None]

    def mark(self, login: Login) -> str:
        """Return what stands for a login in records, which nobody can turn into its password."""
        if not login:
            return EVERYBODY
        return hmac.new((self.folder / "key").read_bytes(), "\0".join(login).encode(), hashlib.sha256).hexdigest()

    def _path(self, key: str) -> Path:
        return self.folder / "records" / f"{_digest(key)}.json"


def write_file(path: Path, data: bytes) -> None:
    """Write a file of ours alone, whole or not at all. Raises OSError."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    fresh.rename(path)


def _read_record(path: Path) -> ImageRecord | None:
    try:
        return ImageRecord(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
