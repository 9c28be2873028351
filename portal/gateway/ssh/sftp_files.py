"""File access in a task through its shell and `cat`, for SFTP.

One shell runs all requests; a file's content is streamed by its own program, as clients go in order.
"""

import posixpath
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from runtimes.base import Session

LOOP = (
    "printf F; pwd; nl='\n'; while IFS= read -r line; do eval \"$line\" 2>&1 </dev/null; printf '\\0\\0%s\\0' $?; done"
)
"""Of which $nl is a line feed, which no line can hold."""
END = re.compile(rb"\0\0(\d+)\0\Z")
LONGEST_ANSWER = 64 * 1024 * 1024
LOOK = "stat -c '%f %s %u %g %X %Y'"
LIST = f'cd -- "$1" && set -- .* * && printf \'%s\\0\' "$@" && {{ {LOOK} -- "$@" 2>/dev/null; true; }}'
READS = 'if [ "$2" = 0 ]; then exec cat -- "$1"; fi; exec tail -c "+$(($2 + 1))" -- "$1"'
WRITES = '{ [ "$2" = 0 ] || dd bs=1 seek="$2" count=0 2>/dev/null; exec cat; } 1<>"$1"'
Start = Callable[[Sequence[str]], Awaitable[Session]]


class Failed(Exception):
    """A command in the task failed, with its message."""


class Look(NamedTuple):
    """Attributes of a file as in os.stat, `mode` with the file type, times in seconds since 1970."""

    mode: int
    size: int
    uid: int
    gid: int
    atime: int
    mtime: int


class Files:
    """Files of a task; `shell` runs LOOP, its first "F" already read."""

    def __init__(self, shell: Session):
        self._shell = shell
        self._base = "/"

    async def begin(self) -> None:
        said = b""
        while not said.endswith(b"\n") and (more := await self._shell.read()):
            said += more
        self._base = said.removesuffix(b"\n").decode(errors="surrogateescape")

    def absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._base, path))

    async def look(self, path: str, *, follow: bool) -> Look:
        return _look(await self.ask(f'{LOOK} {"-L " if follow else ""}-- "$1"', path))

    async def list(self, path: str) -> list[tuple[str, Look | None]]:
        """Return (name, attributes), None where `stat` failed."""
        *names, told = (await self.ask(LIST, path)).split("\0")
        lines = told.splitlines()
        for pattern in ("*", ".*"):  # an unmatched pattern stays
            if len(lines) < len(names) and pattern in names:
                names.remove(pattern)
        known = map(_look, lines) if len(lines) == len(names) else [None] * len(names)
        return list(zip(names, known, strict=True))

    async def ask(self, script: str, *words: str) -> str:
        """Return the output of a script with `words` as $1, $2, ... Raises Failed."""
        quoted = " ".join(shlex.quote(word).replace("\n", "'\"$nl\"'") for word in words)
        await self._shell.write(f"(set -- {quoted}; {script})\n".encode(errors="surrogateescape"))
        said = bytearray()
        while not (end := END.search(said, max(len(said) - 16, 0))):
            more = await self._shell.read()
            if not more or len(said) > LONGEST_ANSWER:
                raise Failed("The shell in the task has ended.")
            said += more
        text = bytes(said[: end.start()]).decode(errors="surrogateescape")
        if int(end[1]):
            raise Failed(text.strip().rpartition("\n")[2] or "It could not be done.")
        return text


class Reading:
    """A file read in order; another offset restarts its program."""

    def __init__(self, start: Start, path: str):
        self._start, self._path = start, path
        self._program: Session | None = None
        self._at, self._rest = 0, b""

    async def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes, b"" at the end. Raises Failed."""
        if self._program is None or at != self._at:
            await self.close()
            self._program = await self._start(["/bin/sh", "-c", READS, "sh", self._path, str(at)])
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


class Writing:
    def __init__(self, start: Start, path: str):
        self._start, self._path = start, path
        self._program: Session | None = None
        self._at = 0

    async def write(self, at: int, data: bytes) -> None:
        """Write at an offset. Raises Failed, also for earlier writes."""
        if self._program is None or at != self._at:
            await self.close()
            self._program = await self._start(["/bin/sh", "-c", WRITES, "sh", self._path, str(at)])
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


def _look(line: str) -> Look:
    try:
        mode, *numbers = line.split()
        return Look(int(mode, 16), *map(int, numbers))
    except (ValueError, TypeError):
        raise Failed(line.strip() or "It cannot be looked at.") from None
