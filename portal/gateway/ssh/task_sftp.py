"""SFTP for tasks whose image has no sftp-server: asyncssh's protocol over the files of a task.

asyncssh's own file server works on the disk of its process. `TaskFileServer` replaces all of its operations by programs
in the task, and `map_path` refuses the rest.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from asyncssh import SFTPAttrs, SFTPBadMessage, SFTPError, SFTPName, SFTPOpUnsupported, SFTPServer
from asyncssh.constants import FXF_CREAT, FXF_EXCL, FXF_TRUNC, FXF_WRITE
from asyncssh.sftp import SFTPServerHandler

from common.errors import PlatformError
from portal.gateway.ssh.channel_flow import Flow
from portal.gateway.ssh.task_files import Failed, FileReader, FileWriter, Start, TaskFiles
from runtimes.contract.access import Session
from runtimes.contract.errors import Rejected, Unavailable

VERSION = 3
RENAME = b"posix-rename@openssh.com"
LONGEST_PACKET, LONGEST_READ = 256 * 1024 + 1024, 128 * 1024
MOST_OPEN = 64
OPEN_TO_READ = 'if [ -d "$1" ]; then echo "$1: Is a directory"; exit 1; fi; true <"$1"'
OPEN_TO_WRITE = (
    'new=; [ -e "$1" ] || new=1; if [ "$2" = excl ] && [ -z "$new" ]; then echo "$1: File exists"; exit 1; fi;'
    ' case $2 in trunc | excl) true >"$1" ;; creat) true >>"$1" ;; *) [ -w "$1" ] ;; esac &&'
    ' { [ -z "$new" ] || [ -z "$3" ] || chmod "$3" "$1"; }'
)
REMOVE = 'if [ -d "$1" ] && [ ! -L "$1" ]; then echo "$1: Is a directory"; exit 1; fi; rm -- "$1"'
MOVE_TO_NEW = 'if [ -e "$2" ] || [ -L "$2" ]; then echo "$2: File exists"; exit 1; fi; mv -- "$1" "$2"'
MOVE_OVER = 'if [ -d "$2" ] && [ ! -L "$2" ]; then echo "$2: Is a directory"; exit 1; fi; mv -f -- "$1" "$2"'


async def serve_sftp(flow: Flow, files: TaskFiles, start: Start) -> None:
    """Answer the requests of one client, in order, until its channel closes. start: starts a program in the task."""

    async def start_or_fail(argv: Sequence[str]) -> Session:
        try:
            return await start(argv)
        except (PlatformError, Rejected, Unavailable) as no:
            raise Failed(str(no)) from no

    await files.begin()
    server, stream = TaskFileServer(flow.chan, files, start_or_fail), Stream(flow)
    try:
        with suppress(asyncio.IncompleteReadError, SFTPError):
            await _Handler(server, stream, stream, VERSION).run()  # type: ignore[arg-type]  # it needs no more of them
    finally:
        await server.close_all()


class TaskFileServer(SFTPServer):
    """The files of a task, as asyncssh asks for them."""

    def __init__(self, chan: Any, files: TaskFiles, start: Start):
        super().__init__(chan)
        self._files, self._start = files, start
        self._open: set[FileReader | FileWriter] = set()
        self._folders: WeakSet[AsyncIterator[SFTPName]] = WeakSet()  # asyncssh closes them by dropping them

    def map_path(self, path: bytes) -> bytes:
        """Refuse what is not replaced here: it would reach files of the platform."""
        raise SFTPOpUnsupported("Not supported.")

    def format_user(self, uid: int | None) -> str:
        return "" if uid is None else str(uid)

    def format_group(self, gid: int | None) -> str:
        return self.format_user(gid)

    async def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> FileReader | FileWriter:
        self._refuse_too_many()
        name = self._path(path)
        opened: FileReader | FileWriter
        if pflags & FXF_WRITE:
            hows = ((FXF_EXCL, "excl"), (FXF_TRUNC, "trunc"), (FXF_CREAT, "creat"))
            how = next((how for flag, how in hows if pflags & flag), "old")
            mode = "" if attrs.permissions is None else f"{attrs.permissions & 0o7777:o}"
            await self._files.run(OPEN_TO_WRITE, name, how, mode)
            opened = FileWriter(self._start, name)
        else:
            await self._files.run(OPEN_TO_READ, name)
            opened = FileReader(self._start, name)
        self._open.add(opened)
        return opened

    async def close(self, file_obj: Any) -> None:
        self._open.discard(file_obj)
        await file_obj.close()

    async def close_all(self) -> None:
        for opened in self._open:
            with suppress(Failed):  # no request is left to answer
                await opened.close()

    async def read(self, file_obj: Any, offset: int, size: int) -> bytes:
        if not isinstance(file_obj, FileReader):
            raise Failed("It was not opened to be read.")
        return await file_obj.read(offset, min(size, LONGEST_READ))

    async def write(self, file_obj: Any, offset: int, data: bytes) -> int:
        if not isinstance(file_obj, FileWriter):
            raise Failed("It was not opened to be written.")
        await file_obj.write(offset, data)
        return len(data)

    async def stat(self, path: bytes) -> SFTPAttrs:
        return await self._files.stat(self._path(path), follow=True)

    async def lstat(self, path: bytes) -> SFTPAttrs:
        return await self._files.stat(self._path(path), follow=False)

    async def fstat(self, file_obj: Any) -> SFTPAttrs:
        return await self._files.stat(file_obj.path, follow=True)

    async def setstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        await self._set(self._path(path), attrs)

    async def fsetstat(self, file_obj: Any, attrs: SFTPAttrs) -> None:
        """Set attributes of an open file, after pending writes, which would change its times."""
        if isinstance(file_obj, FileWriter):
            await file_obj.close()
        await self._set(file_obj.path, attrs)

    def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
        self._refuse_too_many()
        names = self._list(self._path(path))
        self._folders.add(names)
        return names

    async def remove(self, path: bytes) -> None:
        await self._files.run(REMOVE, self._path(path))

    async def mkdir(self, path: bytes, attrs: SFTPAttrs) -> None:
        await self._files.run('mkdir -- "$1"', self._path(path))

    async def rmdir(self, path: bytes) -> None:
        await self._files.run('rmdir -- "$1"', self._path(path))

    async def realpath(self, path: bytes) -> bytes:
        return self._path(path).encode(errors="surrogateescape")

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        await self._files.run(MOVE_TO_NEW, self._path(oldpath), self._path(newpath))

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        await self._files.run(MOVE_OVER, self._path(oldpath), self._path(newpath))

    async def readlink(self, path: bytes) -> bytes:
        target = await self._files.run('readlink -- "$1"', self._path(path))
        return target.removesuffix("\n").encode(errors="surrogateescape")

    async def symlink(self, oldpath: bytes, newpath: bytes) -> None:
        await self._files.run('ln -s -- "$1" "$2"', _text(oldpath), self._path(newpath))

    async def _list(self, path: str) -> AsyncIterator[SFTPName]:
        for name in await self._files.list(path):
            yield name

    async def _set(self, path: str, attrs: SFTPAttrs) -> None:
        if attrs.size is not None:
            await self._files.run('truncate -s "$2" -- "$1"', path, str(attrs.size))
        if attrs.permissions is not None:
            await self._files.run('chmod "$2" "$1"', path, f"{attrs.permissions & 0o7777:o}")
        if attrs.mtime is not None:
            times = (str(attrs.atime), str(attrs.mtime))
            await self._files.run('touch -c -a -d "@$2" "$1" && touch -c -m -d "@$3" "$1"', path, *times)
        if attrs.uid is not None:
            await self._files.run('chown "$2" "$1"', path, f"{attrs.uid}:{attrs.gid}")

    def _refuse_too_many(self) -> None:
        if len(self._open) + len(self._folders) >= MOST_OPEN:
            raise Failed("Too many files are open.")

    def _path(self, path: bytes) -> str:
        return self._files.absolute(_text(path))


def _text(path: bytes) -> str:
    if b"\0" in path:
        raise SFTPBadMessage("A path holds a null byte.")
    return path.decode(errors="surrogateescape")


class _Handler(SFTPServerHandler):
    """Offers only the extension that `TaskFileServer` serves. What is left out would not stop at a closed channel."""

    _extensions = [(RENAME, b"1")]
    _packet_handlers = {
        kind: handle
        for kind, handle in SFTPServerHandler._packet_handlers.items()
        if isinstance(kind, int) or kind == RENAME
    }


class Stream:
    """A channel as reader and writer of asyncssh's handler.

    The handler never waits for its answers to be sent, so that a client which reads none would fill the memory. Here
    they are sent before the next request is read.
    """

    def __init__(self, flow: Flow):
        self.channel, self.logger, self.get_extra_info = flow.chan, flow.chan.logger, flow.chan.get_extra_info
        self._flow = flow
        self._received, self._answers = b"", b""

    async def readexactly(self, size: int) -> bytes:
        """Return the next bytes. Raises SFTPBadMessage, IncompleteReadError."""
        if size > LONGEST_PACKET:
            raise SFTPBadMessage("The packet is too long.")
        answers, self._answers = self._answers, b""
        if answers:
            await self._flow.send(answers)
        pieces, have = [self._received], len(self._received)
        while have < size:
            if not (more := await self._flow.receive()):
                raise asyncio.IncompleteReadError(b"".join(pieces), size)
            pieces.append(more)
            have += len(more)
        data = b"".join(pieces)
        self._received = data[size:]
        return data[:size]

    def write(self, data: bytes) -> None:
        self._answers += data

    def close(self) -> None:
        """Do nothing: the session closes its channel, with an exit code."""
