"""File access in a task through its shell and `cat`, for SFTP.

One shell runs all requests; a file's content is streamed by its own program, as clients go in order.
"""

import posixpath
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence

from asyncssh import SFTPAttrs, SFTPError, SFTPName
from asyncssh.constants import FX_FAILURE, FX_NO_SUCH_FILE, FX_PERMISSION_DENIED

from runtimes.contract.access import Session

LOOP = (
    "printf F; pwd; nl='\n'; while IFS= read -r line; do eval \"$line\" 2>&1 </dev/null; printf '\\0\\0%s\\0' $?; done"
)
"""Of which $nl is a line feed, which no line can hold."""
END = re.compile(rb"\0\0(\d+)\0\Z")
LONGEST_ANSWER = 64 * 1024 * 1024
STAT = "stat -c '%f %s %u %g %X %Y'"
LIST = f'cd -- "$1" && set -- .* * && printf \'%s\\0\' "$@" && {{ {STAT} -- "$@" 2>/dev/null; true; }}'
READS = 'if [ "$2" = 0 ]; then exec cat -- "$1"; fi; exec tail -c "+$(($2 + 1))" -- "$1"'
WRITES = '{ [ "$2" = 0 ] || dd bs=1 seek="$2" count=0 2>/dev/null; exec cat; } 1<>"$1"'
Start = Callable[[Sequence[str]], Awaitable[Session]]


class Failed(SFTPError):
    """A command in the task failed, with its message."""

    def __init__(self, words: str):
        super().__init__(_code_of(words), words[:500])


class TaskFiles:
    """Files of a task; `shell` runs LOOP, its first "F" already read."""

    def __init__(self, shell: Session):
        self._shell = shell
        self._base = "/"

    async def begin(self) -> None:
        output = b""
        while not output.endswith(b"\n") and (more := await self._shell.read()):
            output += more
        self._base = output.removesuffix(b"\n").decode(errors="surrogateescape")

    def absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._base, path))

    async def stat(self, path: str, *, follow: bool) -> SFTPAttrs:
        return _read_attributes(await self.run(f'{STAT} {"-L " if follow else ""}-- "$1"', path))

    async def list(self, path: str) -> list[SFTPName]:
        """Return the entries of a folder, without attributes where `stat` failed."""
        *names, output = (await self.run(LIST, path)).split("\0")
        lines = output.splitlines()
        for pattern in ("*", ".*"):  # an unmatched pattern stays
            if len(lines) < len(names) and pattern in names:
                names.remove(pattern)
        known = map(_read_attributes, lines) if len(lines) == len(names) else [SFTPAttrs() for _ in names]
        return [
            SFTPName(name.encode(errors="surrogateescape"), attrs=attrs)
            for name, attrs in zip(names, known, strict=True)
        ]

    async def run(self, script: str, *args: str) -> str:
        """Return the output of a script with `args` as $1, $2, ... Raises Failed."""
        quoted = " ".join(shlex.quote(arg).replace("\n", "'\"$nl\"'") for arg in args)
        await self._shell.write(f"(set -- {quoted}; {script})\n".encode(errors="surrogateescape"))
        output = bytearray()
        while not (end := END.search(output, max(len(output) - 16, 0))):
            more = await self._shell.read()
            if not more or len(output) > LONGEST_ANSWER:
                raise Failed("The shell in the task has ended.")
            output += more
        text = bytes(output[: end.start()]).decode(errors="surrogateescape")
        if int(end[1]):
            raise Failed(text.strip().rpartition("\n")[2] or "It could not be done.")
        return text


class FileReader:
    """A file read in order; another offset restarts its program."""

    def __init__(self, start: Start, path: str):
        self._start, self.path = start, path
        self._program: Session | None = None
        self._at, self._rest = 0, b""

    async def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes, b"" at the end. Raises Failed."""
        if self._program is None or at != self._at:
            await self.close()
            self._program = await self._start(["/bin/sh", "-c", READS, "sh", self.path, str(at)])
            self._at, self._rest = at, b""
        data = self._rest
        while len(data) < size and (more := await self._program.read()):
            data += more
        if not data and await self._program.wait():
            raise Failed((await self._program.read_error()).decode(errors="replace").strip())
        data, self._rest = data[:size], data[size:]
        self._at += len(data)
        return data

    async def close(self) -> None:
        if self._program:
            await self._program.close()
            self._program = None


class FileWriter:
    def __init__(self, start: Start, path: str):
        self._start, self.path = start, path
        self._program: Session | None = None
        self._at = 0

    async def write(self, at: int, data: bytes) -> None:
        """Write at an offset. Raises Failed, also for earlier writes."""
        if self._program is None or at != self._at:
            await self.close()
            self._program = await self._start(["/bin/sh", "-c", WRITES, "sh", self.path, str(at)])
            self._at = at
        await self._program.write(data)
        self._at += len(data)

    async def close(self) -> None:
        """Wait until all is written. Raises Failed."""
        program, self._program = self._program, None
        if program:
            try:
                await program.write_eof()
                words = (await program.read_error()).decode(errors="replace").strip()
                if await program.wait():
                    raise Failed(words or "It could not be written.")
            finally:
                await program.close()


def _read_attributes(line: str) -> SFTPAttrs:
    """Parse a line of STAT; a time is kept to 32 bits, as SFTP 3 sends it. Raises Failed."""
    try:
        mode, size, uid, gid, atime, mtime = line.split()
        times = {"atime": int(atime) & 0xFFFFFFFF, "mtime": int(mtime) & 0xFFFFFFFF}
        return SFTPAttrs(size=int(size), uid=int(uid), gid=int(gid), permissions=int(mode, 16), **times)
    except ValueError:
        raise Failed(line.strip() or "It cannot be looked at.") from None


def _code_of(message: str) -> int:
    lower = message.lower()
    if "no such file" in lower or "nonexistent" in lower:
        return FX_NO_SUCH_FILE
    return FX_PERMISSION_DENIED if "permission denied" in lower else FX_FAILURE
