"""Do one file operation in a process with the person's account; JSON request and answer on fd 0.

It opens the area's root while privileged, becomes the person, and then opens paths. So a hostile path, link or race
reaches only what the person may reach. Opened files go back as descriptors (SCM_RIGHTS).
"""

import errno
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator

from runtimes.local.isolation import die_with_parent, drop_privileges
from runtimes.storage.open_beneath import open_beneath, open_parent, rename_beneath

PART = ".tessera-upload-"
"""Prefix of partial uploads; listings hide them."""
LIST_MOST = 10_000
REMOVE_MOST = 1_000_000
DEEPEST = 200
WALK_S = 20.0


def main() -> None:
    die_with_parent()
    line, request = receive_request()
    try:
        root = become_person(request)
        die_with_parent()  # changing the account cleared it
        answer, fds = OPERATIONS[request["do"]](root, **request["args"])
    except OSError as error:
        answer, fds = build_refusal(error), []
    send_answer(line, answer, fds)
    os._exit(0)


def receive_request() -> tuple[socket.socket, dict]:
    """Return (answer socket, request)."""
    line = socket.socket(fileno=0)
    return line, json.loads(_receive(line))


def become_person(request: dict) -> int:
    """Open the area's root, then become the person. Raises OSError."""
    os.umask(request["umask"])
    root = os.open(request["root"], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if request["nice"]:
        os.nice(request["nice"])
    drop_privileges(request["uid"], request["gid"])
    return root


def send_answer(line: socket.socket, answer: dict, fds: list[int]) -> None:
    socket.send_fds(line, [b"{"], fds)
    line.sendall(json.dumps(answer).encode()[1:])


def build_refusal(error: OSError) -> dict:
    return {"errno": errno.errorcode.get(error.errno or 0, ""), "words": str(error)}


Answer = tuple[dict, list[int]]


def list_folder(root: int, path: str) -> Answer:
    """List a folder, folders first, hidden names last."""
    folder = open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
    entries: list[dict] = []
    unreadable, cut = 0, False
    with os.scandir(folder) as found:
        for one in found:
            if one.name.startswith(PART):
                continue
            if len(entries) == LIST_MOST:
                cut = True
                break
            if not _is_text(one.name):
                unreadable += 1
                continue
            try:
                entries.append(_facts(one.name, os.stat(one.name, dir_fd=folder, follow_symlinks=False)))
            except FileNotFoundError:
                continue
    entries.sort(key=_in_list)
    return {"entries": entries, "cut": cut, "unreadable": unreadable}, []


def read_entry(root: int, path: str) -> Answer:
    """Return one entry, following links beneath the root."""
    fd = open_beneath(root, path, os.O_PATH)
    return {"entry": _facts(path.rpartition("/")[2], os.fstat(fd))}, []


def open_to_read(root: int, path: str) -> Answer:
    # O_NONBLOCK: a pipe without writer would block
    fd = open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK)
    facts = _facts(path.rpartition("/")[2], os.fstat(fd))
    return {"entry": facts}, [fd] if facts["kind"] == "file" else []


def make_folder(root: int, path: str, mode: int) -> Answer:
    parent, name = open_parent(root, path)
    os.mkdir(name, mode, dir_fd=parent)
    return {}, []


def move_entry(root: int, path: str, to: str, replace: bool) -> Answer:
    from_dir, old = open_parent(root, path)
    to_dir, new = open_parent(root, to)
    rename_beneath(from_dir, old, to_dir, new, replace=replace)
    return {}, []


def remove_entry(root: int, path: str) -> Answer:
    """Remove a file, link or folder. left: stopped at the limit."""
    parent, name = open_parent(root, path)
    budget = Budget(REMOVE_MOST)
    freed = _remove(parent, name, budget, DEEPEST)
    return {"left": budget.is_spent, "freed": freed}, []


def open_part(root: int, path: str, make: bool, mode: int) -> Answer:
    """Open or create an upload's partial file."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = open_beneath(root, path, flags | (os.O_CREAT | os.O_EXCL if make else 0), mode)
    facts = _facts("", os.fstat(fd))
    return {"entry": facts}, [fd] if facts["kind"] == "file" else []


def measure_usage(root: int, path: str, most: int, within_s: float, parts_before: float) -> Answer:
    """Count disk usage; holes are free, hard links count once. whole: within `most` entries and time.

    Deletes partial uploads older than `parts_before` (epoch seconds).
    """
    if path:
        facts = os.fstat(open_beneath(root, path, os.O_PATH))
        if not stat.S_ISDIR(facts.st_mode):
            return {"bytes": facts.st_blocks * 512, "files": 1, "whole": True}, []
        root = open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
    seen: set[tuple[int, int]] = set()
    budget, total, files = Budget(most, within_s), 0, 0
    for folder, name, facts in _below(root, budget, DEEPEST):
        if name.startswith(PART) and stat.S_ISREG(facts.st_mode) and facts.st_mtime < parts_before:
            os.unlink(name, dir_fd=folder)
            continue
        files += 1
        if facts.st_nlink > 1 and not stat.S_ISDIR(facts.st_mode):
            if (facts.st_dev, facts.st_ino) in seen:
                continue
            seen.add((facts.st_dev, facts.st_ino))
        total += facts.st_blocks * 512
    return {"bytes": total, "files": files, "whole": not budget.is_spent}, []


class Budget:
    def __init__(self, most: int, within_s: float = WALK_S):
        self.left, self.until = most, time.monotonic() + within_s
        self.is_spent = False

    def take(self) -> bool:
        self.left -= 1
        if self.left < 0 or time.monotonic() > self.until:
            self.is_spent = True
        return not self.is_spent


def _below(folder: int, budget: Budget, deepest: int) -> Iterator[tuple[int, str, os.stat_result]]:
    """Yield (folder descriptor, name, stat) of everything below."""
    if not deepest:
        budget.is_spent = True
        return
    with os.scandir(folder) as found:
        for one in found:
            if not budget.take():
                return
            try:
                facts = os.stat(one.name, dir_fd=folder, follow_symlinks=False)
                yield folder, one.name, facts
                if stat.S_ISDIR(facts.st_mode):
                    below = os.open(one.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                    try:
                        yield from _below(below, budget, deepest - 1)
                    finally:
                        os.close(below)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # changed, or not accessible


def _remove(parent: int, name: str, budget: Budget, deepest: int) -> int:
    """Remove recursively; return bytes freed, none for other hard links."""
    facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    size = facts.st_blocks * 512
    if not stat.S_ISDIR(facts.st_mode):
        os.unlink(name, dir_fd=parent)
        return size if facts.st_nlink == 1 else 0
    if not deepest:
        raise OSError(errno.ENAMETOOLONG, "nested too deep", name)
    folder, freed = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent), 0
    try:
        for below in os.listdir(folder):
            if not budget.take():
                return freed
            freed += _remove(folder, below, budget, deepest - 1)
            if budget.is_spent:
                return freed
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)
    return freed + size


def _in_list(entry: dict) -> tuple:
    name = entry["name"]
    return name.startswith("."), entry["kind"] != "folder", name.casefold(), name


def _facts(name: str, facts: os.stat_result) -> dict:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(facts.st_mode), "other")
    return {"name": name, "kind": kind, "size": facts.st_size if kind == "file" else 0, "changed_ns": facts.st_mtime_ns}


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _receive(line: socket.socket) -> bytes:
    said = b""
    while piece := line.recv(65536):
        said += piece
    return said


OPERATIONS: dict[str, Callable[..., Answer]] = {
    "list_folder": list_folder,
    "look": read_entry,
    "open_to_read": open_to_read,
    "make_folder": make_folder,
    "move": move_entry,
    "remove": remove_entry,
    "open_part": open_part,
    "measure": measure_usage,
}
