"""A task's secrets: they come to the shim by a file in memory, and lie for the task in a file system in memory.

With namespaces that is a tmpfs of the task's own, which goes with it. Without, it is a folder of /dev/shm that only the
task's account can open, which the shim removes at the end. Few imports, for the shim.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence

from runtimes.local import isolation

SHARED_MEMORY = "/dev/shm"
PAGE = 4096


class Secrets:
    def __init__(self, files: Mapping[str, str], variables: Iterable[str] = ()):
        """files: {name: value}. variables: names of those that are variables as well."""
        self.files = files
        self.env = {name: files[name] for name in variables}


NO_SECRETS = Secrets({})


def choose_folder(uuid: str, seen_at: str, namespaces: bool) -> str:
    """Return where a task finds its secrets."""
    return os.path.join(seen_at, "secrets") if namespaces else os.path.join(SHARED_MEMORY, f"tessera-{uuid}")


def write_memory_file(name: str, said: Sequence[object]) -> int:
    """Return a file in memory, which a shim inherits, open where it begins. Raises OSError.

    said: secrets as (name, value, whether it is a variable as well), or the login at a registry.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(json.dumps(said).encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def read_memory_file(fd: int) -> Secrets:
    with open(fd, "rb") as file:
        said = json.loads(file.read())
    return Secrets({name: value for name, value, _ in said}, [name for name, _, exported in said if exported])


def write_folder(plan: dict, secrets: Secrets) -> None:
    """Write the files where the machine's own memory is all that there is. Raises OSError."""
    if not plan["secrets"] or plan["namespaces"]:
        return
    remove_folder(plan)  # of a start that was cut off
    os.mkdir(plan["secrets"], 0o700)
    _write_files(plan, secrets, os.open(plan["secrets"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))


def mount_folder(plan: dict, secrets: Secrets) -> None:
    """After `hide_paths`, write the files into a tmpfs of the task's own. Raises OSError."""
    if not plan["secrets"]:
        return
    size = sum(len(value.encode()) // PAGE + 2 for value in secrets.files.values()) * PAGE
    _write_files(plan, secrets, isolation.mount_memory(plan["secrets"], size))
    isolation.seal_memory(plan["secrets"], size)


def remove_folder(plan: dict) -> None:
    """Remove the files of a task without namespaces; with them, they went with its last process."""
    if plan.get("secrets") and not plan["namespaces"]:
        shutil.rmtree(plan["secrets"], ignore_errors=True)


def _write_files(plan: dict, secrets: Secrets, folder: int) -> None:
    """Write each file for the task's account alone; closes `folder`."""
    base = f"/proc/self/fd/{folder}"
    try:
        for name, value in secrets.files.items():
            fd = os.open(f"{base}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
            with open(fd, "wb") as file:
                file.write(value.encode())
            if plan["uid"] is not None:
                os.chown(f"{base}/{name}", plan["uid"], plan["gid"])
        if plan["uid"] is not None:
            os.chown(base, plan["uid"], plan["gid"])
    finally:
        os.close(folder)
