"""Child processes of the embedded mode: start, watch, restart, stop. Knows nothing of what they do.

Only processes of a child's own session are ever signalled. A job of the local runtime leads a session of its own, so
neither a stop nor a crash of the platform reaches it.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
LOG_CAP_BYTES = 10 * 1024 * 1024
FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 5.0
SETTLED_AFTER_S = 10.0
POLL_S = 0.1

libc = ctypes.CDLL(None)  # loaded here: nothing may be loaded between fork and exec


class Failure(Exception):
    """The embedded mode cannot go on: what happened, and what the person at the keyboard can do."""

    def __init__(self, cause: str, remedy: str):
        super().__init__(f"{cause}\n  {remedy}")
        self.cause, self.remedy = cause, remedy


@dataclass
class Program:
    """What to run. `before` prepares each start (a stale lock file); `is_ready` takes the pid of the newest start."""

    name: str
    argv: list[str]
    log: Path
    env: dict[str, str] = field(default_factory=dict)
    stop_signal: int = signal.SIGTERM
    last_signal: int = signal.SIGKILL
    pass_fds: tuple[int, ...] = ()
    before: Callable[[], None] = lambda: None
    is_ready: Callable[[int], bool] = lambda pid: True


class Child:
    """One program, kept running: `tend` restarts it when it is gone, later and later while it keeps failing."""

    def __init__(self, program: Program):
        self.program = program
        self.process: subprocess.Popen | None = None
        self.started_at = 0.0
        self.delay_s = FIRST_DELAY_S
        self.start_at = 0.0

    @property
    def pid(self) -> int:
        return self.process.pid if self.process else 0

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        program = self.program
        program.before()
        rotate(program.log)
        with open(program.log, "ab") as log:
            self.process = subprocess.Popen(
                program.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **program.env},
                pass_fds=program.pass_fds,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.started_at = time.monotonic()

    def tend(self) -> bool:
        """Restart the program if it is gone and its delay is over. True if it was started now."""
        if self.is_running():
            return False
        now = time.monotonic()
        if self.process:
            self._note_end(now)
        if now < self.start_at:
            return False
        self.start()
        return True

    def _note_end(self, now: float) -> None:
        kill_session(self.pid)  # the pool of a killed worker, which would hold its broker connection
        self.process = None
        if now - self.started_at > SETTLED_AFTER_S:
            self.delay_s = FIRST_DELAY_S
        self.start_at = now + self.delay_s
        self.delay_s = min(self.delay_s * 2, LONGEST_DELAY_S)

    def wait_until_ready(self, timeout_s: float) -> None:
        """Raises Failure with the end of the program's log when it ends or does not answer in time."""
        program, deadline = self.program, time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not self.is_running():
                raise Failure(f"{program.name} ended at once:\n{tail(program.log)}", f"Its whole log: {program.log}")
            if program.is_ready(self.pid):
                return
            time.sleep(0.02)
        raise Failure(f"{program.name} did not answer within {timeout_s:.0f} s.", f"Its log: {program.log}")

    def signal(self, number: int) -> None:
        if self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def stop_all(children: list[Child], within_s: float) -> None:
    """Ask all at once, wait, then kill what is left."""
    for child in children:
        child.signal(child.program.stop_signal)
    deadline = time.monotonic() + within_s
    while any(child.is_running() for child in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    kill_all(children)


def kill_all(children: list[Child]) -> None:
    for child in children:
        child.signal(child.program.last_signal)
    for child in children:
        if child.process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(timeout=1)
            kill_session(child.pid)


def kill_session(leader: int) -> None:
    """Kill what a dead child left in its own session. Sessions of jobs are others, so no job is hit."""
    for pid in session_members(leader):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def session_members(leader: int) -> list[int]:
    """Living processes in the session of `leader`, also when the leader itself is gone."""
    found = []
    if leader and sys.platform.startswith("linux"):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                state, _, _, session = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == leader and state != "Z":
                    found.append(int(name))
    return found


def die_with_parent() -> None:
    """In the child before exec: a supervisor that was killed takes its servers with it, not the jobs."""
    if sys.platform.startswith("linux"):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def rotate(log: Path) -> None:
    """Keep one old file when a log is over its cap; asked at each start, so a program cannot fill the disk by dying."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_CAP_BYTES:
            log.replace(log.with_suffix(".old.log"))


def tail(log: Path, size: int = 1500) -> str:
    with contextlib.suppress(FileNotFoundError):
        return log.read_bytes()[-size:].decode(errors="replace")
    return ""
