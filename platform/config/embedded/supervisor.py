"""Supervisor of child processes in embedded mode: start, watch, restart, stop.

It signals only processes of a child's own session. Local jobs have sessions of their own and survive it.
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
from typing import BinaryIO

from runtimes.local.processes import list_processes

PR_SET_PDEATHSIG = 1
LOG_CAP_BYTES = 10 * 1024 * 1024
FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 5.0
SETTLED_AFTER_S = 10.0
POLL_S = 0.1

libc = ctypes.CDLL(None)  # here, since nothing may be loaded between fork and exec


class Failure(Exception):
    """Embedded mode cannot go on: the cause, and what the user can do."""

    def __init__(self, cause: str, remedy: str):
        super().__init__(f"{cause}\n  {remedy}")
        self.cause, self.remedy = cause, remedy


@dataclass
class Program:
    """A program to supervise. `before`: at each start."""

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
    """One supervised program; `restart_if_dead` restarts it with growing delays."""

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
        with open_log(program.log) as log:
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

    def restart_if_dead(self) -> bool:
        """Restart the program if it ended; return whether it did. Where that fails, a later call tries again."""
        if self.is_running():
            return False
        now = time.monotonic()
        if self.process:
            self._note_end(now)
        if now < self.start_at:
            return False
        try:
            self.start()
        except OSError:  # such as a full disk
            self._rest(now)
            return False
        return True

    def _note_end(self, now: float) -> None:
        kill_session(self.pid)  # a killed worker's pool would hold its broker connection
        self.process = None
        if now - self.started_at > SETTLED_AFTER_S:
            self.delay_s = FIRST_DELAY_S
        self._rest(now)

    def _rest(self, now: float) -> None:
        self.start_at = now + self.delay_s
        self.delay_s = min(self.delay_s * 2, LONGEST_DELAY_S)

    def wait_until_ready(self, timeout_s: float) -> None:
        """Wait until ready. Raises Failure."""
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
    """Stop all at once; then kill the rest."""
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
    """Kill what an ended child left in its session."""
    for pid in session_members(leader):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def session_members(leader: int) -> list[int]:
    """List living processes of a session."""
    if not leader or not sys.platform.startswith("linux"):
        return []
    return [process.pid for process in list_processes() if process.session == leader]


def die_with_parent() -> None:
    """End with the supervisor; runs before exec."""
    if sys.platform.startswith("linux"):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def say(words: str, end: str = "\n") -> None:
    """Print, where a full disk or a closed pipe may swallow it."""
    with contextlib.suppress(OSError):
        print(words, end=end, flush=True)


def open_log(log: Path) -> BinaryIO:
    """Open a log to append to it. On a disk so full that there can be no log, what is written is dropped."""
    rotate(log)
    try:
        return open(log, "ab")
    except OSError:
        return open(os.devnull, "ab")


def rotate(log: Path) -> None:
    """Keep one old log file; at each start, for crash loops."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_CAP_BYTES:
            log.replace(log.with_suffix(".old.log"))


def tail(log: Path, size: int = 1500) -> str:
    with contextlib.suppress(FileNotFoundError):
        return log.read_bytes()[-size:].decode(errors="replace")
    return ""
