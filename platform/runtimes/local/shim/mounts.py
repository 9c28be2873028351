"""Mount a task's outside folders (home, team's folder, data), or link them without namespaces; mount its slice.

Few imports, for the shim.

A "bind" of the plan:
    root    host directory, chosen by the platform
    source  path below, chosen by a person; created as them, unless `mode` is null
    base    directory in the task, chosen by the platform
    below   path below, chosen by a person
A person's paths never lead out, whatever links exist.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from runtimes.local import isolation
from runtimes.report_file import FILE, TOOLS, make_report_file
from runtimes.storage.open_beneath import open_beneath

FOLDER = os.O_PATH | os.O_DIRECTORY
NETWORK_FILES = {"/etc/hosts": "hosts", "/etc/resolv.conf": "resolv.conf"}
"""Files of the machine, and the names of a task's in their place in the folder of its network."""
REFUSED_AT = 88  # in the usage file: 16 uint64, by card


def prepare_mounts(plan: dict) -> None:
    """Create or link folders with the job's rights, and store each bind's identity. Raises OSError."""
    for bind in plan["binds"]:
        try:
            _prepare(plan, bind)
        except OSError as error:
            what = bind["source"] or bind["root"]
            raise OSError(f"{what} cannot be had as {bind['below'] or bind['base']}: {error.strerror}.") from error


def make_scratch(plan: dict) -> None:
    """Create scratch folders, `build_gang_files` and what numbers are reported by, before the job could plant links."""
    scratch, uid, gid = plan["scratch"], plan["uid"], plan["gid"]
    made = [scratch, *(os.path.join(scratch, name) for name in ("home", "work", "tmp", "hosts", TOOLS))]
    for path in made:
        os.makedirs(path, mode=0o700, exist_ok=True)
    texts = [("hosts", *file) for file in plan["hosts"].items()] + [(TOOLS, *file) for file in plan["tools"].items()]
    for folder, name, text in texts:
        made.append(path := os.path.join(scratch, folder, name))
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o700 if text.startswith("#!") else 0o600)
    made.append(report := os.path.join(scratch, FILE))
    make_report_file(report)
    os.chmod(os.path.join(scratch, "tmp"), 0o1777)  # noqa: S103 - as programs expect it of /tmp; scratch is closed
    for path in made if uid is not None else ():
        os.chown(path, uid, gid)


def open_sources(plan: dict) -> list[tuple[int, str, str, bool]]:
    """Return (descriptor, base, below, read_only) of binds, after `unshare_mounts`.

    We may be root, so folders must be those that `prepare_mounts` allowed.
    """
    found = []
    for bind in plan["binds"]:
        fd = _open(bind)
        seen = os.fstat(fd)
        if [seen.st_dev, seen.st_ino] != bind["identity"]:
            raise OSError(f"{bind['source']} was changed while the task started.")
        found.append((fd, bind["base"], bind["below"], bind["read_only"]))
    return found


def open_tmp(plan: dict) -> int:
    """Return the task's own /tmp, opened."""
    return os.open(os.path.join(plan["scratch"], "tmp"), FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC)


def list_network_files(plan: dict) -> list[tuple[str, str]]:
    """Return (path, file to show in its place) for the files of the machine that name hosts."""
    if not plan.get("network"):
        return [(path, path) for path in NETWORK_FILES]
    return [(path, os.path.join(plan["network"], name)) for path, name in NETWORK_FILES.items()]


def in_home(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def open_slice_files(plan: dict) -> list[tuple[int, str, bool]]:
    """Return (descriptor, target, read-only), after `unshare_mounts`, before hiding."""
    if not plan["slice"] or not plan["namespaces"]:
        return []
    folder, seen_at = plan["slice"]["folder"], plan["slice"]["seen_at"]
    places = [(os.path.join(folder, "usage"), os.path.join(seen_at, "usage"), False)]
    places += [(path, os.path.join(seen_at, "driver", name), True) for name, path in plan["slice"]["real"].items()]
    places += [(os.path.join(folder, name), path, True) for path, name in plan["slice"]["copies"]]
    return [(os.open(path, os.O_PATH | os.O_CLOEXEC), target, read_only) for path, target, read_only in places]


def mount_slice_files(files: list[tuple[int, str, bool]]) -> None:
    """Mount files after all else; closes descriptors."""
    for fd, target, read_only in files:
        if os.path.exists(target):  # not hidden
            isolation.bind_file(fd, target, read_only)
        os.close(fd)


def count_refusals(plan: dict) -> int:
    """Count memory requests refused by the slice. Source: agent/slice/README.md"""
    if not plan.get("slice"):
        return 0
    try:
        with open(os.path.join(plan["slice"]["folder"], "usage"), "rb") as file:
            return sum(struct.unpack("<16Q", os.pread(file.fileno(), 128, REFUSED_AT)))
    except (OSError, struct.error):
        return 0


def add_library_path(plan: dict, env: dict[str, str]) -> dict[str, str]:
    """Put our libraries first in LD_LIBRARY_PATH."""
    if not plan["slice"]:
        return env
    own = env.get("LD_LIBRARY_PATH")
    return env | {"LD_LIBRARY_PATH": ":".join(filter(None, (plan["slice"]["seen_at"], own)))}


def _prepare(plan: dict, bind: dict) -> None:
    root = os.open(bind["root"], FOLDER | os.O_CLOEXEC)
    inside = f"{bind['base']}/".startswith(f"{plan['seen_at']}/")
    base = plan["scratch"] + bind["base"].removeprefix(plan["seen_at"])
    fds = [root]
    try:
        if inside:
            fds.append(os.open(base, FOLDER | os.O_CLOEXEC))
        with _as_owner(plan):
            if bind["mode"] is not None:
                _make(root, bind["source"], bind["mode"])
            fds.append(source := open_beneath(root, bind["source"], FOLDER))
            if inside and plan["namespaces"]:
                _make(fds[1], bind["below"], 0o700)
            elif inside:
                _link(fds[1], bind["below"], os.readlink(f"/proc/self/fd/{source}"))
        seen = os.fstat(source)
        bind["identity"] = [seen.st_dev, seen.st_ino]
    finally:
        for fd in fds:
            os.close(fd)


def _open(bind: dict) -> int:
    root = os.open(bind["root"], FOLDER | os.O_CLOEXEC)
    try:
        return open_beneath(root, bind["source"], FOLDER)
    finally:
        os.close(root)


def _make(root: int, path: str, mode: int) -> None:
    names = [name for name in path.split("/") if name]
    for count in range(len(names)):
        parent = open_beneath(root, "/".join(names[:count]), FOLDER)
        mask = os.umask(0)
        try:
            os.mkdir(names[count], mode, dir_fd=parent)
        except FileExistsError:
            pass
        finally:
            os.umask(mask)
            os.close(parent)


def _link(root: int, path: str, to: str) -> None:
    """Link in place of nothing or an empty folder, else raise OSError."""
    folder, _, name = path.rstrip("/").rpartition("/")
    _make(root, folder, 0o700)
    parent = open_beneath(root, folder, FOLDER)
    try:
        try:
            os.rmdir(name, dir_fd=parent)
        except FileNotFoundError:
            pass
        os.symlink(to, name, dir_fd=parent)
    finally:
        os.close(parent)


@contextmanager
def _as_owner(plan: dict) -> Iterator[None]:
    """Act as the job's account; our real uid prevents its signals."""
    if plan["uid"] is None:
        yield
        return
    uid, gid = os.geteuid(), os.getegid()
    os.setgroups([])
    os.setegid(plan["gid"])
    os.seteuid(plan["uid"])
    try:
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)
