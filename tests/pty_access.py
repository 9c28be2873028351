"""A way into tasks for tests of the doors: real programs on real pseudo-terminals, of this machine and of no task.

The real one is LocalAccess, with tests of its own. `endings` lets a test end "the task" of a shell.
"""

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from typing import Any

from runtimes.contract.access import PtySize
from runtimes.contract.errors import Rejected


class PtySession:
    def __init__(self, process, master: int):
        self.process, self.master = process, master
        os.set_blocking(master, False)

    async def read(self, n: int = 65536) -> bytes:
        while True:
            try:
                return os.read(self.master, n)
            except BlockingIOError:
                await asyncio.sleep(0.005)
            except OSError:  # the other end is closed: that is how a pty ends
                return b""

    async def read_error(self, n: int = 65536) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self.master, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.005)

    async def write_eof(self) -> None:
        await self.write(b"\x04")

    def resize(self, size: PtySize) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))

    def send_signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    async def wait(self) -> int:
        return await asyncio.to_thread(self.process.wait)

    async def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            await self.wait()


class PtyAccess:
    """argv is not run: a plain sh is, which greets with nothing but its prompt."""

    def __init__(self, **options):
        self.sessions: list[PtySession] = []
        self.refusal = ""

    async def exec(self, uuid, argv, *, pty: PtySize | None = None, env=None, cwd=None) -> PtySession:
        if self.refusal:
            raise Rejected(self.refusal)
        master, slave = open_pty(pty)
        usual = {"PATH": os.environ["PATH"], "PS1": "$ ", "LANG": "C.UTF-8", "TESSERA_TASK": uuid}
        process = start_shell(slave, usual | dict(env or {}))
        os.close(slave)
        self.sessions.append(PtySession(process, master))
        return self.sessions[-1]

    async def dial(self, uuid, port):
        raise ConnectionRefusedError


def open_pty(size: PtySize) -> tuple[int, int]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
    return master, slave


def start_shell(slave: int, env: dict[str, str]) -> subprocess.Popen:
    """Start a shell whose controlling terminal is `slave`: whoever leads a session gets the first that it opens.

    Not by a preexec_fn: Python code between fork and exec may wait for ever for a lock of another thread.
    """
    begin = f"exec env --default-signal=INT /bin/sh <{os.ttyname(slave)}"  # else ignored in a shell's background job
    ends: dict[str, Any] = {"stdin": slave, "stdout": slave, "stderr": slave}
    return subprocess.Popen(["/bin/sh", "-c", begin], **ends, env=env, start_new_session=True)
