"""One process of the platform after the other, on one machine or on a file system that several share."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

LOCK_FILE = os.O_RDWR | os.O_CREAT
"""It is made where it is not there; NFS locks only what may be written."""


@contextmanager
def alone(path: str | os.PathLike, flags: int = LOCK_FILE) -> Iterator[None]:
    """The others wait. flags: os.O_DIRECTORY for a folder that is there. Raises OSError."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
