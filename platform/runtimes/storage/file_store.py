"""People's files for the portal: each operation runs in a child with the person's account (file_child.py).

This process opens no path that a person controls, only descriptors from the child.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from common.errors import Conflict, FieldError, InvalidInput, NameTaken, NotFound, NotPermitted, Unavailable
from runtimes.storage.areas import AreaId, ensure_area, get_area_path
from runtimes.storage.file_child import PART, WALK_S
from runtimes.storage.walk_folder_child import BATCH

log = logging.getLogger("tessera.files")

LONGEST_PATH, LONGEST_NAME = 4000, 255
ANSWER_WITHIN_S = 30.0
WALK_ANSWER_S = 600.0  # a folder of millions is listed before its first packet
LARGEST_PACKET = 4 << 20
PACKS_NICE = 10  # others wait
SOURCE = str(Path(__file__).resolve().parents[2])
CODE = "import sys; sys.path[:0] = [{!r}]; from runtimes.storage.{} import main; main()"

UMASKS = {"home": 0o022, "team": 0o007, "dataset": 0o022}
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
    """A file or folder. A link is itself in listings, its target elsewhere."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    changed_ns: int


@dataclass(frozen=True)
class Listing:
    """A folder's entries. cut: incomplete. unreadable: names not in UTF-8."""

    entries: list[Entry]
    cut: bool
    unreadable: int


@dataclass(frozen=True)
class Usage:
    """Disk usage. whole: counted completely."""

    bytes: int
    files: int
    whole: bool


def check_path(path: str, pointer: str = "/path") -> str:
    """Return a valid path in an area, or raise InvalidInput. For good messages only: the kernel guards the area."""
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
    """File operations in one area with one person's rights, if the platform is root.

    All raise NotFound, NotPermitted, NameTaken, Conflict, InvalidInput, Unavailable.
    """

    def __init__(self, root: str | os.PathLike, place: AreaId, *, uid: int, gid: int):
        self.root, self.place = root, place
        is_root = os.geteuid() == 0
        self.uid, self.gid = uid if is_root else None, gid if is_root else None

    def list_folder(self, path: str = "") -> Listing:
        answer = self._run("list_folder", path=check_path(path))
        return Listing([Entry(**entry) for entry in answer["entries"]], answer["cut"], answer["unreadable"])

    def stat(self, path: str) -> Entry:
        return Entry(**self._run("look", path=check_path(path))["entry"])

    def open_to_read(self, path: str) -> tuple[int, Entry]:
        """Return a descriptor for the caller to close, and its entry."""
        return self._open("open_to_read", path=check_path(path))

    def open_archive(self, path: str, name: str) -> "Archive":
        """Stream a folder as a tar archive."""
        args = {"path": check_path(path), "name": name}
        child, answer, fds = _ask_child(self._request("", args) | {"nice": PACKS_NICE}, "pack_folder_child")
        try:
            _refuse_errors(answer)
            if len(fds) != 1 or not stat.S_ISFIFO(os.fstat(fds[0]).st_mode):
                raise Unavailable()
        except BaseException:
            _close(fds)
            _end(child)
            raise
        return Archive(fds[0], child)

    def open_walk(self, path: str) -> "FolderWalk":
        """Walk a folder: packets of walk_folder_child.py, with each file opened."""
        request = self._request("", {"path": check_path(path)}) | {"nice": PACKS_NICE}
        child, answer, fds = _ask_child(request, "walk_folder_child")
        try:
            _refuse_errors(answer)
            if len(fds) != 1 or not stat.S_ISSOCK(os.fstat(fds[0]).st_mode):
                raise Unavailable()
        except BaseException:
            _close(fds)
            _end(child)
            raise
        return FolderWalk(socket.socket(fileno=fds[0]), child)

    def make_folder(self, path: str) -> None:
        self._run("make_folder", path=_check_path_given(path), mode=0o777)

    def move(self, path: str, to: str, *, replace: bool = False) -> None:
        """Rename within the area."""
        self._run("move", path=_check_path_given(path), to=_check_path_given(to, "/to"), replace=replace)

    def remove(self, path: str) -> int:
        """Remove a file, link or folder; return bytes freed. Raises Conflict (files_remain)."""
        answer = self._run("remove", path=_check_path_given(path))
        if answer["left"]:
            raise Conflict("files_remain")
        return answer["freed"]

    def open_part(self, folder: str, name: str, *, make: bool) -> int:
        """Return a descriptor of the hidden file of an upload."""
        return self._open("open_part", path=_part(check_path(folder), name), make=make, mode=0o666)[0]

    def finish_part(self, folder: str, name: str, to: str, *, replace: bool) -> None:
        """Rename the upload to its final name, atomically."""
        self._run("move", path=_part(folder, name), to=check_path(to, "/to"), replace=replace)

    def drop_part(self, folder: str, name: str) -> None:
        with contextlib.suppress(NotFound):
            self._run("remove", path=_part(folder, name))

    def _open(self, do: str, **args: Any) -> tuple[int, Entry]:
        answer, fds = self._call_child(do, args)
        # Checked again: the child has the person's rights and is not trusted.
        if len(fds) != 1 or not stat.S_ISREG(os.fstat(fds[0]).st_mode):
            _close(fds)
            raise Conflict("not_a_file")
        os.set_blocking(fds[0], True)
        return fds[0], Entry(**answer["entry"])

    def _run(self, do: str, **args: Any) -> dict:
        answer, fds = self._call_child(do, args)
        _close(fds)
        return answer

    def _call_child(self, do: str, args: dict) -> tuple[dict, list[int]]:
        return _exchange(self._request(do, args))

    def _request(self, do: str, args: dict) -> dict:
        about = {"root": str(self._ready()), "umask": UMASKS[self.place.kind], "uid": self.uid, "gid": self.gid}
        return {**about, "nice": 0, "do": do, "args": args}

    def _ready(self) -> Path:
        try:
            ensure_area(self.root, self.place, uid=self.uid, gid=self.gid)
        except OSError as error:
            log.error("no place for %s %s: %s", self.place.kind, self.place.number, error)
            raise Unavailable() from error
        return get_area_path(self.root, self.place).absolute()


class Archive:
    """A tar archive that a child writes to a pipe while it is read."""

    def __init__(self, fd: int, child: subprocess.Popen):
        self.fd, self._child = fd, child

    def read(self, most: int) -> bytes:
        """Return b"" at the end. Raises OSError if it breaks off."""
        piece = os.read(self.fd, most)
        if not piece and self._child.wait() != 0:
            raise OSError("The archive broke off.")
        return piece

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            _end(self._child)
        self.fd = -1


class FolderWalk:
    """The packets of a child that walks a folder (walk_folder_child.py)."""

    def __init__(self, line: socket.socket, child: subprocess.Popen):
        self._line, self._child = line, child
        line.settimeout(WALK_ANSWER_S)

    def __iter__(self) -> Iterator[tuple[dict, list[int]]]:
        """Yield packets with descriptors for the caller to close. Raises Unavailable if the child broke off."""
        while True:
            try:
                said, fds, *_ = socket.recv_fds(self._line, LARGEST_PACKET, BATCH)
                packet = json.loads(said)
                self._line.send(b".")
            except (OSError, ValueError) as broken:
                log.error("a walk of a folder broke off: %s", broken)
                raise Unavailable() from broken
            if "done" in packet:
                return
            yield packet, fds

    def close(self) -> None:
        self._line.close()
        _end(self._child)


def measure_area(
    root: str | os.PathLike,
    place: AreaId,
    *,
    path: str = "",
    most: int = 1_000_000,
    within_s: float = WALK_S,
    parts_before: float = 0,
) -> Usage:
    """Measure an area's disk usage, or `path`'s, with the platform's rights, which see closed folders. Opens no file.

    parts_before: partial uploads unchanged since (epoch seconds) are deleted. Raises Unavailable, NotFound and others.
    """
    top = get_area_path(root, place).absolute()
    if not top.is_dir():
        return Usage(0, 0, True)
    about = {"root": str(top), "umask": 0o077, "uid": None, "gid": None, "nice": 19}
    args = {"path": check_path(path), "most": most, "within_s": within_s, "parts_before": parts_before}
    return Usage(**_exchange({**about, "do": "measure", "args": args})[0])


def _exchange(request: dict) -> tuple[dict, list[int]]:
    """Run one child for one request."""
    child, answer, fds = _ask_child(request, "file_child")
    _end(child)
    try:
        _refuse_errors(answer)
    except BaseException:
        _close(fds)
        raise
    return answer, fds


def _ask_child(request: dict, module: str) -> tuple[subprocess.Popen, dict, list[int]]:
    """Return (child, its answer, descriptors). Raises Unavailable."""
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
            return child, _receive(ours, said, fds), fds
        except BaseException as error:
            _end(child)
            if not isinstance(error, OSError):
                raise
            log.error("no answer about files: %s", error)
            raise Unavailable() from error


def _end(child: subprocess.Popen) -> None:
    child.send_signal(signal.SIGKILL)
    child.wait()


def _receive(line: socket.socket, said: bytes, fds: list[int]) -> dict:
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


def _check_path_given(path: str, pointer: str = "/path") -> str:
    if not path:
        raise InvalidInput([FieldError(pointer, "required")])
    return check_path(path, pointer)


def _part(folder: str, name: str) -> str:
    return f"{folder}/{PART}{name}" if folder else f"{PART}{name}"


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
