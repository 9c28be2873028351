"""A task's directory: all that is known of it, in files and one lock.

    spec.json   what to run; written before anything happens (0600)
    lock        held by the shim as long as it lives, through a file description it inherited already locked
    started     boot id, pid, start time and epoch of the shim; nothing of the job runs before it is there
    job         pid and start time of the job's first process
    door        a socket on which the shim lets sessions in while the job runs (0600, see sessions.py)
    stop        the wish to end it
    checkpoint  when something in its checkpoint directory changed last
    gpu         what it holds of its shared cards (see agent/gpu_policy.py), when that changed last
    slice/      what it finds of its slice of a card (see slices.py); without namespaces elsewhere
    exit        how it ended; written once, when no process of it is left; never changed
    passwd      the machine's, with the job's account added, as the job sees it (see isolation.name_account)
    scratch/    the job's own: work/, tmp/, hosts/, and where home and the team's folder appear

Read by the shim, so it imports little.
"""

import fcntl
import json
import os

RESERVED = 4096  # bytes set aside for the exit file, so that a full disk cannot hide how a task ended


class TaskDir:
    def __init__(self, path: str):
        self.path = path
        self.uuid = os.path.basename(path)

    def __truediv__(self, name: str) -> str:
        return os.path.join(self.path, name)

    def create(self) -> bool:
        """False when it is there already: mkdir is the one point where starts race."""
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
        """All of it or nothing, and on the disk when this returns."""
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
        """Take the blocks that a later `write(name)` of this process needs."""
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
        """A file descriptor that holds the lock until it is closed, or None: somebody has it."""
        fd = os.open(self / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def is_locked(self) -> bool:
        fd = self.try_lock(shared=True)  # shared: two who only look are not in each other's way
        if fd is None:
            return True
        os.close(fd)
        return False
