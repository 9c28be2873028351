"""A task's directory: all that is known of a task, in files and a lock. Few imports, for the shim.

spec.json   what to run, written first (0600)
starts      a byte for each time that a start of it was begun
lock        held by the living shim, inherited locked
started     boot id, pid, start time, epoch of the shim; before anything of the job runs
job         pid and start time of the job's first process
door        session socket while the job runs (0600, see access/session_server.py)
stop        request to end it
fetching    since when its image has been pulled, of a task whose image was not here
image       the image that it holds, so that nobody removes it (see images/image_store.py)
checkpoint  newest change in its checkpoint directory
gpu         use of shared cards, at the last change (see agent/gpu/policy.py)
use         what it has used so far, every few seconds (see shim/task_counters.py)
slice/      its card slice (see slices/slice_dirs.py), elsewhere without namespaces
exit        how it ended, written once, when no process is left
passwd      the machine's plus the job's account (see isolation.name_account)
rootfs/     with an image, what it writes there, and its view of it (see shim/rootfs/image_root.py)
scratch/    the job's own: work/, tmp/, hosts/, home, team's folder
"""

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from runtimes.contract.errors import Rejected

RESERVED = 4096  # bytes for the exit file on a full disk
LOCK_PATIENCE_S = 2.0
UUID = re.compile(r"[0-9a-f]{32}")


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

    def count_start(self) -> None:
        """Count a start that is begun. Raises OSError."""
        with open(self / "starts", "ab") as file:
            file.write(b".")

    def read_starts(self) -> int:
        """Return how many starts of it were begun."""
        try:
            return os.path.getsize(self / "starts")
        except FileNotFoundError:
            return 0

    def read(self, name: str) -> dict | None:
        try:
            with open(self / name, "rb") as file:
                return json.loads(file.read())
        except FileNotFoundError:
            return None

    def read_epoch(self) -> int:
        """Return the epoch of whoever started it, else of whoever stopped it."""
        record, stop = self.read("spec.json"), self.read("stop")
        return record["spec"]["epoch"] if record else stop["epoch"] if stop else 0

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

    def try_write(self, name: str, record: dict) -> None:
        """Write what the next write would replace: a failure does not matter."""
        try:
            self.write(name, record)
        except OSError:
            pass

    def try_note(self, name: str, record: dict) -> None:
        """Write atomically what is soon written again: a crash or a full disk may lose it."""
        temporary = self / f".{name}.{os.getpid()}"
        try:
            with open(temporary, "w") as file:
                json.dump(record, file)
            os.rename(temporary, self / name)
        except OSError:
            pass

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

    @contextmanager
    def lock(self) -> Iterator[int | None]:
        """Hold the lock, waiting for readers; yield None if a shim holds it. Raises BlockingIOError."""
        until = time.monotonic() + LOCK_PATIENCE_S
        while (lock := self.try_lock()) is None and not self.is_locked():
            if time.monotonic() > until:
                raise BlockingIOError(f"{self.path} stays locked by readers")
        try:
            yield lock
        finally:
            if lock is not None:
                os.close(lock)

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


def get_task_dir(tasks_dir: os.PathLike[str], uuid: str) -> TaskDir:
    """Return a task's directory, existing or not. Raises Rejected for a malformed uuid."""
    if not UUID.fullmatch(uuid):
        raise Rejected(f"Not a task uuid: {uuid!r}.")
    return TaskDir(os.path.join(tasks_dir, uuid))


def list_tasks(tasks_dir: os.PathLike[str]) -> list[TaskDir]:
    return [TaskDir(entry.path) for entry in os.scandir(tasks_dir) if UUID.fullmatch(entry.name)]


def list_live_records(tasks_dir: os.PathLike[str]) -> Iterator[dict]:
    """Yield spec.json of each task that has not ended."""
    for task in list_tasks(tasks_dir):
        if task.read("exit") is None and (record := task.read("spec.json")):
            yield record


def build_exit_record(
    cause: str,
    detail: str,
    epoch: int,
    started_at: float | None = None,
    *,
    exit_code: int | None = None,
    signal: int | None = None,
    peak_memory_mib: int | None = None,
) -> dict:
    """Return the exit file's content, which ends now; its names are those of ContainerView."""
    return {
        "exit_code": exit_code,
        "signal": signal,
        "cause": cause,
        "detail": detail,
        "started_at": started_at,
        "ended_at": time.time(),
        "epoch": epoch,
        "peak_memory_mib": peak_memory_mib,
    }
