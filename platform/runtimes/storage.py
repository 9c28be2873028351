"""People's files, as the portal reaches them: each operation by a small child that is the person (file_child.py).

This process never opens a path that a person can shape. It gets descriptors from the child, and reads or writes those.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from common.errors import Conflict, FieldError, InvalidInput, NameTaken, NotFound, NotPermitted, Unavailable
from runtimes.file_child import PART, WALK_S
from runtimes.places import Place, ensure_place, place_path

log = logging.getLogger("tessera.files")

LONGEST_PATH, LONGEST_NAME = 4000, 255
ANSWER_WITHIN_S = 30.0
PACKS_NICE = 10  # an archive takes long, and everything else is somebody waiting
SOURCE = str(Path(__file__).resolve().parents[1])
CODE = "import sys; sys.path[:0] = [{!r}]; from runtimes.{} import main; main()"

# How new things are closed to others: a home is its person's alone, a team's folder is the whole team's to write.
UMASKS = {"home": 0o022, "team": 0o007}
ANSWERS = {
    "EXDEV": lambda: NotPermitted("leads_outside"),
    "ELOOP": lambda: NotPermitted("leads_outside"),
    "EACCES": lambda: NotPermitted("files_closed"),
    "EPERM": lambda: NotPermitted("files_closed"),
    "EROFS": lambda: NotPermitted("files_closed"),
    "ENOENT": lambda: NotFound(kind="file"),
    "ENOTDIR": lambda: NotFound(kind="file"),
    "EEXIST": lambda: NameTaken(),
    "ENOTEMPTY": lambda: NameTaken(),
    "EISDIR": lambda: Conflict("not_a_file"),
    "ENXIO": lambda: Conflict("not_a_file"),
    "EINVAL": lambda: Conflict("cannot_move_there"),
    "ENOSPC": lambda: Conflict("disk_full"),
    "EDQUOT": lambda: Conflict("disk_full"),
    "ENAMETOOLONG": lambda: InvalidInput([FieldError("/path", "too_long", {"max": LONGEST_NAME})]),
}


@dataclass(frozen=True)
class Entry:
    """changed_ns: of the last change, since 1970. A link is itself in listings, and what it leads to elsewhere."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    changed_ns: int


@dataclass(frozen=True)
class Listing:
    """cut: there are more than these. unreadable: names that are no UTF-8, which nothing here can name."""

    entries: list[Entry]
    cut: bool
    unreadable: int


@dataclass(frozen=True)
class Usage:
    """bytes: as the disk counts them. whole: all was counted in time."""

    bytes: int
    files: int
    whole: bool


def check_path(path: str, pointer: str = "/path") -> str:
    """`path` itself when it can name something in a place: names with "/" between, "" is the place. Else InvalidInput.

    A courtesy: that nothing outside is reached is the kernel's doing, in the child.
    """
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise InvalidInput([FieldError(pointer, "bad_path")]) from None
    names = path.split("/") if path else []
    if "\0" in path or any(name in {"", ".", ".."} for name in names) or (names and names[-1].startswith(PART)):
        raise InvalidInput([FieldError(pointer, "bad_path")])
    if len(encoded) > LONGEST_PATH or any(len(name.encode()) > LONGEST_NAME for name in names):
        raise InvalidInput([FieldError(pointer, "too_long", {"max": LONGEST_NAME})])
    return path


class FileStore:
    """One place, as one person. uid, gid: whose rights hold; where the platform is no root, its own account's do.

    Every method raises NotFound, NotPermitted, NameTaken, Conflict, InvalidInput or Unavailable.
    """

    def __init__(self, root: str | os.PathLike, place: Place, *, uid: int, gid: int):
        self.root, self.place = root, place
        is_root = os.geteuid() == 0
        self.uid, self.gid = uid if is_root else None, gid if is_root else None

    def list_folder(self, path: str = "") -> Listing:
        answer = self._do("list_folder", path=check_path(path))
        return Listing([Entry(**entry) for entry in answer["entries"]], answer["cut"], answer["unreadable"])

    def stat(self, path: str) -> Entry:
        return Entry(**self._do("look", path=check_path(path))["entry"])

    def open_to_read(self, path: str) -> tuple[int, Entry]:
        """A descriptor, which the caller closes, and what it is of. Raises Conflict (not_a_file) too."""
        return self._open("open_to_read", path=check_path(path))

    def open_archive(self, path: str, name: str) -> "Archive":
        """A folder as a tar archive, made while it is read; in it the folder is called `name`."""
        args = {"path": check_path(path), "name": name}
        child, answer, fds = _ask_child(self._request("", args) | {"nice": PACKS_NICE}, "archive_child")
        try:
            _refuse_errors(answer)
            if len(fds) != 1 or not stat.S_ISFIFO(os.fstat(fds[0]).st_mode):
                raise Unavailable()
        except BaseException:
            _close(fds)
            _end(child)
            raise
        return Archive(fds[0], child)

    def make_folder(self, path: str) -> None:
        self._do("make_folder", path=_something(path), mode=0o777)

    def move(self, path: str, to: str, *, replace: bool = False) -> None:
        """Rename, within the place. Nothing is overwritten, unless `replace`."""
        self._do("move", path=_something(path), to=_something(to, "/to"), replace=replace)

    def remove(self, path: str) -> int:
        """A folder goes with all that is in it; of a link only the link. The bytes that the disk got back.

        Raises Conflict (files_remain) too.
        """
        answer = self._do("remove", path=_something(path))
        if answer["left"]:
            raise Conflict("files_remain")
        return answer["freed"]

    def open_part(self, folder: str, name: str, *, make: bool) -> int:
        """A descriptor to write to, of the hidden file in `folder` in which the upload `name` grows."""
        return self._open("open_part", path=_part(check_path(folder), name), make=make, mode=0o666)[0]

    def finish_part(self, folder: str, name: str, to: str, *, replace: bool) -> None:
        """The file gets its name in one step: nobody ever sees half of it there."""
        self._do("move", path=_part(folder, name), to=check_path(to, "/to"), replace=replace)

    def drop_part(self, folder: str, name: str) -> None:
        with contextlib.suppress(NotFound):
            self._do("remove", path=_part(folder, name))

    def _open(self, do: str, **args: Any) -> tuple[int, Entry]:
        answer, fds = self._ask(do, args)
        # Looked at once more: whoever answers is a process with the person's rights.
        if len(fds) != 1 or not stat.S_ISREG(os.fstat(fds[0]).st_mode):
            _close(fds)
            raise Conflict("not_a_file")
        os.set_blocking(fds[0], True)
        return fds[0], Entry(**answer["entry"])

    def _do(self, do: str, **args: Any) -> dict:
        answer, fds = self._ask(do, args)
        _close(fds)
        return answer

    def _ask(self, do: str, args: dict) -> tuple[dict, list[int]]:
        return _exchange(self._request(do, args))

    def _request(self, do: str, args: dict) -> dict:
        about = {"root": str(self._ready()), "umask": UMASKS[self.place.kind], "uid": self.uid, "gid": self.gid}
        return {**about, "nice": 0, "do": do, "args": args}

    def _ready(self) -> Path:
        try:
            ensure_place(self.root, self.place, uid=self.uid, gid=self.gid)
        except OSError as error:
            log.error("no place for %s %s: %s", self.place.kind, self.place.number, error)
            raise Unavailable() from error
        return place_path(self.root, self.place).absolute()


class Archive:
    """An archive that a child writes into a pipe as it is read. Whoever has it closes it."""

    def __init__(self, fd: int, child: subprocess.Popen):
        self.fd, self._child = fd, child

    def read(self, most: int) -> bytes:
        """b"" at the end of a whole archive. Waits for the disk. Raises OSError where it cannot be finished."""
        piece = os.read(self.fd, most)
        if not piece and self._child.wait() != 0:
            raise OSError("The archive broke off.")
        return piece

    def close(self) -> None:
        """Any number of times."""
        if self.fd >= 0:
            os.close(self.fd)
            _end(self._child)
        self.fd = -1


def measure_place(
    root: str | os.PathLike,
    place: Place,
    *,
    path: str = "",
    most: int = 1_000_000,
    within_s: float = WALK_S,
    parts_before: float = 0,
) -> Usage:
    """As the platform's account, so that folders which their owner closed count as well: it looks, and opens no file.

    A place that was never used is empty. parts_before: files of uploads that nobody touched since then (seconds since
    1970) are thrown away. path: what lies there alone. Raises Unavailable; where it is named, NotFound and what else
    ANSWERS says.
    """
    top = place_path(root, place).absolute()
    if not top.is_dir():
        return Usage(0, 0, True)
    about = {"root": str(top), "umask": 0o077, "uid": None, "gid": None, "nice": 19}
    args = {"path": check_path(path), "most": most, "within_s": within_s, "parts_before": parts_before}
    return Usage(**_exchange({**about, "do": "measure", "args": args})[0])


def _exchange(request: dict) -> tuple[dict, list[int]]:
    """One child, one question. Raises Unavailable when it does not answer in time, and what ANSWERS says."""
    child, answer, fds = _ask_child(request, "file_child")
    _end(child)
    try:
        _refuse_errors(answer)
    except BaseException:
        _close(fds)
        raise
    return answer, fds


def _ask_child(request: dict, module: str) -> tuple[subprocess.Popen, dict, list[int]]:
    """(the child, which has said all that it says here, its answer, descriptors). Raises Unavailable."""
    ours, its = socket.socketpair()
    with ours:
        ours.settimeout(ANSWER_WITHIN_S)
        quiet = subprocess.DEVNULL
        argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", CODE.format(SOURCE, module)]
        with its:
            child = subprocess.Popen(argv, stdin=its.fileno(), stdout=quiet, cwd="/", env={"LANG": "C.UTF-8"})
        try:
            ours.sendall(json.dumps(request).encode())
            ours.shutdown(socket.SHUT_WR)
            said, fds, *_ = socket.recv_fds(ours, 65536, 1)
            return child, _hear(ours, said, fds), fds
        except BaseException as error:
            _end(child)
            if not isinstance(error, OSError):
                raise
            log.error("no answer about files: %s", error)
            raise Unavailable() from error


def _end(child: subprocess.Popen) -> None:
    child.send_signal(signal.SIGKILL)
    child.wait()


def _hear(line: socket.socket, said: bytes, fds: list[int]) -> dict:
    try:
        pieces = [said]
        while piece := line.recv(262144):
            pieces.append(piece)
        return json.loads(b"".join(pieces))
    except ValueError as broken:
        _close(fds)
        raise Unavailable() from broken
    except OSError:
        _close(fds)
        raise


def _refuse_errors(answer: dict) -> None:
    if "errno" not in answer:
        return
    if make := ANSWERS.get(answer["errno"]):
        raise make()
    log.error("files: %s", answer["words"])
    raise Unavailable()


def _something(path: str, pointer: str = "/path") -> str:
    """A path that names something in the place, and not the place itself."""
    if not path:
        raise InvalidInput([FieldError(pointer, "required")])
    return check_path(path, pointer)


def _part(folder: str, name: str) -> str:
    return f"{folder}/{PART}{name}" if folder else f"{PART}{name}"


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
