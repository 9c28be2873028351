"""Log store: an append-only file for each task. Appends name their byte offset, so repeats are harmless.

Beside it stands when its bytes were written, as far as that is told (runtimes.log_times).
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from runtimes.log_times import UNKNOWN, Moment, pack_moments, times_path

TASK = re.compile(r"[0-9a-f]{32}")
READ_LIMIT = 65536


class LogStore:
    def __init__(self, root: str | os.PathLike):
        self.root = Path(root)

    def path(self, task: str) -> Path:
        """Return the log's path, existing or not. Raises ValueError."""
        name = str(task).replace("-", "")
        if not TASK.fullmatch(name):
            raise ValueError(f"not a task uuid: {task!r}")
        return self.root / name[:2] / f"{name}.log"

    def size(self, task: str) -> int:
        try:
            return self.path(task).stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, task: str, offset: int, data: bytes, moments: Sequence[Moment] = ()) -> int:
        """Store data at offset, return the new size. moments: when it was written. Raises ValueError for a gap."""
        path = self.path(task)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if offset < 0 or offset > size:
                raise ValueError(f"offset {offset} leaves a gap: the log of {task} has {size} bytes")
            fresh = memoryview(data)[size - offset :]
            if fresh:
                self._append_moments(path, size, offset + len(data), moments)
            while fresh:
                size += (written := os.pwrite(fd, fresh, size))
                fresh = fresh[written:]
            return size
        finally:
            os.close(fd)

    def _append_moments(self, log: Path, size: int, end: int, moments: Sequence[Moment]) -> None:
        """Note when the bytes from `size` on were written; without a word about it, that it is not known."""
        path = times_path(log)
        is_new = not path.exists()
        if not moments and is_new:
            return
        holds = [second for at, second in moments if at <= size]
        before = [(0, UNKNOWN)] if size and is_new else []
        kept = [
            *before,
            (size, holds[-1] if holds else UNKNOWN),
            *((at, second) for at, second in moments if size < at < end),
        ]
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, pack_moments(kept))
        finally:
            os.close(fd)

    def read(self, task: str, offset: int, limit: int = READ_LIMIT) -> tuple[bytes, int]:
        """Return (data, next offset); a missing log is empty, and so is one beyond its end."""
        offset = max(offset, 0)
        try:
            with open(self.path(task), "rb") as log:
                log.seek(min(offset, os.fstat(log.fileno()).st_size))  # no file system takes just any number
                data = log.read(max(limit, 0))
        except FileNotFoundError:
            data = b""
        return data, offset + len(data)
