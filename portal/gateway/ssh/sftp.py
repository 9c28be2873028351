"""SFTP version 3 server for tasks whose image has none.

Requests become scripts or programs in the task; no path of this machine is opened.
Source: draft-ietf-secsh-filexfer-02; OpenSSH's PROTOCOL, section 4 (posix-rename@openssh.com, and that its clients
send a symlink's paths in reverse).
"""

import stat
import struct
import time
from collections.abc import Awaitable, Callable

from common.errors import PlatformError
from portal.gateway.ssh.sftp_files import Failed, Files, Look, Reading, Start, Writing
from runtimes.base import Rejected, Unavailable

INIT, VERSION, STATUS, HANDLE, DATA, NAME, ATTRS = 1, 2, 101, 102, 103, 104, 105
OK, EOF, NO_SUCH_FILE, PERMISSION_DENIED, FAILURE, BAD_MESSAGE, UNSUPPORTED = 0, 1, 2, 3, 4, 5, 8
READ, WRITE, APPEND, CREATE, TRUNCATE, EXCLUSIVE = 1, 2, 4, 8, 16, 32
HAS_SIZE, HAS_OWNER, HAS_MODE, HAS_TIMES = 1, 2, 4, 8
LONGEST_PACKET, LONGEST_READ = 256 * 1024 + 1024, 128 * 1024
MOST_OPEN = 64
NAMES_AT_ONCE = 100
RENAME = "posix-rename@openssh.com"
OPEN_TO_READ = 'if [ -d "$1" ]; then echo "$1: Is a directory"; exit 1; fi; true <"$1"'
OPEN_TO_WRITE = (
    'new=; [ -e "$1" ] || new=1; if [ "$2" = excl ] && [ -z "$new" ]; then echo "$1: File exists"; exit 1; fi;'
    ' case $2 in trunc | excl) true >"$1" ;; creat) true >>"$1" ;; *) [ -w "$1" ] ;; esac &&'
    ' { [ -z "$new" ] || [ -z "$3" ] || chmod "$3" "$1"; }'
)
REMOVE = 'if [ -d "$1" ] && [ ! -L "$1" ]; then echo "$1: Is a directory"; exit 1; fi; rm -- "$1"'
MOVE_TO_NEW = 'if [ -e "$2" ] || [ -L "$2" ]; then echo "$2: File exists"; exit 1; fi; mv -- "$1" "$2"'
MOVE_OVER = 'if [ -d "$2" ] && [ ! -L "$2" ]; then echo "$2: Is a directory"; exit 1; fi; mv -f -- "$1" "$2"'


class BadMessage(Exception):
    """A malformed SFTP packet."""


class Sftp:
    """Serves one client; `start` runs a program in the task."""

    def __init__(
        self,
        files: Files,
        start: Start,
        receive: Callable[[], Awaitable[bytes]],
        send: Callable[[bytes], Awaitable[None]],
    ):
        self._files, self._start, self._receive, self._send = files, start, receive, send
        self._rest = b""
        self._open: dict[bytes, Reading | Writing | list] = {}
        self._paths: dict[bytes, str] = {}
        self._next = 0

    async def run(self) -> None:
        """Answer requests in order until the channel closes."""
        await self._files.begin()
        try:
            while packet := await self._packet():
                await self._answer(packet)
        except BadMessage:
            pass
        finally:
            for each in self._open.values():
                await _close_quietly(each)

    async def _packet(self) -> bytes:
        """Return the next packet without its length, b"" at the end. Raises BadMessage."""
        size = int.from_bytes(await self._exactly(4), "big")
        if size > LONGEST_PACKET:
            raise BadMessage
        return await self._exactly(size)

    async def _exactly(self, size: int) -> bytes:
        pieces, have = [self._rest], len(self._rest)
        while have < size:
            if not (more := await self._receive()):
                return b""
            pieces.append(more)
            have += len(more)
        data = b"".join(pieces)
        self._rest = data[size:]
        return data[:size]

    async def _answer(self, packet: bytes) -> None:
        if packet[0] == INIT:
            await self._say(VERSION, struct.pack(">I", 3) + _string(RENAME) + _string("1"))
            return
        asked = Asked(packet)
        try:
            kind, body = await DEEDS.get(packet[0], Sftp._unsupported)(self, asked)
        except (Failed, PlatformError, Rejected, Unavailable, UnicodeError) as failed:
            kind, body = _status(_code_of(str(failed)), str(failed))
        except (BadMessage, struct.error, KeyError):
            kind, body = _status(BAD_MESSAGE, "Not understood.")
        await self._say(kind, struct.pack(">I", asked.id) + body)

    async def _say(self, kind: int, body: bytes) -> None:
        await self._send(struct.pack(">IB", len(body) + 1, kind) + body)

    # ---- request handlers: return response type and body ----

    async def _unsupported(self, asked: "Asked") -> tuple[int, bytes]:
        return _status(UNSUPPORTED, "Not supported.")

    async def _open_file(self, asked: "Asked") -> tuple[int, bytes]:
        path, flags, wish = self._path(asked), asked.number(), asked.attributes()
        if len(self._open) >= MOST_OPEN:
            raise Failed("Too many files are open.")
        if not flags & WRITE:
            await self._files.ask(OPEN_TO_READ, path)
            return self._handle(Reading(self._start, path), path)
        how = "excl" if flags & EXCLUSIVE else "trunc" if flags & TRUNCATE else "creat" if flags & CREATE else "old"
        mode = f"{wish['mode'] & 0o7777:o}" if "mode" in wish else ""
        await self._files.ask(OPEN_TO_WRITE, path, how, mode)
        return self._handle(Writing(self._start, path), path)

    async def _close(self, asked: "Asked") -> tuple[int, bytes]:
        handle = asked.string()
        opened = self._open.pop(handle)
        del self._paths[handle]
        if not isinstance(opened, list):
            await opened.close()
        return _status(OK)

    async def _read(self, asked: "Asked") -> tuple[int, bytes]:
        opened, at, size = self._open[asked.string()], asked.long(), asked.number()
        if not isinstance(opened, Reading):
            raise Failed("It was not opened to be read.")
        data = await opened.read(at, min(size, LONGEST_READ))
        return (DATA, _string(data)) if data else _status(EOF, "End of file.")

    async def _write(self, asked: "Asked") -> tuple[int, bytes]:
        opened, at, data = self._open[asked.string()], asked.long(), asked.string()
        if not isinstance(opened, Writing):
            raise Failed("It was not opened to be written.")
        await opened.write(at, data)
        return _status(OK)

    async def _look(self, asked: "Asked") -> tuple[int, bytes]:
        return ATTRS, _attributes(await self._files.look(self._path(asked), follow=True))

    async def _look_at_link(self, asked: "Asked") -> tuple[int, bytes]:
        return ATTRS, _attributes(await self._files.look(self._path(asked), follow=False))

    async def _look_at_open(self, asked: "Asked") -> tuple[int, bytes]:
        return ATTRS, _attributes(await self._files.look(self._paths[asked.string()], follow=True))

    async def _change(self, asked: "Asked") -> tuple[int, bytes]:
        return await self._set(self._path(asked), asked.attributes())

    async def _change_open(self, asked: "Asked") -> tuple[int, bytes]:
        """Set attributes of an open file, after pending writes, which would change its times."""
        handle = asked.string()
        opened = self._open[handle]
        if isinstance(opened, Writing):
            await opened.close()
        return await self._set(self._paths[handle], asked.attributes())

    async def _set(self, path: str, wish: dict[str, int]) -> tuple[int, bytes]:
        if "size" in wish:
            await self._files.ask('truncate -s "$2" -- "$1"', path, str(wish["size"]))
        if "mode" in wish:
            await self._files.ask('chmod "$2" "$1"', path, f"{wish['mode'] & 0o7777:o}")
        if "mtime" in wish:
            times = (str(wish["atime"]), str(wish["mtime"]))
            await self._files.ask('touch -c -a -d "@$2" "$1" && touch -c -m -d "@$3" "$1"', path, *times)
        if "uid" in wish:
            await self._files.ask('chown "$2" "$1"', path, f"{wish['uid']}:{wish['gid']}")
        return _status(OK)

    async def _open_folder(self, asked: "Asked") -> tuple[int, bytes]:
        path = self._path(asked)
        if len(self._open) >= MOST_OPEN:
            raise Failed("Too many files are open.")
        return self._handle([_entry(*each) for each in await self._files.list(path)], path)

    async def _read_folder(self, asked: "Asked") -> tuple[int, bytes]:
        left = self._open[asked.string()]
        if not isinstance(left, list):
            raise Failed("It is no folder.")
        some = left[:NAMES_AT_ONCE]
        del left[:NAMES_AT_ONCE]
        return (NAME, struct.pack(">I", len(some)) + b"".join(some)) if some else _status(EOF, "No more names.")

    async def _remove(self, asked: "Asked") -> tuple[int, bytes]:
        return await self._do(REMOVE, self._path(asked))

    async def _make_folder(self, asked: "Asked") -> tuple[int, bytes]:
        return await self._do('mkdir -- "$1"', self._path(asked))

    async def _remove_folder(self, asked: "Asked") -> tuple[int, bytes]:
        return await self._do('rmdir -- "$1"', self._path(asked))

    async def _rename(self, asked: "Asked") -> tuple[int, bytes]:
        return await self._do(MOVE_TO_NEW, self._path(asked), self._path(asked))

    async def _extended(self, asked: "Asked") -> tuple[int, bytes]:
        if asked.text() != RENAME:
            return _status(UNSUPPORTED, "Not supported.")
        return await self._do(MOVE_OVER, self._path(asked), self._path(asked))

    async def _full_path(self, asked: "Asked") -> tuple[int, bytes]:
        return NAME, struct.pack(">I", 1) + _entry(self._path(asked), None)

    async def _read_link(self, asked: "Asked") -> tuple[int, bytes]:
        told = await self._files.ask('readlink -- "$1"', self._path(asked))
        return NAME, struct.pack(">I", 1) + _entry(told.removesuffix("\n"), None)

    async def _make_link(self, asked: "Asked") -> tuple[int, bytes]:
        return await self._do('ln -s -- "$1" "$2"', asked.text(), self._path(asked))

    async def _do(self, script: str, *words: str) -> tuple[int, bytes]:
        await self._files.ask(script, *words)
        return _status(OK)

    def _path(self, asked: "Asked") -> str:
        return self._files.absolute(asked.text())

    def _handle(self, opened: Reading | Writing | list, path: str) -> tuple[int, bytes]:
        self._next += 1
        handle = str(self._next).encode()
        self._open[handle], self._paths[handle] = opened, path
        return HANDLE, _string(handle)


DEEDS = {
    3: Sftp._open_file, 4: Sftp._close, 5: Sftp._read, 6: Sftp._write, 7: Sftp._look_at_link, 8: Sftp._look_at_open,
    9: Sftp._change, 10: Sftp._change_open, 11: Sftp._open_folder, 12: Sftp._read_folder, 13: Sftp._remove,
    14: Sftp._make_folder, 15: Sftp._remove_folder, 16: Sftp._full_path, 17: Sftp._look, 18: Sftp._rename,
    19: Sftp._read_link, 20: Sftp._make_link, 200: Sftp._extended,
}  # fmt: skip


class Asked:
    """A request's fields, read in order. Raises struct.error or BadMessage."""

    def __init__(self, packet: bytes):
        self._packet, self._at = packet, 1
        self.id = self.number() if len(packet) >= 5 else 0

    def number(self) -> int:
        return self._take(">I", 4)

    def long(self) -> int:
        return self._take(">Q", 8)

    def string(self) -> bytes:
        size = self.number()
        data = self._packet[self._at : self._at + size]
        self._at += size
        if len(data) < size:
            raise BadMessage
        return data

    def text(self) -> str:
        text = self.string().decode(errors="surrogateescape")
        if "\0" in text:
            raise BadMessage
        return text

    def attributes(self) -> dict[str, int]:
        """Return those present of size, uid, gid, mode, atime, mtime."""
        flags, found = self.number(), {}
        if flags & HAS_SIZE:
            found["size"] = self.long()
        if flags & HAS_OWNER:
            found |= {"uid": self.number(), "gid": self.number()}
        if flags & HAS_MODE:
            found["mode"] = self.number()
        if flags & HAS_TIMES:
            found |= {"atime": self.number(), "mtime": self.number()}
        return found

    def _take(self, form: str, size: int) -> int:
        (value,) = struct.unpack_from(form, self._packet, self._at)
        self._at += size
        return value


async def _close_quietly(opened: Reading | Writing | list) -> None:
    try:
        if not isinstance(opened, list):
            await opened.close()
    except Failed:
        pass  # no request is left to answer


def _string(text: str | bytes) -> bytes:
    data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    return struct.pack(">I", len(data)) + data


def _status(code: int, words: str = "") -> tuple[int, bytes]:
    return STATUS, struct.pack(">I", code) + _string(words[:500]) + _string("en")


def _code_of(words: str) -> int:
    said = words.lower()
    if "no such file" in said or "nonexistent" in said:
        return NO_SUCH_FILE
    return PERMISSION_DENIED if "permission denied" in said else FAILURE


def _attributes(look: Look | None) -> bytes:
    if look is None:
        return struct.pack(">I", 0)
    flags = HAS_SIZE | HAS_OWNER | HAS_MODE | HAS_TIMES
    numbers = (value & 0xFFFFFFFF for value in (look.uid, look.gid, look.mode, look.atime, look.mtime))
    return struct.pack(">IQIIIII", flags, look.size, *numbers)


def _entry(name: str, look: Look | None) -> bytes:
    """Encode a directory entry, with its `ls -l` line."""
    line = name
    if look:
        when = time.strftime("%b %d %Y", time.gmtime(look.mtime))
        line = f"{stat.filemode(look.mode)} 1 {look.uid:<8} {look.gid:<8} {look.size:>8} {when} {name}"
    return _string(name) + _string(line) + _attributes(look)
