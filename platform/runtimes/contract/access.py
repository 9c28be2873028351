"""The way into a running task: programs started in it, ports that it listens on."""

import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class PtySize(NamedTuple):
    columns: int
    rows: int


class Session(Protocol):
    """A program started inside a running task.

    Ends with the task, or when its holder closes or dies: SIGHUP, then SIGKILL. Children survive unless they hold the
    session's streams.
    """

    async def read(self, n: int = 65536) -> bytes:
        """Return stdout, or all output with a pty; b"" is the end."""

    async def read_error(self, n: int = 65536) -> bytes:
        """Return stderr; b"" is the end, at once with a pty."""

    async def write(self, data: bytes) -> None:
        """Write to stdin, waiting for the program; dropped once unreadable."""

    async def write_eof(self) -> None:
        """End input: close the pipe, or Ctrl-D on a pty."""

    def resize(self, size: PtySize) -> None:
        """Resize the pty, if any."""

    def send_signal(self, number: int) -> None:
        """Signal the process group, unless ended."""

    async def wait(self) -> int:
        """Return the exit code, or minus the signal's number."""

    async def close(self) -> None:
        """Hang up. Idempotent."""


class Access(Protocol):
    """Starts programs and reaches ports in running tasks, by uuid in hex.

    Raises Rejected for no such running task, Unavailable without an answer.
    """

    async def exec(
        self,
        uuid: str,
        argv: Sequence[str],
        *,
        pty: PtySize | None = None,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
    ) -> Session:
        """Run a program with the task's account, limits, environment and view of files.

        env: on top. cwd: relative to the work directory. Rejected also if it cannot be started.
        """

    async def dial(self, uuid: str, port: int) -> socket.socket:
        """Connect to a loopback port of this task; non-blocking. Raises ConnectionRefusedError without a listener of
        its own.
        """
