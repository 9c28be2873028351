"""Reproducible tar.gz of a directory, by .gitignore and the platform's limits."""

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

ALWAYS_OUT = frozenset({".git", ".venv", "__pycache__", "node_modules"})
MAX_PACKED = 64 * 2**20
MAX_UNPACKED = 256 * 2**20
MAX_MEMBERS = 10_000
MAX_LINKS = 1_000
MAX_LINK_TARGET = 1_024
MAX_RATIO = 100
RATIO_FROM = 2**20
MAX_DEPTH = 64
MAX_HOPS = 10
NAMED = 5  # files in an error


class PackError(Exception):
    """The text says why a directory cannot be packed."""


@dataclass(frozen=True)
class Packed:
    """A packed directory.

    data: the tar.gz. digest: "sha256:<hex>". files: without directories. bytes: unpacked. left_out: paths of sockets,
    pipes and devices.
    """

    data: bytes
    digest: str
    files: int
    bytes: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    name: str
    path: str
    kind: str
    size: int = 0
    runs: bool = False
    target: str = ""


def pack(directory: str | os.PathLike) -> Packed:
    """Pack what is beneath `directory`. Raises PackError."""
    root = Path(directory)
    if not root.is_dir():
        raise PackError(f"There is no directory {root}. Give the directory that holds your code.")
    entries: list[_Entry] = []
    left_out: list[_Entry] = []
    for entry in _walk(root):
        (left_out if entry.kind == "special" else entries).append(entry)
        if len(entries) > MAX_MEMBERS:
            raise PackError(
                f"There are more than {MAX_MEMBERS:,} files and directories beneath {root}. {_busiest(entries)} "
                "Leave out what the job does not need, by .gitignore."
            )
    _check(entries)
    data = _tar_gz(entries)
    files = [entry for entry in entries if entry.kind != "dir"]
    return Packed(
        data=data,
        digest=f"sha256:{hashlib.sha256(data).hexdigest()}",
        files=len(files),
        bytes=sum(entry.size for entry in files),
        left_out=tuple(entry.name for entry in left_out),
    )


# --- what belongs to it --------------------------------------------------------------------------------------------


def _walk(root: Path) -> Iterator[_Entry]:
    """Yield what is not ignored, directories before their content."""
    todo: list[tuple[str, tuple]] = [("", ())]
    while todo:
        folder, rules = todo.pop()
        try:
            rules = _rules_of(root, folder, rules)
            with os.scandir(root / folder) as found:
                entries = [_entry(item, folder) for item in found if item.name not in ALWAYS_OUT]
        except OSError as error:
            raise PackError(f"{root / folder} cannot be read ({error.strerror}). Check its permissions.") from error
        below = []
        for entry in sorted(entries, key=lambda entry: os.fsencode(entry.name)):
            if _is_ignored(entry, rules):
                continue
            yield entry
            if entry.kind == "dir":
                below.append((entry.name, rules))
        todo += reversed(below)


def _rules_of(root: Path, folder: str, above: tuple) -> tuple:
    file = root / folder / ".gitignore"
    if not file.is_file():
        return above
    lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return ((folder, GitIgnoreSpec.from_lines(lines)), *above)


def _is_ignored(entry: _Entry, rules: tuple) -> bool:
    """Let the nearest .gitignore that matches decide, as git does."""
    slash = "/" if entry.kind == "dir" else ""
    for folder, spec in rules:
        name = entry.name[len(folder) + 1 :] if folder else entry.name
        verdict = spec.check_file(name + slash).include
        if verdict is not None:
            return verdict
    return False


def _entry(item: os.DirEntry, folder: str) -> _Entry:
    name = f"{folder}/{item.name}" if folder else item.name
    status = item.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return _Entry(name, item.path, "link", target=os.readlink(item.path))
    if stat.S_ISDIR(status.st_mode):
        return _Entry(name, item.path, "dir")
    if stat.S_ISREG(status.st_mode):
        return _Entry(name, item.path, "file", size=status.st_size, runs=bool(status.st_mode & 0o100))
    return _Entry(name, item.path, "special")


# --- what may not be -----------------------------------------------------------------------------------------------


def _check(entries: list[_Entry]) -> None:
    size = sum(entry.size for entry in entries)
    if size > MAX_UNPACKED:
        raise PackError(
            f"The code is {_mib(size)}, more than the {_mib(MAX_UNPACKED)} that may be sent. {_largest(entries)} "
            "Leave out data and results, by .gitignore."
        )
    links = {tuple(entry.name.split("/")): entry.target for entry in entries if entry.kind == "link"}
    if len(links) > MAX_LINKS:
        raise PackError(f"There are more than {MAX_LINKS:,} links in the code. Leave some out, by .gitignore.")
    for path, target in links.items():
        if len(target) > MAX_LINK_TARGET or not _stays_beneath(links, path):
            raise PackError(
                f"The link {'/'.join(path)} leads to {target}, outside of the code. "
                "Remove it, make it a relative link to something inside, or copy the file in."
            )
    deep = next((entry.name for entry in entries if entry.name.count("/") >= MAX_DEPTH), None)
    if deep:
        raise PackError(f"{deep} is more than {MAX_DEPTH} directories deep. Leave it out, by .gitignore.")


def _stays_beneath(links: dict[tuple[str, ...], str], path: tuple[str, ...]) -> bool:
    """Whether `path` through `links` never leaves the top, as in common.archive."""
    here: list[str] = []
    todo, hops = deque(path), 0
    while todo:
        part = todo.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return False
            here.pop()
            continue
        here.append(part)
        target = links.get(tuple(here))
        if target is None:
            continue
        hops += 1
        if hops > MAX_HOPS or target.startswith("/"):
            return False
        here.pop()
        todo.extendleft(reversed(target.split("/")))
    return True


# --- the bytes -----------------------------------------------------------------------------------------------------


class _Capped(io.BytesIO):
    """A buffer that raises _Full above MAX_PACKED."""

    def write(self, data) -> int:
        if self.tell() + len(data) > MAX_PACKED:
            raise _Full
        return super().write(data)


class _Full(Exception):
    pass


def _tar_gz(entries: list[_Entry]) -> bytes:
    """Make a tar.gz without times, owners or order."""
    out = _Capped()
    try:
        with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=6, mtime=0) as zipped:
            with tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for entry in entries:
                    _add(tar, entry)
            unpacked = zipped.tell()
    except _Full:
        raise PackError(
            f"The packed code is more than the {_mib(MAX_PACKED)} that may be sent. {_largest(entries)} "
            "Leave out data and results, by .gitignore."
        ) from None
    data = out.getvalue()
    if unpacked > max(RATIO_FROM, MAX_RATIO * len(data)):
        raise PackError(
            f"The code is nearly all empty space, which may not be sent. {_largest(entries)} "
            "Leave these files out by .gitignore, and make them inside the job."
        )
    return data


def _add(tar: tarfile.TarFile, entry: _Entry) -> None:
    info = tarfile.TarInfo(entry.name)
    info.mode = 0o755 if entry.runs or entry.kind == "dir" else 0o644
    if entry.kind == "dir":
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif entry.kind == "link":
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        tar.addfile(info)
    else:
        info.size = entry.size
        try:
            with open(entry.path, "rb") as file:
                tar.addfile(info, file)
        except OSError as error:
            why = error.strerror or "it changed meanwhile"
            raise PackError(f"{entry.name} cannot be packed ({why}). Check it and try again.") from error


def _largest(entries: list[_Entry]) -> str:
    files = sorted(entries, key=lambda entry: entry.size, reverse=True)[:NAMED]
    return "The largest are " + ", ".join(f"{entry.name} ({_mib(entry.size)})" for entry in files if entry.size) + "."


def _busiest(entries: list[_Entry]) -> str:
    counts: dict[str, int] = {}
    for entry in entries:
        top = entry.name.split("/", 1)[0]
        counts[top] = counts.get(top, 0) + 1
    most = sorted(counts.items(), key=lambda item: item[1], reverse=True)[:NAMED]
    return "Most are in " + ", ".join(f"{name} ({count:,})" for name, count in most) + "."


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
