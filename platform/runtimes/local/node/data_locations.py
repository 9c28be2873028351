"""Data already on this machine: what tasks mounted, and its size; only for areas on a local disk.

Each name is a small file, shared by all processes.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from common.errors import PlatformError
from runtimes.contract.node import DATA, HeldView
from runtimes.contract.task import Mount
from runtimes.storage.areas import AreaId, make_data_key
from runtimes.storage.file_store import measure_area

log = logging.getLogger("tessera.held")

MOST = 100
"""Names kept, by last use."""
FRESH_S = 900.0
"""Maximum age of a size."""
LOOK_S = 1.0
"""Time for measuring in one call; the rest waits for the next."""
NETWORK = ("nfs", "cifs", "smb", "ceph", "lustre", "gpfs", "glusterfs", "beegfs", "9p", "virtiofs", "fuse.")


@dataclass(frozen=True)
class _Name:
    """A data name. bytes: a lower bound if not fully counted. measured_at: 0 is never."""

    place: str
    number: int | str
    path: str
    bytes: int = 0
    measured_at: float = 0.0


class DataLocations:
    def __init__(self, folder: Path, files_dir: Path):
        self._folder, self._files_dir = folder, files_dir

    def record_use(self, mounts: Iterable[Mount]) -> None:
        """Record what a task mounts. Raises OSError."""
        for mount in mounts:
            if mount.place is not None and mount.place.kind != "volume":
                self._folder.mkdir(mode=0o700, exist_ok=True)
                file = self._folder / _digest(make_data_key(mount.place, mount.source))
                if file.exists():
                    os.utime(file)
                else:
                    _write(file, _Name(mount.place.kind, mount.place.number, mount.source))

    def list_data(self) -> tuple[HeldView, ...]:
        """List data here by key."""
        if not self._folder.is_dir() or not is_own_disk(self._files_dir):
            return ()
        names = (file for file in self._folder.iterdir() if not file.name.startswith("."))
        files = sorted(names, key=_used_at, reverse=True)
        for file in files[MOST:]:
            file.unlink(missing_ok=True)
        until = time.monotonic() + LOOK_S
        views = (self._view(file, until) for file in files[:MOST])
        return tuple(sorted((view for view in views if view), key=lambda view: view.key))

    def _view(self, file: Path, until: float) -> HeldView | None:
        with suppress(FileNotFoundError, ValueError, TypeError):  # deleted, or half written
            name = _Name(**json.loads(file.read_text()))
            place = AreaId(name.place, name.number)  # type: ignore[arg-type]
            left = until - time.monotonic()
            if left > 0 and not 0 <= time.time() - name.measured_at < FRESH_S:
                size = self._measure(place, name.path, left)
                name = _Name(name.place, name.number, name.path, size, time.time())
                used_at = _used_at(file)
                _write(file, name)
                os.utime(file, (used_at, used_at))
            return HeldView(DATA, make_data_key(place, name.path), name.bytes) if name.bytes else None
        return None

    def _measure(self, place: AreaId, path: str, within_s: float) -> int:
        try:
            return measure_area(self._files_dir, place, path=path, within_s=within_s).bytes
        except PlatformError as error:
            log.info("not measured: %s", error.code)
            return 0


def is_own_disk(path: Path) -> bool:
    mounts = [line.split(" - ", 1) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    points = {left.split()[4]: right.split()[0] for left, right in mounts}
    above = next(str(one) for one in (path, *path.parents) if str(one) in points)
    return not points[above].startswith(NETWORK)


def _used_at(file: Path) -> float:
    with suppress(FileNotFoundError):
        return file.stat().st_mtime
    return 0.0


def _write(file: Path, name: _Name) -> None:
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_text(json.dumps(asdict(name)))
    fresh.rename(file)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
