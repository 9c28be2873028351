"""Start helper processes of a task, and read what they report. Few imports, for the shim."""

import json
import os
import select
import signal
import sys
from collections.abc import Sequence


def spawn_helper(
    path: Sequence[str], module: str, args: Sequence[str], out: int, err: int, source: int | None = None
) -> int:
    """Run a module's main() in an isolated Python; return its pid. module: below `shim`. source: stdin."""
    code = (
        f"import sys; sys.path[:0] = {list(path)!r}; from runtimes.local.shim.{module} import main; main(*sys.argv[1:])"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, *args]
    actions = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
    actions += [(os.POSIX_SPAWN_DUP2, source, 0)] if source is not None else []
    return os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsigmask=(), setsigdef=(signal.SIGPIPE,))


class ReportPipe:
    """A pipe of JSON lines, read without waiting. writer: its other end, for the caller to close."""

    def __init__(self, poll: select.poll):
        self.poll, self.unfinished = poll, b""
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reader, False)
        poll.register(self.reader, select.POLLIN)

    def read(self) -> list[dict]:
        """Return the records that came since the last call."""
        try:
            while data := os.read(self.reader, 65536):
                self.unfinished += data
            unregister(self.poll, self.reader)
        except BlockingIOError:
            pass
        *lines, self.unfinished = self.unfinished.split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        unregister(self.poll, self.reader)
        os.close(self.reader)


def unregister(poll: select.poll, fd: int) -> None:
    """Poll a pipe without writers no more: it would always be ready."""
    try:
        poll.unregister(fd)
    except KeyError:
        pass
