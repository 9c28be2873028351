"""A task's directory: all that is known of a task, in files and a lock. Few imports, for the shim.

spec.json   what to run, written first (0600)
lock        held by the living shim, inherited locked
started     boot id, pid, start time, epoch of the shim; before anything of the job runs
job         pid and start time of the job's first process
door        session socket while the job runs (0600, see sessions.py)
stop        request to end it
checkpoint  newest change in its checkpoint directory
gpu         use of shared cards, at the last change (see agent/gpu/policy.py)
slice/      its card slice (see slices.py), elsewhere without namespaces
exit        how it ended, written once, when no process is left
passwd      the machine's plus the job's account (see isolation.name_account)
scratch/    the job's own: work/, tmp/, hosts/, home, team's folder
"""

import fcntl
import json
import os

RESERVED = 4096  # bytes for the exit file on a full disk


class TaskDir:
    def __init__(self, path: str):
        self.path = path
        self.uuid = os.path.basename(path)

    def __truediv__(self, name: str) -> str:
        return os.path.join(self.path, name)

    def create(self) -> bool:
        """Return False if it exists: mkdir decides between starts."""
        try:
            os.mkdir(self.path, 0o711)
        except FileExistsError:
            return False
        return True

    def read(self, name: str) -> dict | None:
        try:
            with open(self / name, "rb") as file:
                return json.loads(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, record: dict) -> None:
        """Write atomically and durably."""
        temporary = self / f".{name}.{os.getpid()}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            data = json.dumps(record).encode()
            os.pwrite(fd, data, 0)
            os.truncate(fd, len(data))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, self / name)
        self.sync()

    def reserve(self, name: str) -> None:
        """Allocate blocks for a later `write`."""
        fd = os.open(self / f".{name}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, b" " * RESERVED, 0)
        finally:
            os.close(fd)

    def sync(self) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def try_lock(self, *, shared: bool = False) -> int | None:
        """Return a descriptor that holds the lock, or None if taken."""
        fd = os.open(self / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def is_locked(self) -> bool:
        fd = self.try_lock(shared=True)  # checks do not collide
        if fd is None:
            return True
        os.close(fd)
        return False
