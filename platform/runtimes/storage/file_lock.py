"""A lock between the platform's processes, on one machine or on a shared file system."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

LOCK_FILE = os.O_RDWR | os.O_CREAT
"""Created when missing; NFS locks only files opened for writing."""


@contextmanager
def hold_file_lock(path: str | os.PathLike, flags: int = LOCK_FILE) -> Iterator[None]:
    """Lock a file exclusively. flags: os.O_DIRECTORY for a folder. Raises OSError."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
